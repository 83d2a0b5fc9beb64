#include "core/backend/analytic.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend/cost.h"
#include "core/backend/floor.h"

/* What a rank sends in the rounds of one pattern. */
struct hop {
    int32_t to; /* -1: nothing */
    double latency, bandwidth;
};

/* A collective while it is being timed. */
struct walk {
    const struct fabric *fabric;
    const struct schedule *schedule;
    int32_t step, ranks;
    struct collective collective;
    struct hop **hop;     /* (patterns)(ranks), NULL until needed */
    double *ready, *next; /* (ranks) when each rank enters this and the next round */
    double *seconds;      /* (ranks) of each rank's message in this round */
    bool level;           /* all ranks are ready at the same time */
};

static struct hop *walk_hops(struct walk *walk, int32_t pattern)
{
    if (walk->hop[pattern])
        return walk->hop[pattern];
    struct hop *hop = walk->hop[pattern] = base_alloc(walk->ranks, sizeof(*hop));
    for (int32_t rank = 0; rank < walk->ranks; rank++) {
        hop[rank].to = schedule_send_peer(walk->schedule, walk->step, rank, pattern);
        if (hop[rank].to < 0)
            continue;
        struct route route = fabric_route(walk->fabric, rank, hop[rank].to);
        hop[rank].latency = route.latency;
        hop[rank].bandwidth = fabric_route_bandwidth(walk->fabric, &route);
    }
    return hop;
}

/* Time every message of a round.  @return whether all ranks send and all messages take equally
 * long, so that ranks that are level stay so. */
static bool walk_price(struct walk *walk, const struct hop *hop, double bytes)
{
    bool equal = true;
    for (int32_t rank = 0; rank < walk->ranks; rank++) {
        walk->seconds[rank] =
            hop[rank].to < 0 ? 0 : hop[rank].latency + bytes / hop[rank].bandwidth;
        equal = equal && hop[rank].to >= 0 && walk->seconds[rank] == walk->seconds[0];
    }
    return equal;
}

/* A message starts when both its ends have entered the round. */
static void walk_round(struct walk *walk, const struct hop *hop)
{
    memcpy(walk->next, walk->ready, (size_t)walk->ranks * sizeof(*walk->next));
    for (int32_t rank = 0; rank < walk->ranks; rank++) {
        int32_t to = hop[rank].to;
        if (to < 0)
            continue;
        double start = walk->ready[rank] > walk->ready[to] ? walk->ready[rank] : walk->ready[to];
        double end = start + walk->seconds[rank];
        if (walk->next[rank] < end)
            walk->next[rank] = end;
        if (walk->next[to] < end)
            walk->next[to] = end;
    }
    double *swap = walk->ready;
    walk->ready = walk->next;
    walk->next = swap;
}

/* Walk the @count equal rounds from @round on. */
static void walk_rounds(struct walk *walk, int32_t round, int32_t count)
{
    const struct hop *hop = walk_hops(walk, collective_pattern(&walk->collective, round));
    double bytes = collective_share(&walk->collective, round) * (double)walk->collective.elements;
    bool equal = walk_price(walk, hop, bytes);
    if (walk->level && equal) {
        for (int32_t rank = 0; rank < walk->ranks; rank++)
            walk->ready[rank] += count * walk->seconds[rank];
        return;
    }
    walk->level = false;
    for (int32_t i = 0; i < count; i++)
        walk_round(walk, hop);
}

static int32_t equal_rounds(const struct collective *c, int32_t round, int32_t rounds)
{
    int32_t end = round + 1;
    while (end < rounds && collective_pattern(c, end) == collective_pattern(c, round) &&
           collective_share(c, end) == collective_share(c, round))
        end++;
    return end - round;
}

double analytic_collective(const struct fabric *fabric, const struct schedule *schedule,
                           int32_t step)
{
    int32_t ranks = grid_ranks(schedule->grid);
    assert(ranks == fabric->ranks);
    struct walk walk = {.fabric = fabric,
                        .schedule = schedule,
                        .step = step,
                        .ranks = ranks,
                        .collective = schedule_collective(schedule, step),
                        .ready = base_alloc(ranks, sizeof(double)),
                        .next = base_alloc(ranks, sizeof(double)),
                        .seconds = base_alloc(ranks, sizeof(double)),
                        .level = true};
    int32_t rounds = collective_rounds(&walk.collective);
    int32_t patterns = rounds > 0 ? collective_pattern_count(&walk.collective) : 0;
    walk.hop = base_alloc(patterns, sizeof(*walk.hop));
    for (int32_t round = 0, count; round < rounds; round += count) {
        count = equal_rounds(&walk.collective, round, rounds);
        walk_rounds(&walk, round, count);
    }
    double seconds = 0;
    for (int32_t rank = 0; rank < ranks; rank++)
        seconds = fmax(seconds, walk.ready[rank]);
    for (int32_t pattern = 0; pattern < patterns; pattern++)
        free(walk.hop[pattern]);
    free(walk.hop);
    free(walk.ready);
    free(walk.next);
    free(walk.seconds);
    return seconds;
}

/* Not below the floor either, which knows what the recurrence does not: links are shared. */
static double collective_seconds(const struct run *run, const struct schedule *schedule,
                                 int32_t step)
{
    if (schedule->step[step].collective.algorithm == ALGORITHM_NCCL)
        return run_nccl_seconds(run, &schedule->step[step]);
    return fmax(analytic_collective(run->fabric, schedule, step),
                floor_collective(run->fabric, schedule, step).seconds);
}

/* The seconds of every step (step_count). */
static double *step_seconds(const struct run *run, const struct schedule *schedule)
{
    double *seconds = base_alloc(schedule->step_count, sizeof(*seconds));
    double slowest = noise_expected_slowest(&run->noise, grid_ranks(schedule->grid));
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind == STEP_COLLECTIVE) {
            int32_t like = schedule_first_like(schedule, id);
            seconds[id] = like < id ? seconds[like] : collective_seconds(run, schedule, id);
        } else {
            seconds[id] = run_local_seconds(run, step) * (step->kind == STEP_COMPUTE ? slowest : 1);
        }
    }
    return seconds;
}

static double deps_end(const struct schedule *schedule, const struct step *step, const double *ends,
                       int32_t iteration)
{
    double end = 0;
    for (int32_t i = step->dep_begin; i < step->dep_end; i++) {
        struct dep dep = schedule->dep[i];
        if (dep.distance <= iteration)
            end = fmax(end,
                       ends[(int64_t)(iteration - dep.distance) * schedule->step_count + dep.step]);
    }
    return end;
}

/* One rank stands for all: without contention and with equal compute they never differ. */
static int analytic_run(const struct run *run, const struct schedule *schedule, struct trace *trace,
                        struct err *err)
{
    assert(schedule->sealed && run->iterations >= 1);
    if (backend_check(schedule, err))
        return -1;
    snprintf(trace->backend, sizeof(trace->backend), "analytic");
    snprintf(trace->grain, sizeof(trace->grain), "closed-form");
    trace->schedule_hash = schedule_hash(schedule);
    trace->ranks = grid_ranks(schedule->grid);
    trace->entities = 1;

    double *seconds = step_seconds(run, schedule);
    double *ends = base_alloc((int64_t)run->iterations * schedule->step_count, sizeof(*ends));
    double lane_end[LANE_COUNT] = {0};
    for (int32_t iteration = 0; iteration < run->iterations; iteration++)
        for (int32_t id = 0; id < schedule->step_count; id++) {
            const struct step *step = &schedule->step[id];
            double begin = fmax(lane_end[step->lane], deps_end(schedule, step, ends, iteration));
            double end = begin + seconds[id];
            ends[(int64_t)iteration * schedule->step_count + id] = lane_end[step->lane] = end;
            trace_add(trace, (struct span){iteration, 0, id, begin, end});
            trace_finish(trace, iteration, end);
        }
    free(ends);
    free(seconds);
    return 0;
}

const struct backend backend_analytic = {.name = "analytic", .run = analytic_run};
