#include "sim/sim.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <simgrid/engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base.h"
#include "sim/lane.h"
#include "sim/platform_xml.h"

/* Address sanitizer does not know SimGrid's hand-made stacks. */
#ifdef __SANITIZE_ADDRESS__
#define CONTEXTS "thread"
#else
#define CONTEXTS "raw"
#endif

/* Latency and bandwidth are the platform's; SimGrid adds no factors of its own.  Its log is off:
 * what goes wrong is told by our own messages. */
static const char *const settings[] = {
    "foretrain-sim",
    "--cfg=network/model:CM02",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/crosstraffic:0",
    "--cfg=surf/precision:1e-13",
    "--cfg=maxmin/precision:1e-12",
    "--cfg=contexts/factory:" CONTEXTS,
    "--cfg=contexts/stack-size:64",
    "--cfg=contexts/guard-size:0",
    "--log=root.app:file:/dev/null",
};

/* SimGrid reads a platform by path only; this one needs no name on any disk. */
static int load_platform(const struct text *xml, struct err *err)
{
    int file = memfd_create("platform", 0);
    if (file < 0 || write(file, xml->data, (size_t)xml->length) != xml->length)
        return err_add_code(err, 70, "simulator: cannot store the platform: %s", strerror(errno));
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    simgrid_load_platform(path);
    close(file);
    return 0;
}

static int start_engine(const struct traffic *traffic, const struct fold *fold, struct err *err)
{
    char *argv[sizeof(settings) / sizeof(*settings) + 1] = {NULL};
    int argc = (int)(sizeof(settings) / sizeof(*settings));
    for (int i = 0; i < argc; i++)
        argv[i] = base_copy(settings[i]);
    simgrid_init(&argc, argv);
    struct text xml = {0};
    platform_xml_print(&xml, traffic, fold);
    int status = load_platform(&xml, err);
    text_release(&xml);
    return status;
}

static bool is_noisy(const struct noise *noise)
{
    return noise->compute_cv > 0 || noise->straggler_fraction > 0;
}

static bool is_affordable(const struct run *run, const struct schedule *schedule,
                          const struct traffic *traffic, const struct fold *fold)
{
    return traffic_messages(traffic, schedule, fold->member, fold->count) * run->iterations <=
           SIM_MESSAGE_LIMIT;
}

/* Decide on the grain and find the classes that go with it. */
static struct fold *choose(const struct run *run, const struct schedule *schedule,
                           struct traffic *traffic, enum grain *grain)
{
    struct fold *full = fold_none(traffic);
    bool exact_noise = *grain == GRAIN_AUTO && is_noisy(&run->noise) &&
                       is_affordable(run, schedule, traffic, full);
    if (*grain == GRAIN_FULL || exact_noise) {
        *grain = GRAIN_FULL;
        return full;
    }
    fold_free(full);
    struct fold *fold = fold_build(traffic);
    if (*grain == GRAIN_AUTO)
        *grain = is_affordable(run, schedule, traffic, fold) ? GRAIN_FOLDED : GRAIN_COARSE;
    if (*grain == GRAIN_FOLDED && fold->count == traffic->fabric->ranks)
        *grain = GRAIN_FULL;
    if (*grain == GRAIN_COARSE)
        traffic_merge(traffic);
    return fold;
}

static int sim_run(const struct run *run, const struct schedule *schedule, struct trace *trace,
                   struct err *err)
{
    assert(schedule->sealed && run->iterations >= 1);
    enum grain grain = run->grain;
    struct traffic *traffic = traffic_build(run->fabric, schedule);
    struct fold *fold = choose(run, schedule, traffic, &grain);
    struct simulation simulation = {
        .run = run,
        .schedule = schedule,
        .traffic = traffic,
        .fold = fold,
        .slowdown =
            grain == GRAIN_FULL ? 0 : noise_expected_slowest(&run->noise, traffic->fabric->ranks),
    };
    snprintf(trace->backend, sizeof(trace->backend), "sim");
    snprintf(trace->grain, sizeof(trace->grain), "%s", grain_names[grain]);
    trace->schedule_hash = schedule_hash(schedule);
    trace->ranks = traffic->fabric->ranks;
    trace->entities = fold->count;
    int status = start_engine(traffic, fold, err);
    if (status == 0)
        status = simulation_run(&simulation, trace, err);
    fold_free(fold);
    traffic_free(traffic);
    if (status < 0)
        trace_release(trace);
    return status;
}

const struct backend backend_sim = {.name = "sim", .run = sim_run};
