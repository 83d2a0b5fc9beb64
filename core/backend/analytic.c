#include "core/backend/analytic.h"

#include "core/backend/floor.h"
#include "core/backend/lanes.h"

/* What a rank sends in the rounds of one pattern. */
struct hop {
    int32_t to; /* -1: nothing */
    double latency, bandwidth;
};

/* A collective while it is being timed. */
struct timing {
    const struct fabric *fabric;
    const struct schedule *schedule;
    int32_t step, ranks;
    int32_t from, to; /* the ranks of the stage: from ... to - 1 */
    struct collective collective;
    struct hop **hop;     /* (patterns)(ranks), NULL until needed */
    double *ready, *next; /* (ranks) when each rank enters this and the next round */
    double *seconds;      /* (ranks) of each rank's message in this round */
    bool level;           /* all ranks are ready at the same time */
};

/* Whether messages of a round start together.  Ranks of a double tree run apart, and so do those of
 * rows and columns that share a card: with equal parts they would be as much too slow as they are
 * too fast without. */
static bool in_step(const struct timing *timing)
{
    enum axis axis = timing->schedule->step[timing->step].collective.axis;
    return axis != AXIS_ROW && axis != AXIS_COLUMN &&
           timing->collective.algorithm != ALGORITHM_DOUBLE_TREE;
}

/* Messages of a round that meet on a link share it, if they start together or routes choose. */
static struct hop *timing_hops(struct timing *timing, int32_t pattern)
{
    if (timing->hop[pattern])
        return timing->hop[pattern];
    const struct fabric *fabric = timing->fabric;
    struct hop *hop = timing->hop[pattern] = base_alloc(timing->ranks, sizeof(*hop));
    AUTOFREE int32_t *to =
        schedule_send_peers(timing->schedule, timing->step, timing->collective.channel, pattern);
    bool share = fabric->chooses || in_step(timing);
    AUTOFREE int32_t *messages = base_alloc(share ? fabric->link_count : 0, sizeof(*messages));
    for (int32_t pass = !share; pass < 2; pass++)
        for (int32_t rank = timing->from; rank < timing->to; rank++) {
            struct route route;
            hop[rank].to = to[rank];
            if (to[rank] < 0)
                continue;
            fabric_route(fabric, rank, to[rank], &route);
            hop[rank].latency = route.latency;
            hop[rank].bandwidth = fabric_route_bandwidth(fabric, &route);
            for (int32_t i = 0; share && i < route.count; i++) {
                int32_t link = route.link[i];
                if (pass == 0)
                    messages[link]++;
                else
                    hop[rank].bandwidth =
                        fmin(hop[rank].bandwidth, fabric->link[link].bandwidth / messages[link]);
            }
        }
    return hop;
}

/* Time every message of a round.  @return whether all ranks send and all messages take equally
 * long, so that ranks in step stay in step. */
static bool timing_price(struct timing *timing, const struct hop *hop, double bytes)
{
    bool equal = true;
    for (int32_t rank = timing->from; rank < timing->to; rank++) {
        timing->seconds[rank] =
            hop[rank].to < 0 ? 0 : hop[rank].latency + bytes / hop[rank].bandwidth;
        equal =
            equal && hop[rank].to >= 0 && timing->seconds[rank] == timing->seconds[timing->from];
    }
    return equal;
}

/* A message starts when both its ends have entered the round. */
static void timing_round(struct timing *timing, const struct hop *hop)
{
    memcpy(timing->next, timing->ready, (size_t)timing->ranks * sizeof(*timing->next));
    for (int32_t rank = timing->from; rank < timing->to; rank++) {
        int32_t to = hop[rank].to;
        if (to < 0)
            continue;
        double start =
            timing->ready[rank] > timing->ready[to] ? timing->ready[rank] : timing->ready[to];
        double end = start + timing->seconds[rank];
        if (timing->next[rank] < end)
            timing->next[rank] = end;
        if (timing->next[to] < end)
            timing->next[to] = end;
    }
    double *swap = timing->ready;
    timing->ready = timing->next;
    timing->next = swap;
}

/* Walk the @count equal rounds from @round on. */
static void timing_rounds(struct timing *timing, int32_t round, int32_t count)
{
    const struct hop *hop = timing_hops(timing, collective_pattern(&timing->collective, round));
    double bytes =
        collective_share(&timing->collective, round) * (double)timing->collective.elements;
    bool equal = timing_price(timing, hop, bytes);
    if (timing->level && equal) {
        for (int32_t rank = timing->from; rank < timing->to; rank++)
            timing->ready[rank] += count * timing->seconds[rank];
        return;
    }
    timing->level = false;
    for (int32_t i = 0; i < count; i++)
        timing_round(timing, hop);
}

static int32_t equal_rounds(const struct collective *c, int32_t round, int32_t rounds)
{
    int32_t end = round + 1;
    while (end < rounds && collective_pattern(c, end) == collective_pattern(c, round) &&
           collective_share(c, end) == collective_share(c, round))
        end++;
    return end - round;
}

static double channel_seconds(const struct fabric *fabric, const struct schedule *schedule,
                              int32_t step, const struct collective *channel)
{
    int32_t ranks = grid_ranks(schedule->grid), each = ranks / schedule_stages(schedule);
    int32_t stage = schedule->step[step].stage;
    assert(ranks == fabric->ranks);
    struct timing timing = {.fabric = fabric,
                            .schedule = schedule,
                            .step = step,
                            .ranks = ranks,
                            .from = stage * each,
                            .to = (stage + 1) * each,
                            .collective = *channel,
                            .ready = base_alloc(ranks, sizeof(double)),
                            .next = base_alloc(ranks, sizeof(double)),
                            .seconds = base_alloc(ranks, sizeof(double)),
                            .level = true};
    int32_t rounds = collective_rounds(&timing.collective);
    int32_t patterns = rounds > 0 ? collective_pattern_count(&timing.collective) : 0;
    timing.hop = base_alloc(patterns, sizeof(*timing.hop));
    for (int32_t round = 0, count; round < rounds; round += count) {
        count = equal_rounds(&timing.collective, round, rounds);
        timing_rounds(&timing, round, count);
    }
    double seconds = 0;
    for (int32_t rank = timing.from; rank < timing.to; rank++) /* who receives has the same time */
        seconds = fmax(seconds, timing.ready[rank]);
    for (int32_t pattern = 0; pattern < patterns; pattern++)
        free(timing.hop[pattern]);
    free(timing.hop);
    free(timing.ready);
    free(timing.next);
    free(timing.seconds);
    return seconds;
}

double analytic_collective(const struct fabric *fabric, const struct schedule *schedule,
                           int32_t step)
{
    struct collective c = backend_collective(fabric, schedule, step);
    double seconds = 0;
    for (int32_t i = 0; i < collective_channels(&c); i++) {
        struct collective channel = collective_channel(&c, i);
        seconds = fmax(seconds, channel_seconds(fabric, schedule, step, &channel));
    }
    return seconds;
}

/* All that the seconds of a collective depend on. */
static uint64_t describe(uint64_t layout, const struct schedule *schedule, int32_t step)
{
    struct collective c = schedule_collective(schedule, step);
    const int64_t parts[] = {
        c.op,
        c.algorithm,
        c.ranks,
        c.group,
        c.grid.rows,
        c.grid.columns,
        c.channels,
        c.chunks,
        c.elements,
        schedule->step[step].collective.axis,
        schedule->step[step].stage,
        schedule->step[step].collective.to,
    };
    layout = base_hash(layout, &schedule->grid, sizeof(schedule->grid));
    layout = base_hash(layout, &schedule->far, sizeof(schedule->far));
    return base_hash(layout, parts, sizeof(parts));
}

/* Also not below its @floor, in which all messages share links. */
static double collective_seconds(const struct run *run, const struct schedule *schedule,
                                 int32_t step, double floor)
{
    if (schedule->step[step].collective.algorithm == ALGORITHM_NCCL)
        return run_nccl(run, &schedule->step[step]).seconds;
    uint64_t what = run->layout ? describe(run->layout, schedule, step) : 0;
    double seconds;
    if (!what || !memory_find(run->memory, what, &seconds)) {
        seconds = fmax(analytic_collective(run->fabric, schedule, step), floor);
        memory_keep(what ? run->memory : NULL, what, seconds);
    }
    return seconds;
}

/* In place of the floors of collectives, the @seconds of every step (step_count). */
static void find_seconds(const struct run *run, const struct schedule *schedule, double *seconds)
{
    double slowest = noise_slowest(&run->noise, grid_ranks(schedule->grid), run->iterations - 1);
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind == STEP_COLLECTIVE) {
            int32_t like = schedule_first_like(schedule, id);
            seconds[id] = like < id ? seconds[like]
                                    : run->device->collective_launch.value +
                                          collective_seconds(run, schedule, id, seconds[id]);
        } else {
            seconds[id] = run_local_seconds(run, step) * (step->kind == STEP_COMPUTE ? slowest : 1);
        }
    }
}

/* Times of steps; where collectives of several communicators share a link they take longer than
 * alone, until it has the time to carry the bytes of all. */
static void run_lanes(const struct run *run, const struct schedule *schedule, struct when *when,
                      struct trace *trace)
{
    int32_t steps = schedule->step_count;
    AUTOFREE double *seconds = base_alloc(steps, sizeof(*seconds));
    double floor = floor_iteration(run, schedule, seconds).seconds, step = 0;
    find_seconds(run, schedule, seconds);
    for (int i = 0; i < 64 && step < floor * (1 - 1e-9); i++) {
        for (int32_t id = 0; id < steps && step > 0; id++)
            seconds[id] *= schedule->step[id].kind == STEP_COLLECTIVE ? floor / step : 1;
        lanes_run(schedule, device_slowdown(run->device), seconds, 1, run->iterations, when);
        for (int64_t k = 0; k < (int64_t)run->iterations * steps; k++)
            trace_finish(trace, (int32_t)(k / steps), when[k].end);
        step = trace_step_time(trace);
    }
}

/* One rank is like all of its stage: without contention and with equal compute none differs. */
static int analytic_run(const struct run *run, const struct schedule *schedule, struct trace *trace,
                        struct err *err)
{
    assert(schedule->sealed && run->iterations >= 1);
    struct run recorded = *run;
    recorded.traced_ranks = 1; /* one of each stage runs a step, and is recorded */
    if (backend_check(&recorded, schedule, err))
        return -1;
    snprintf(trace->backend, sizeof(trace->backend), "analytic");
    snprintf(trace->grain, sizeof(trace->grain), "closed-form");
    trace->schedule_hash = schedule_hash(schedule);
    trace->ranks = grid_ranks(schedule->grid);
    int32_t stages = schedule_stages(schedule), each = trace->ranks / stages;
    trace->entities = stages;

    int32_t steps = schedule->step_count;
    AUTOFREE struct when *when = base_alloc((int64_t)run->iterations * steps, sizeof(*when));
    run_lanes(run, schedule, when, trace);
    for (int32_t iteration = 0; iteration < run->iterations; iteration++)
        for (int32_t id = 0; id < steps; id++) {
            struct when step = when[(int64_t)iteration * steps + id];
            for (int32_t stage = 0; stage < stages; stage++)
                if (step_lane(&schedule->step[id], stage) != LANE_COUNT)
                    trace_add(trace,
                              (struct span){iteration, stage * each, id, step.begin, step.end});
        }
    return 0;
}

const struct backend backend_analytic = {.name = "analytic", .run = analytic_run};
