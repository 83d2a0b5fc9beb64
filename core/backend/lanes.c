#include "core/backend/lanes.h"

struct slowdown device_slowdown(const struct device *device)
{
    return (struct slowdown){fmin(device->compute_slowdown.value, 1),
                             fmin(device->communication_slowdown.value, 1)};
}

/* ---- forward: from seconds to moments ---- */

/* The step that a lane runs, or waits to begin; of what is received, its sender's lane does. */
struct turn {
    int32_t iteration, step;
    int32_t met; /* of its dependencies: what has ended has ended */
    bool running;
    double since;  /* when its factor last changed [s] */
    double left;   /* what was to do then [s] */
    double factor; /* how much longer that takes than alone */
};

struct walk {
    const struct schedule *schedule;
    const double *seconds;
    struct slowdown slowdown;
    double factor;
    int32_t iterations;
    struct when *when;
    int32_t stages;
    struct turn (*turn)[LANE_COUNT]; /* (stages) */
    double *next;                    /* (stages) when the first of its steps ends [s] */
    bool *stirred;                   /* (stages) whether a step ended, there or elsewhere for it */
};

/* The next step of @lane, from the one its turn names on; none: iteration is past the last. */
static void seek(const struct walk *walk, int32_t stage, enum lane lane)
{
    struct turn *turn = &walk->turn[stage][lane];
    for (; turn->iteration < walk->iterations; turn->iteration++, turn->step = 0)
        for (; turn->step < walk->schedule->step_count; turn->step++)
            if (step_lane(&walk->schedule->step[turn->step], stage) == lane)
                return;
}

/* The turn of whoever receives what @step sends, or NULL. */
static struct turn *receiver(const struct walk *walk, const struct step *step)
{
    return step->lane >= LANE_SEND ? &walk->turn[step->collective.to][step->lane + 1] : NULL;
}

static bool is_free(const struct walk *walk, struct turn *turn, double now)
{
    const struct schedule *schedule = walk->schedule;
    const struct step *step = &schedule->step[turn->step];
    for (; step->dep_begin + turn->met < step->dep_end; turn->met++) {
        struct dep dep = schedule->dep[step->dep_begin + turn->met];
        int64_t before = turn->iteration - dep.distance;
        if (before >= 0 && !(walk->when[before * schedule->step_count + dep.step].end <= now))
            return false;
    }
    const struct turn *other = receiver(walk, step);
    return !other || (other->step == turn->step && other->iteration == turn->iteration);
}

/* How long a step lasts that begins @now and repeats what was before; others: 0. */
static double repeat_seconds(const struct walk *walk, int32_t iteration, int32_t id, double now)
{
    const struct step *step = &walk->schedule->step[id];
    int64_t first = (int64_t)iteration * walk->schedule->step_count;
    return step->kind == STEP_REPEAT
               ? step->repeat.times * (now - walk->when[first + step->repeat.since].end)
               : 0;
}

/* Whether a lane works now; what repeats is neither slowed down nor slows anything down. */
static bool is_busy(const struct walk *walk, const struct turn *turn)
{
    return turn->running && walk->schedule->step[turn->step].kind != STEP_REPEAT;
}

static void begin_steps(struct walk *walk, int32_t stage, double now)
{
    for (int32_t lane = 0; lane < LANE_COUNT; lane++) {
        struct turn *turn = &walk->turn[stage][lane];
        if (lane == LANE_RECEIVE || lane == LANE_RECEIVE_BACK || turn->running ||
            turn->iteration == walk->iterations || !is_free(walk, turn, now))
            continue;
        double longer = walk->schedule->step[turn->step].kind == STEP_COMPUTE ? walk->factor : 1;
        double seconds =
            walk->seconds[turn->step] + repeat_seconds(walk, turn->iteration, turn->step, now);
        *turn = (struct turn){.iteration = turn->iteration,
                              .step = turn->step,
                              .running = true,
                              .since = now,
                              .left = longer * seconds,
                              .factor = 1};
        walk->when[(int64_t)turn->iteration * walk->schedule->step_count + turn->step].begin = now;
    }
}

/* What runs beside what may have changed. */
static void change_speeds(struct walk *walk, int32_t stage, double now)
{
    struct turn *all = walk->turn[stage];
    bool computes = is_busy(walk, &all[LANE_COMPUTE]);
    bool flies = is_busy(walk, &all[LANE_ROW]) || is_busy(walk, &all[LANE_COLUMN]) ||
                 is_busy(walk, &all[LANE_TENSOR]);
    double slower = 1 + walk->slowdown.communication;
    const double factor[LANE_SEND] = {[LANE_COMPUTE] = flies ? 1 + walk->slowdown.compute : 1,
                                      [LANE_ROW] = computes ? slower : 1,
                                      [LANE_COLUMN] = computes ? slower : 1,
                                      [LANE_INPUT] = 1,
                                      [LANE_TENSOR] = computes ? slower : 1};
    for (int32_t lane = 0; lane < LANE_SEND; lane++) {
        struct turn *turn = &all[lane];
        if (!is_busy(walk, turn) || turn->factor == factor[lane])
            continue;
        turn->left -= (now - turn->since) / turn->factor;
        turn->since = now;
        turn->factor = factor[lane];
    }
}

static double end_of(const struct turn *turn)
{
    return turn->running ? turn->since + turn->left * turn->factor : INFINITY;
}

static void end_steps(struct walk *walk, int32_t stage, double now)
{
    for (int32_t lane = 0; lane < LANE_COUNT; lane++) {
        struct turn *turn = &walk->turn[stage][lane];
        if (!(end_of(turn) <= now))
            continue;
        const struct step *step = &walk->schedule->step[turn->step];
        struct turn *other = receiver(walk, step);
        walk->when[(int64_t)turn->iteration * walk->schedule->step_count + turn->step].end = now;
        turn->running = false;
        turn->step++;
        seek(walk, stage, (enum lane)lane);
        walk->stirred[stage] = true;
        if (!other)
            continue;
        other->step++;
        seek(walk, step->collective.to, step->lane + 1);
        for (int32_t s = 0; s < walk->stages; s++) /* who sends there may begin, too */
            walk->stirred[s] = true;
    }
}

/* fmax() of what is a number, without a call. */
static double later(double a, double b)
{
    return a > b ? a : b;
}

/* Where nothing slows anything down, a step begins when its lane and what it depends on are free,
 * and lasts as long as alone.  The walk over moments says the same in twice the time. */
static void run_freely(struct walk *walk)
{
    const struct schedule *schedule = walk->schedule;
    AUTOFREE double *lane_end = base_alloc(walk->stages * LANE_COUNT, sizeof(*lane_end));
    for (int32_t iteration = 0; iteration < walk->iterations; iteration++)
        for (int32_t id = 0; id < schedule->step_count; id++) {
            const struct step_turn *turn = &schedule->turn[id];
            double begin = lane_end[turn->lane];
            if (turn->other >= 0)
                begin = later(begin, lane_end[turn->other]);
            for (int32_t i = turn->dep_begin; i < turn->dep_end; i++) {
                int64_t before = iteration - schedule->dep[i].distance;
                if (before >= 0)
                    begin = later(
                        begin,
                        walk->when[before * schedule->step_count + schedule->dep[i].step].end);
            }
            double longer = turn->lane % LANE_COUNT == LANE_COMPUTE ? walk->factor : 1;
            double end = begin + longer * walk->seconds[id];
            if (turn->repeats)
                end += repeat_seconds(walk, iteration, id, begin);
            lane_end[turn->lane] = end;
            if (turn->other >= 0)
                lane_end[turn->other] = end;
            walk->when[(int64_t)iteration * schedule->step_count + id] = (struct when){begin, end};
        }
}

static void run_walk(struct walk *walk)
{
    for (int64_t i = 0; i < (int64_t)walk->iterations * walk->schedule->step_count; i++)
        walk->when[i].end = INFINITY;
    for (int32_t stage = 0; stage < walk->stages; stage++) {
        walk->stirred[stage] = true;
        for (int32_t lane = 0; lane < LANE_COUNT; lane++)
            seek(walk, stage, (enum lane)lane);
    }
    for (double now = 0; now < INFINITY;) {
        double next = INFINITY;
        for (int32_t stage = 0; stage < walk->stages; stage++) {
            if (walk->stirred[stage]) {
                begin_steps(walk, stage, now);
                change_speeds(walk, stage, now);
                walk->next[stage] = INFINITY;
                for (int32_t lane = 0; lane < LANE_COUNT; lane++)
                    walk->next[stage] = fmin(walk->next[stage], end_of(&walk->turn[stage][lane]));
                walk->stirred[stage] = false;
            }
            next = fmin(next, walk->next[stage]);
        }
        now = next;
        for (int32_t stage = 0; stage < walk->stages && now < INFINITY; stage++)
            if (walk->next[stage] <= now)
                end_steps(walk, stage, now);
    }
}

void lanes_run(const struct schedule *schedule, struct slowdown slowdown, const double *seconds,
               double factor, int32_t iterations, struct when *when)
{
    struct walk walk = {.schedule = schedule,
                        .seconds = seconds,
                        .slowdown = slowdown,
                        .factor = factor,
                        .iterations = iterations,
                        .when = when,
                        .stages = schedule_stages(schedule)};
    if (slowdown.compute == 0 && slowdown.communication == 0) {
        run_freely(&walk);
        return;
    }
    walk.turn = base_alloc(walk.stages, sizeof(*walk.turn));
    walk.next = base_alloc(walk.stages, sizeof(*walk.next));
    walk.stirred = base_alloc(walk.stages, sizeof(*walk.stirred));
    run_walk(&walk);
    free(walk.turn);
    free(walk.next);
    free(walk.stirred);
}

/* ---- backward: from moments to seconds ---- */

/* The time up to which something ran, in pieces that do not overlap. */
struct busy {
    struct when *piece;
    double *before; /* (count) the length of all earlier pieces [s] */
    int64_t count;
};

ORDER_BY(compare_begins, struct when, begin)

/* The first rank of @stage that @trace tells of, or -1. */
static int32_t traced_rank(const struct schedule *schedule, const struct trace *trace,
                           int32_t stage)
{
    for (int64_t i = 0; i < trace->span_count; i++)
        if (schedule_stage(schedule, trace->span[i].rank) == stage)
            return trace->span[i].rank;
    return -1;
}

/* When @rank computed, or had a collective in flight that slows it down. */
static struct busy busy_new(const struct schedule *schedule, const struct trace *trace,
                            int32_t rank, enum step_kind kind)
{
    struct busy busy = {.piece = base_alloc(trace->span_count, sizeof(*busy.piece)),
                        .before = base_alloc(trace->span_count, sizeof(double))};
    int64_t spans = 0;
    for (int64_t i = 0; i < trace->span_count; i++)
        if (trace->span[i].rank == rank && schedule->step[trace->span[i].step].kind == kind &&
            schedule->step[trace->span[i].step].lane < LANE_SEND)
            busy.piece[spans++] = (struct when){trace->span[i].begin, trace->span[i].end};
    qsort(busy.piece, (size_t)spans, sizeof(*busy.piece), compare_begins);
    for (int64_t i = 0; i < spans; i++) {
        struct when *last = busy.count ? &busy.piece[busy.count - 1] : NULL;
        if (last && busy.piece[i].begin <= last->end) {
            last->end = fmax(last->end, busy.piece[i].end);
            continue;
        }
        if (last)
            busy.before[busy.count] = busy.before[busy.count - 1] + last->end - last->begin;
        busy.piece[busy.count++] = busy.piece[i];
    }
    return busy;
}

OWN_RELEASE(busy, it->piece, it->before)

/* How long it was busy until @time. */
static double busy_until(const struct busy *busy, double time)
{
    int64_t low = 0, high = busy->count; /* the last piece that begins before @time is below high */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (busy->piece[middle].begin < time)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    struct when last = busy->piece[low - 1];
    return busy->before[low - 1] + fmin(time, last.end) - last.begin;
}

double *lanes_alone(const struct schedule *schedule, struct slowdown slowdown,
                    const struct trace *trace)
{
    int32_t stages = schedule_stages(schedule);
    double *seconds = base_alloc(schedule->step_count, sizeof(*seconds));
    AUTOFREE int32_t *rank = base_alloc(stages, sizeof(*rank));
    AUTOFREE struct busy(*other)[STEP_KIND_COUNT] = base_alloc(stages, sizeof(*other));
    const double lost[STEP_KIND_COUNT] = {
        [STEP_COMPUTE] = slowdown.compute / (1 + slowdown.compute),
        [STEP_COLLECTIVE] = slowdown.communication / (1 + slowdown.communication)};
    bool any = slowdown.compute > 0 || slowdown.communication > 0;
    for (int32_t s = 0; s < stages; s++) {
        rank[s] = traced_rank(schedule, trace, s);
        if (!any)
            continue;
        other[s][STEP_COMPUTE] = busy_new(schedule, trace, rank[s], STEP_COLLECTIVE);
        other[s][STEP_COLLECTIVE] = busy_new(schedule, trace, rank[s], STEP_COMPUTE);
    }
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->span[i];
        int32_t s = schedule->turn[span->step].lane / LANE_COUNT;
        if (span->iteration != trace->iterations - 1 || span->rank != rank[s] ||
            schedule->turn[span->step].repeats)
            continue;
        const struct step *step = &schedule->step[span->step];
        seconds[span->step] = span->end - span->begin;
        if (any && lost[step->kind] > 0 && step->lane < LANE_SEND)
            seconds[span->step] -=
                lost[step->kind] * (busy_until(&other[s][step->kind], span->end) -
                                    busy_until(&other[s][step->kind], span->begin));
    }
    for (int32_t s = 0; s < stages; s++) {
        busy_release(&other[s][STEP_COMPUTE]);
        busy_release(&other[s][STEP_COLLECTIVE]);
    }
    return seconds;
}
