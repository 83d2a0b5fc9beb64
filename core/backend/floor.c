#include "core/backend/floor.h"

enum { EXIT_INTERNAL = 70 };
static const double slack = 1e-9;

/* What collectives of a stage cost at least. */
struct bounds {
    double *latency; /* (ranks) [s] of the rounds of each rank, one after the other */
    double *load;    /* (links) [s] each link is busy */
    int32_t *used;   /* (links) those that are */
    int32_t used_count;
    int64_t rounds;
    int32_t from, to; /* the ranks of the stage: from ... to - 1 */
    double seconds;   /* of one collective [s] */
};

OWN_RELEASE(bounds, it->latency, it->load, it->used)

static void occupy(struct bounds *bounds, int32_t link, double seconds)
{
    if (bounds->load[link] == 0 && seconds > 0)
        bounds->used[bounds->used_count++] = link;
    bounds->load[link] += seconds;
}

/* What @times such collectives cost is added to @sum. */
static void bounds_add(struct bounds *sum, const struct bounds *other, int32_t times)
{
    for (int32_t rank = other->from; rank < other->to; rank++)
        sum->latency[rank] += times * other->latency[rank];
    for (int32_t i = 0; i < other->used_count; i++)
        sum->load[other->used[i]] += times * other->load[other->used[i]];
    sum->rounds += times * other->rounds;
}

/* Add the @bytes that each rank sends in all @rounds of pattern @pattern to their routes. */
static void lay_pattern(struct bounds *bounds, const struct fabric *fabric,
                        const struct schedule *schedule, int32_t step, int32_t channel,
                        int32_t pattern, int32_t rounds, double bytes)
{
    AUTOFREE double *pay = base_alloc(fabric->ranks, sizeof(*pay));
    AUTOFREE int32_t *to = schedule_send_peers(schedule, step, channel, pattern);
    bool sends = schedule->step[step].lane >= LANE_SEND; /* and another lane receives */
    bool eager = sends && bytes <= rounds * fabric->eager;
    for (int32_t rank = bounds->from; rank < bounds->to; rank++) {
        if (to[rank] < 0)
            continue;
        struct route route;
        fabric_route(fabric, rank, to[rank], &route);
        pay[rank] = eager ? pay[rank] : fmax(pay[rank], route.latency);
        if (!sends)
            pay[to[rank]] = fmax(pay[to[rank]], route.latency);
        for (int32_t i = 0; i < route.count; i++)
            occupy(bounds, route.link[i], bytes / fabric->link[route.link[i]].bandwidth);
    }
    for (int32_t rank = bounds->from; rank < bounds->to; rank++)
        bounds->latency[rank] += rounds * pay[rank];
}

/* The part of the bytes that must enter, or leave, one of @parts; half an all-reduce keeps one. */
static double moved_part(enum collective_op op, int32_t parts)
{
    return op == COLLECTIVE_ALL_REDUCE ? 1 : (parts - 1.0) / parts;
}

/* (links) Whether a message between neighbours of the first stage crosses each; NULL: there is one
 * stage.  The caller frees it. */
static bool *stage_links(const struct fabric *fabric, struct grid grid)
{
    int32_t stages = grid_axis_size(grid, AXIS_PIPELINE), ranks = fabric->ranks / stages;
    bool *own = stages > 1 ? base_alloc(fabric->link_count, sizeof(*own)) : NULL;
    for (int32_t rank = 0; own && ranks > 1 && rank < ranks; rank++) {
        struct route route;
        fabric_route(fabric, rank, (rank + 1) % ranks, &route);
        for (int32_t i = 0; i < route.count; i++)
            own[route.link[i]] = true;
    }
    return own;
}

/* With any algorithm of NCCL, all bytes pass the narrowest part of a node, its links or its network
 * cards, and the uplinks of each group of nodes, each way.  The other ranks of a node, or of nodes
 * between, have as many bytes at the same time. */
static void lay_nccl(struct bounds *bounds, const struct fabric *fabric, enum collective_op op,
                     struct grid grid, enum axis axis, double bytes)
{
    const struct nccl_world *world = &fabric->nccl;
    AUTOFREE bool *own = stage_links(fabric, grid);
    int32_t each = world->ranks / world->nodes;
    struct grid_nodes part = grid_axis_nodes(grid, axis, each);
    int32_t nodes = part.nodes, ranks = part.each * nodes;
    struct nccl_world own_world = ranks < world->ranks ? nccl_part(world, part) : *world;
    bool between =
        nodes > 1 && (part.each == 1 || own_world.inter_bandwidth < own_world.intra_bandwidth);
    double slowest = between ? world->inter_bandwidth : world->intra_bandwidth;
    double all = bytes * (each / part.each);
    for (int32_t i = 0; i < fabric->link_count; i++) {
        const struct link *link = &fabric->link[i];
        int32_t level = link->tier - fabric->nic_tier;
        if (own && !own[i])
            continue;
        if (link->tier == (between ? fabric->nic_tier : 0))
            occupy(bounds, i,
                   between ? moved_part(op, nodes) * all / slowest
                           : moved_part(op, ranks) * bytes / slowest);
        else if (level > 0 && level < own_world.level_count && own_world.level[level].groups > 1)
            occupy(bounds, i,
                   moved_part(op, own_world.level[level].groups) * bytes /
                       own_world.level[level].bandwidth);
    }
}

static void lay_channel(struct bounds *bounds, const struct fabric *fabric,
                        const struct schedule *schedule, int32_t step, const struct collective *c)
{
    bounds->rounds = collective_rounds(c);
    int32_t patterns = bounds->rounds > 0 ? collective_pattern_count(c) : 0;
    AUTOFREE int32_t *rounds = base_alloc(patterns, sizeof(*rounds));
    AUTOFREE double *bytes = base_alloc(patterns, sizeof(*bytes));
    for (int32_t round = 0; round < bounds->rounds; round++) {
        int32_t pattern = collective_pattern(c, round);
        rounds[pattern]++;
        bytes[pattern] += collective_share(c, round) * (double)c->elements;
    }
    for (int32_t i = 0; i < patterns; i++)
        lay_pattern(bounds, fabric, schedule, step, c->channel, i, rounds[i], bytes[i]);
}

/* Channels run side by side: their latencies do not add up, their bytes do.  Takes over arrays of
 * links from @idle, unless they are NULL: all links are idle there. */
static struct bounds bounds_build(const struct fabric *fabric, const struct schedule *schedule,
                                  int32_t step, struct bounds idle)
{
    struct collective c = backend_collective(fabric, schedule, step);
    int32_t each = fabric->ranks / schedule_stages(schedule), stage = schedule->step[step].stage;
    struct bounds bounds = {
        .latency = base_alloc(fabric->ranks, sizeof(double)),
        .load = idle.load ? idle.load : base_alloc(fabric->link_count, sizeof(double)),
        .used = idle.used ? idle.used : base_alloc(fabric->link_count, sizeof(int32_t)),
        .from = stage * each,
        .to = (stage + 1) * each};
    if (c.algorithm == ALGORITHM_NCCL) {
        if (c.ranks > 1)
            lay_nccl(&bounds, fabric, c.op, schedule->grid, schedule->step[step].collective.axis,
                     (double)c.elements);
        return bounds;
    }
    lay_channel(&bounds, fabric, schedule, step, &c);
    double *longest = bounds.latency;
    for (int32_t i = 1; i < collective_channels(&c); i++) {
        struct collective channel = collective_channel(&c, i);
        bounds.latency = base_alloc(fabric->ranks, sizeof(double));
        lay_channel(&bounds, fabric, schedule, step, &channel);
        for (int32_t rank = bounds.from; rank < bounds.to; rank++)
            longest[rank] = fmax(longest[rank], bounds.latency[rank]);
        free(bounds.latency);
    }
    bounds.latency = longest;
    return bounds;
}

/* Of all collectives of an iteration.  A lane of collectives runs one after the other on a rank,
 * and a link carries the bytes of all: sums over one rank, or over one link, are sound; a sum of
 * each collective's slowest rank or link is not, as ranks may run apart. */
struct floors {
    double *load;                   /* (links) [s] each link is busy with all lanes */
    struct bounds lane[LANE_COUNT]; /* with that load; a NULL latency: it has no collectives */
    struct bounds *step;            /* (step_count) of the first of equal ones; no load */
};

static struct floors floors_new(const struct fabric *fabric, const struct schedule *schedule)
{
    struct floors floors = {.load = base_alloc(fabric->link_count, sizeof(double)),
                            .step = base_alloc(schedule->step_count, sizeof(*floors.step))};
    AUTOFREE int32_t *times = base_alloc(schedule->step_count, sizeof(*times));
    struct bounds idle = {0};
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        /* NCCL's of other stages are on other links */
        if (step->kind == STEP_COLLECTIVE &&
            (step->collective.algorithm != ALGORITHM_NCCL || step->stage == 0))
            times[schedule_first_like(schedule, id)] += step_runs(step);
    }
    for (int32_t id = 0; id < schedule->step_count; id++) {
        if (schedule->step[id].kind != STEP_COLLECTIVE || schedule_first_like(schedule, id) < id)
            continue;
        struct bounds *lane = &floors.lane[schedule->step[id].lane], *own = &floors.step[id];
        *own = bounds_build(fabric, schedule, id, idle);
        if (!lane->latency)
            *lane = (struct bounds){.latency = base_alloc(fabric->ranks, sizeof(double)),
                                    .load = floors.load};
        bounds_add(lane, own, times[id]);
        for (int32_t rank = own->from; rank < own->to; rank++)
            own->seconds = fmax(own->seconds, own->latency[rank]);
        for (int32_t i = 0; i < own->used_count; i++) {
            own->seconds = fmax(own->seconds, own->load[own->used[i]]);
            own->load[own->used[i]] = 0;
        }
        idle = *own;
        own->load = NULL;
        own->used = NULL;
    }
    free(idle.load);
    free(idle.used);
    return floors;
}

static void floors_release(struct floors *floors, const struct schedule *schedule)
{
    for (int32_t id = 0; id < schedule->step_count; id++)
        if (schedule->step[id].kind == STEP_COLLECTIVE && schedule_first_like(schedule, id) == id)
            bounds_release(&floors->step[id]);
    free(floors->step);
    for (enum lane lane = 0; lane < LANE_COUNT; lane++)
        free(floors->lane[lane].latency);
    free(floors->load);
}

static int32_t largest(const double *value, int32_t count)
{
    int32_t index = 0;
    for (int32_t i = 1; i < count; i++)
        if (value[index] < value[i])
            index = i;
    return index;
}

static struct floor latency_floor(const struct bounds *bounds, int32_t rank)
{
    struct floor floor = {.seconds = bounds->latency[rank], .tier = -1, .next = -1};
    snprintf(floor.what, sizeof(floor.what), "latency of %" PRId64 " rounds", bounds->rounds);
    return floor;
}

static struct floor bounds_floor(const struct bounds *bounds, const struct fabric *fabric)
{
    struct floor floor = latency_floor(bounds, largest(bounds->latency, fabric->ranks));
    if (fabric->link_count == 0)
        return floor;
    int32_t busiest = largest(bounds->load, fabric->link_count);
    floor.tier = fabric->link[busiest].tier;
    for (int32_t i = 0; i < fabric->link_count; i++) {
        double beside = bounds->load[i] > 0 ? bounds->load[i] / bounds->load[busiest] : 0;
        if (beside > floor.beside && fabric->link[i].tier != floor.tier) {
            floor.next = fabric->link[i].tier;
            floor.beside = beside;
        }
    }
    if (floor.seconds < bounds->load[busiest]) {
        floor.seconds = bounds->load[busiest];
        snprintf(floor.what, sizeof(floor.what), "bytes over %s", fabric->tier_name[floor.tier]);
    }
    return floor;
}

struct floor floor_collective(const struct fabric *fabric, const struct schedule *schedule,
                              int32_t step)
{
    AUTORELEASE(bounds)
    struct bounds bounds = bounds_build(fabric, schedule, step, (struct bounds){0});
    return bounds_floor(&bounds, fabric);
}

double floor_latency(const struct run *run, const struct schedule *schedule, int32_t step)
{
    if (schedule->step[step].collective.algorithm == ALGORITHM_NCCL)
        return run_nccl(run, &schedule->step[step]).latency;
    AUTORELEASE(bounds)
    struct bounds bounds = bounds_build(run->fabric, schedule, step, (struct bounds){0});
    return bounds.latency[largest(bounds.latency, run->fabric->ranks)];
}

static struct floor communication_floor(const struct fabric *fabric, const struct floors *floors)
{
    struct floor floor = {.tier = -1};
    for (enum lane lane = 0; lane < LANE_COUNT; lane++) {
        if (!floors->lane[lane].latency)
            continue;
        struct floor lane_floor = bounds_floor(&floors->lane[lane], fabric);
        if (floor.seconds < lane_floor.seconds)
            floor = lane_floor;
    }
    return floor;
}

double *floor_loads(const struct fabric *fabric, const struct schedule *schedule)
{
    struct floors floors = floors_new(fabric, schedule);
    double *load = floors.load;
    floors.load = NULL;
    floors_release(&floors, schedule);
    return load;
}

/* How much faster than without noise the last iteration may have computed. */
static double fastest_factor(const struct run *run)
{
    double factor = 1;
    for (int32_t rank = 0; rank < run->fabric->ranks && run->noise.compute_cv > 0; rank++)
        factor = fmin(factor, noise_factor(&run->noise, rank, run->iterations - 1));
    return factor;
}

/* The floor of the compute or input lane. */
static struct floor local_floor(const struct run *run, const struct schedule *schedule,
                                enum lane lane)
{
    struct floor floor = {.tier = -1};
    int32_t stages = schedule_stages(schedule);
    AUTOFREE double *seconds = base_alloc(stages, sizeof(*seconds));
    snprintf(floor.what, sizeof(floor.what), "all steps of the %s lane",
             schedule_lane(schedule, lane));
    for (int32_t id = 0; id < schedule->step_count; id++)
        if (schedule->step[id].lane == lane)
            seconds[schedule->step[id].stage] +=
                step_runs(&schedule->step[id]) * run_local_seconds(run, &schedule->step[id]);
    floor.seconds = seconds[largest(seconds, stages)];
    if (run->noise.compute_cv > 0)
        floor.seconds *= lane == LANE_COMPUTE ? fastest_factor(run) : 0;
    return floor;
}

static struct floor iteration_floor(const struct run *run, const struct schedule *schedule,
                                    const struct floors *floors)
{
    struct floor floor = local_floor(run, schedule, LANE_COMPUTE);
    struct floor input = local_floor(run, schedule, LANE_INPUT);
    struct floor communication = communication_floor(run->fabric, floors);
    if (floor.seconds < input.seconds)
        floor = input;
    if (floor.seconds < communication.seconds)
        floor = communication;
    return floor;
}

struct floor floor_iteration(const struct run *run, const struct schedule *schedule,
                             double *collective)
{
    struct floors floors = floors_new(run->fabric, schedule);
    struct floor floor = iteration_floor(run, schedule, &floors);
    for (int32_t id = 0; collective && id < schedule->step_count; id++)
        collective[id] = floors.step[id].seconds;
    floors_release(&floors, schedule);
    return floor;
}

static int refuse(struct err *err, const char *subject, double seconds, const struct floor *floor)
{
    return err_add_code(
        err, EXIT_INTERNAL,
        "result refused: %s took %.9g s, %.3g %% less than its floor of %.9g s (%s)", subject,
        seconds, 100 * (1 - seconds / floor->seconds), floor->seconds, floor->what);
}

/* @seconds are the difference of two rounded times of day up to @clock.  NaN is below, too. */
static bool is_below(double seconds, double clock, const struct floor *floor)
{
    return !(seconds + 4 * DBL_EPSILON * clock >= floor->seconds * (1 - slack)) ||
           !isfinite(seconds);
}

static int check_span(const struct schedule *schedule, const struct floors *floors,
                      const struct span *span, struct err *err)
{
    const struct step *step = &schedule->step[span->step];
    if (step->kind != STEP_COLLECTIVE)
        return 0;
    int32_t like = schedule_first_like(schedule, span->step);
    struct floor floor = latency_floor(&floors->step[like], span->rank);
    if (!is_below(span->end - span->begin, span->end, &floor))
        return 0;
    AUTOFREE char *subject = base_format("\"%s\" of rank %" PRId32 " in iteration %" PRId32,
                                         step->name, span->rank, span->iteration);
    refuse(err, subject, span->end - span->begin, &floor);
    return -1;
}

int floor_check(const struct run *run, const struct schedule *schedule, const struct trace *trace,
                struct err *err)
{
    struct floors floors = floors_new(run->fabric, schedule);
    struct floor floor = iteration_floor(run, schedule, &floors);
    int status = 0;
    if (is_below(trace_step_time(trace), trace->iteration_end[trace->iterations - 1], &floor))
        status = refuse(err, "a step", trace_step_time(trace), &floor);
    for (int64_t i = 0; i < trace->span_count; i++)
        if (check_span(schedule, &floors, &trace->span[i], err) < 0)
            status = -1;
    floors_release(&floors, schedule);
    return status;
}
