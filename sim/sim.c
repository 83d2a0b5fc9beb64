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

/* The address sanitizer does not know SimGrid's hand-made stacks. */
#ifdef __SANITIZE_ADDRESS__
#define CONTEXTS "thread"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CONTEXTS "thread"
#endif
#endif
#ifndef CONTEXTS
#define CONTEXTS "raw"
#endif

/* Bandwidth is the platform's and latency the actors' (lane.h); SimGrid adds no factors of its own.
 * Its log is off: what goes wrong is told by our own messages.  Stacks are small because there may
 * be tens of thousands, and unguarded because each guard would take two of the 65530 mappings a
 * process may have; the actors need less than half. */
static char settings[][40] = {
    "foretrain-sim",
    "--cfg=network/model:CM02",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/crosstraffic:0",
    "--cfg=surf/precision:1e-13",
    "--cfg=maxmin/precision:1e-12",
    "--cfg=contexts/factory:" CONTEXTS,
    "--cfg=contexts/stack-size:16",
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
    int argc = (int)(sizeof(settings) / sizeof(*settings));
    char *argv[sizeof(settings) / sizeof(*settings) + 1] = {NULL};
    for (int i = 0; i < argc; i++)
        argv[i] = settings[i];
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

static int64_t count_messages(const struct run *run, const struct schedule *schedule,
                              const struct traffic *traffic, const struct fold *fold)
{
    return run->iterations * traffic_messages(traffic, schedule, fold->member, fold->count);
}

static bool wants_every_rank(const struct run *run, const struct schedule *schedule,
                             const struct traffic *traffic, const struct fold *every_rank)
{
    return run->grain == GRAIN_FULL ||
           (run->grain == GRAIN_AUTO && is_noisy(&run->noise) &&
            count_messages(run, schedule, traffic, every_rank) <= SIM_MESSAGE_LIMIT);
}

/* Find the classes to simulate and how many rounds to merge, and put it down as @grain. */
static struct fold *choose(const struct run *run, const struct schedule *schedule,
                           struct traffic *traffic, enum grain *grain)
{
    *grain = GRAIN_FULL;
    struct fold *fold = fold_none(traffic);
    if (wants_every_rank(run, schedule, traffic, fold))
        return fold;
    fold_free(fold);
    fold = fold_build(traffic);
    int64_t messages = count_messages(run, schedule, traffic, fold);
    if (run->grain == GRAIN_COARSE || (run->grain == GRAIN_AUTO && messages > SIM_MESSAGE_LIMIT)) {
        *grain = GRAIN_COARSE;
        traffic_merge(traffic, run->grain == GRAIN_COARSE
                                   ? INT32_MAX
                                   : (int32_t)(messages / SIM_MESSAGE_LIMIT + 1));
    } else if (fold->count < traffic->fabric->ranks) {
        *grain = GRAIN_FOLDED;
    }
    return fold;
}

static int sim_run(const struct run *run, const struct schedule *schedule, struct trace *trace,
                   struct err *err)
{
    assert(schedule->sealed && run->iterations >= 1);
    enum grain grain;
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
