#include "sim/sim.h"

#include <assert.h>
#include <stdio.h>

#include "sim/engine.h"
#include "sim/lane.h"

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
    int status = engine_start(traffic, fold, err);
    if (status == 0)
        status = simulation_run(&simulation, trace, err);
    fold_free(fold);
    traffic_free(traffic);
    if (status < 0)
        trace_release(trace);
    return status;
}

const struct backend backend_sim = {.name = "sim", .run = sim_run};
