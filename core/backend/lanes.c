#include "core/backend/lanes.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/base.h"

struct slowdown device_slowdown(const struct device *device)
{
    return (struct slowdown){fmin(device->compute_slowdown.value, 1),
                             fmin(device->communication_slowdown.value, 1)};
}

/* ---- forward: from seconds to moments ---- */

/* The step that a lane runs, or waits to begin. */
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
    struct turn turn[LANE_COUNT];
};

/* The next step of @lane, from the one its turn names on; none: iteration is past the last. */
static void seek(const struct walk *walk, enum lane lane, struct turn *turn)
{
    for (; turn->iteration < walk->iterations; turn->iteration++, turn->step = 0)
        for (; turn->step < walk->schedule->step_count; turn->step++)
            if (walk->schedule->step[turn->step].lane == lane)
                return;
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
    return true;
}

static void begin_steps(struct walk *walk, double now)
{
    for (int32_t lane = 0; lane < LANE_COUNT; lane++) {
        struct turn *turn = &walk->turn[lane];
        if (turn->running || turn->iteration == walk->iterations || !is_free(walk, turn, now))
            continue;
        double longer = walk->schedule->step[turn->step].kind == STEP_COMPUTE ? walk->factor : 1;
        *turn = (struct turn){.iteration = turn->iteration,
                              .step = turn->step,
                              .running = true,
                              .since = now,
                              .left = longer * walk->seconds[turn->step],
                              .factor = 1};
        walk->when[(int64_t)turn->iteration * walk->schedule->step_count + turn->step].begin = now;
    }
}

/* What runs beside what may have changed. */
static void change_speeds(struct walk *walk, double now)
{
    bool computes = walk->turn[LANE_COMPUTE].running;
    bool flies = walk->turn[LANE_ROW].running || walk->turn[LANE_COLUMN].running ||
                 walk->turn[LANE_TENSOR].running;
    double slower = 1 + walk->slowdown.communication;
    const double factor[LANE_COUNT] = {[LANE_COMPUTE] = flies ? 1 + walk->slowdown.compute : 1,
                                       [LANE_ROW] = computes ? slower : 1,
                                       [LANE_COLUMN] = computes ? slower : 1,
                                       [LANE_INPUT] = 1,
                                       [LANE_TENSOR] = computes ? slower : 1};
    for (int32_t lane = 0; lane < LANE_COUNT; lane++) {
        struct turn *turn = &walk->turn[lane];
        if (!turn->running || turn->factor == factor[lane])
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

static void end_steps(struct walk *walk, double now)
{
    for (int32_t lane = 0; lane < LANE_COUNT; lane++) {
        struct turn *turn = &walk->turn[lane];
        if (!(end_of(turn) <= now))
            continue;
        walk->when[(int64_t)turn->iteration * walk->schedule->step_count + turn->step].end = now;
        turn->running = false;
        turn->step++;
        seek(walk, (enum lane)lane, turn);
    }
}

/* Where nothing slows anything down, a step begins when its lane and what it depends on are free,
 * and lasts as long as alone.  The walk over moments says the same in twice the time. */
static void run_freely(struct walk *walk)
{
    const struct schedule *schedule = walk->schedule;
    double lane_end[LANE_COUNT] = {0};
    for (int32_t iteration = 0; iteration < walk->iterations; iteration++)
        for (int32_t id = 0; id < schedule->step_count; id++) {
            const struct step *step = &schedule->step[id];
            double begin = lane_end[step->lane];
            for (int32_t i = step->dep_begin; i < step->dep_end; i++) {
                int64_t before = iteration - schedule->dep[i].distance;
                if (before >= 0)
                    begin =
                        fmax(begin,
                             walk->when[before * schedule->step_count + schedule->dep[i].step].end);
            }
            double longer = step->kind == STEP_COMPUTE ? walk->factor : 1;
            lane_end[step->lane] = begin + longer * walk->seconds[id];
            walk->when[(int64_t)iteration * schedule->step_count + id] =
                (struct when){begin, lane_end[step->lane]};
        }
}

void lanes_run(const struct schedule *schedule, struct slowdown slowdown, const double *seconds,
               double factor, int32_t iterations, struct when *when)
{
    struct walk walk = {schedule, seconds, slowdown, factor, iterations, when, {{0}}};
    if (slowdown.compute == 0 && slowdown.communication == 0) {
        run_freely(&walk);
        return;
    }
    for (int64_t i = 0; i < (int64_t)iterations * schedule->step_count; i++)
        when[i].end = INFINITY;
    for (int32_t lane = 0; lane < LANE_COUNT; lane++)
        seek(&walk, (enum lane)lane, &walk.turn[lane]);
    for (double now = 0; now < INFINITY;) {
        begin_steps(&walk, now);
        change_speeds(&walk, now);
        now = INFINITY;
        for (int32_t lane = 0; lane < LANE_COUNT; lane++)
            now = fmin(now, end_of(&walk.turn[lane]));
        if (now < INFINITY)
            end_steps(&walk, now);
    }
}

/* ---- backward: from moments to seconds ---- */

/* The time up to which something ran, in pieces that do not overlap. */
struct busy {
    struct when *piece;
    double *before; /* (count) the length of all earlier pieces [s] */
    int64_t count;
};

static int compare_begins(const void *a, const void *b)
{
    const struct when *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* When the rank of the first span of @trace computed, or had a collective in flight. */
static struct busy busy_new(const struct schedule *schedule, const struct trace *trace,
                            enum step_kind kind)
{
    struct busy busy = {.piece = base_alloc(trace->span_count, sizeof(*busy.piece)),
                        .before = base_alloc(trace->span_count, sizeof(double))};
    int64_t spans = 0;
    for (int64_t i = 0; i < trace->span_count; i++)
        if (trace->span[i].rank == trace->span[0].rank &&
            schedule->step[trace->span[i].step].kind == kind)
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

static void busy_release(struct busy *busy)
{
    free(busy->piece);
    free(busy->before);
}

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
    double *seconds = base_alloc(schedule->step_count, sizeof(*seconds));
    const double lost[STEP_KIND_COUNT] = {
        [STEP_COMPUTE] = slowdown.compute / (1 + slowdown.compute),
        [STEP_COLLECTIVE] = slowdown.communication / (1 + slowdown.communication)};
    bool any = slowdown.compute > 0 || slowdown.communication > 0;
    struct busy other[STEP_KIND_COUNT] = {0};
    if (any) {
        other[STEP_COMPUTE] = busy_new(schedule, trace, STEP_COLLECTIVE);
        other[STEP_COLLECTIVE] = busy_new(schedule, trace, STEP_COMPUTE);
    }
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->span[i];
        if (span->iteration != trace->iterations - 1 || span->rank != trace->span[0].rank)
            continue;
        seconds[span->step] = span->end - span->begin;
        enum step_kind kind = schedule->step[span->step].kind;
        if (lost[kind] > 0)
            seconds[span->step] -= lost[kind] * (busy_until(&other[kind], span->end) -
                                                 busy_until(&other[kind], span->begin));
    }
    busy_release(&other[STEP_COMPUTE]);
    busy_release(&other[STEP_COLLECTIVE]);
    return seconds;
}
