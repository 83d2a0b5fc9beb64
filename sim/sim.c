#include "sim/sim.h"

#include <assert.h>
#include <stdio.h>

#include "sim/engine.h"
#include "sim/lane.h"
#include "sim/smooth.h"

static int64_t count_messages(const struct run *run, const struct schedule *schedule,
                              const struct traffic *traffic, const struct fold *fold)
{
    return run->iterations * traffic_messages(traffic, schedule, fold->member, fold->count);
}

static bool wants_every_rank(const struct run *run, const struct schedule *schedule,
                             const struct traffic *traffic, const struct fold *every_rank)
{
    return run->grain == GRAIN_FULL ||
           (run->grain == GRAIN_AUTO && noise_is_any(&run->noise) &&
            count_messages(run, schedule, traffic, every_rank) <= SIM_MESSAGE_LIMIT);
}

static struct fold *refold(struct fold *fold, const struct traffic *traffic)
{
    fold_free(fold);
    return fold_build(traffic);
}

/* Merge as many rounds as the grain allows and the number of messages requires.  Returns how
 * many. */
static int32_t merge(const struct run *run, enum grain grain, struct traffic *traffic,
                     int64_t messages)
{
    int32_t limit = 1;
    if (run->grain == GRAIN_COARSE)
        limit = INT32_MAX;
    else if (run->grain == GRAIN_AUTO && grain == GRAIN_SMOOTHED)
        limit = (int32_t)(messages / SIM_MESSAGE_LIMIT + 1);
    if (limit > 1)
        traffic_merge(traffic, limit);
    return limit;
}

/* Find the classes to simulate and the number of rounds to merge, and write the grain to @name. */
static struct fold *choose(const struct run *run, const struct schedule *schedule,
                           struct traffic *traffic, char name[static 16])
{
    enum grain grain = GRAIN_FULL;
    int32_t merged = 1;
    struct fold *fold = fold_none(traffic);
    if (!wants_every_rank(run, schedule, traffic, fold)) {
        fold = refold(fold, traffic);
        grain = fold->count < traffic->fabric->ranks ? GRAIN_FOLDED : GRAIN_FULL;
        int64_t limit = grain == GRAIN_FOLDED ? SIM_MESSAGE_LIMIT : SIM_MESSAGE_LIMIT_UNLIKE;
        bool too_many = count_messages(run, schedule, traffic, fold) > limit;
        if (run->grain == GRAIN_SMOOTHED || (run->grain == GRAIN_AUTO && too_many)) {
            grain = GRAIN_SMOOTHED;
            traffic_smooth(traffic);
            fold = refold(fold, traffic);
        }
        grain = run->grain == GRAIN_COARSE ? GRAIN_COARSE : grain;
        merged = merge(run, grain, traffic, count_messages(run, schedule, traffic, fold));
    }
    if (grain == GRAIN_SMOOTHED && merged > 1)
        snprintf(name, 16, "%s/%d", grain_names[grain], merged);
    else
        snprintf(name, 16, "%s", grain_names[grain]);
    return fold;
}

static int sim_run(const struct run *run, const struct schedule *schedule, struct trace *trace,
                   struct err *err)
{
    assert(schedule->sealed && run->iterations >= 1);
    if (backend_check(run, schedule, err))
        return -1;
    struct traffic *traffic = traffic_build(run->fabric, schedule);
    struct fold *fold = choose(run, schedule, traffic, trace->grain);
    struct simulation simulation = {
        .run = run,
        .schedule = schedule,
        .traffic = traffic,
        .fold = fold,
        .messages = count_messages(run, schedule, traffic, fold),
        .slowdown = fold->count == traffic->fabric->ranks
                        ? 0
                        : noise_slowest(&run->noise, traffic->fabric->ranks, run->iterations - 1),
    };
    snprintf(trace->backend, sizeof(trace->backend), "sim");
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
