#include "core/report/breakdown.h"

/* Activities of a rank; the first that applies is used: compute hides communication, and
 * communication hides waiting for input. */
enum activity {
    BUSY_COMPUTE,
    BUSY_OPTIMIZER,
    BUSY_TENSOR,
    BUSY_CONTEXT,
    BUSY_EXPERT,
    BUSY_COLUMN,
    BUSY_ROW,
    BUSY_INPUT,
    ACTIVITY_COUNT
};

static enum activity step_activity(const struct step *step)
{
    switch (step->lane) {
    case LANE_ROW:
        return BUSY_ROW;
    case LANE_COLUMN:
        return BUSY_COLUMN;
    case LANE_TENSOR:
        return step->kind != STEP_COLLECTIVE           ? BUSY_TENSOR
               : step->collective.axis == AXIS_CONTEXT ? BUSY_CONTEXT
               : step->collective.axis == AXIS_EXPERT  ? BUSY_EXPERT
                                                       : BUSY_TENSOR;
    case LANE_INPUT:
        return BUSY_INPUT;
    default:
        return step->kind == STEP_COMPUTE && step->compute.op == COMPUTE_OPTIMIZER ? BUSY_OPTIMIZER
                                                                                   : BUSY_COMPUTE;
    }
}

/* The beginning or end of an activity. */
struct event {
    double time;
    enum activity activity;
    int32_t change; /* +1 or -1 */
};

ORDER_BY(event_compare, struct event, time)

/* The traced rank of a pipeline that computes most. */
static int32_t busiest_rank(const struct schedule *schedule, const struct trace *trace)
{
    AUTOFREE double *busy = base_alloc(trace->ranks, sizeof(*busy));
    int32_t most = 0;
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->span[i];
        const struct step *step = &schedule->step[span->step];
        if (step->kind == STEP_COMPUTE)
            busy[span->rank] += step_runs(step) * (span->end - span->begin);
    }
    for (int32_t rank = 1; rank < trace->ranks; rank++)
        most = busy[rank] > busy[most] ? rank : most;
    return most;
}

int32_t breakdown_rank(const struct schedule *schedule, const struct trace *trace)
{
    if (schedule_stages(schedule) > 1)
        return busiest_rank(schedule, trace);
    const struct span *last = NULL;
    for (int64_t i = 0; i < trace->span_count; i++)
        if (trace->span[i].iteration == trace->iterations - 1 &&
            (!last || last->end < trace->span[i].end))
            last = &trace->span[i];
    return last ? last->rank : -1;
}

/* Repeats of a rank in the last iteration.  Lanes begin theirs at different times, so that only
 * without them what runs beside each other is beside each other. */
struct again {
    double begin, end;      /* of what the compute lane repeats [s] */
    int32_t times;          /* how often; 0: there are none */
    double over[LANE_SEND]; /* when each lane's repeat ends [s]; INFINITY: no lane has one */
    double gone[LANE_SEND]; /* its length [s] */
};

static struct again find_again(const struct schedule *schedule, const struct trace *trace,
                               int32_t rank)
{
    struct again again = {0};
    for (int32_t lane = 0; lane < LANE_SEND; lane++)
        again.over[lane] = INFINITY;
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->span[i];
        const struct step *step = &schedule->step[span->step];
        if (span->rank != rank || span->iteration != trace->iterations - 1 ||
            step->kind != STEP_REPEAT)
            continue;
        again.over[step->lane] = span->end;
        again.gone[step->lane] = span->end - span->begin;
        if (step->lane != LANE_COMPUTE)
            continue;
        again.times = step->repeat.times;
        again.end = span->begin;
        again.begin = span->begin - again.gone[LANE_COMPUTE] / again.times;
    }
    for (int32_t lane = 0; lane < LANE_SEND; lane++) { /* one without works behind the others' */
        bool own = !isinf(again.over[lane]);
        again.gone[lane] = again.gone[own ? lane : LANE_COMPUTE];
        again.over[lane] = again.over[own ? lane : LANE_COMPUTE];
    }
    return again;
}

/* The length of @from to @to, so often as it is there. */
static double length(const struct again *again, double from, double to)
{
    double within = fmin(to, again->end) - fmax(from, again->begin);
    return to - from + (again->times && within > 0 ? again->times * within : 0);
}

static double clip(double time, double from, double to)
{
    return time < from ? from : time > to ? to : time;
}

/* The events of @rank between @from and @to, all without repeats, in order of time; owned. */
static struct event *event_list(const struct schedule *schedule, const struct trace *trace,
                                int32_t rank, const struct again *again, double from, double to,
                                int64_t *count)
{
    struct event *event = NULL;
    int64_t capacity = 0;
    *count = 0;
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->span[i];
        const struct step *step = &schedule->step[span->step];
        if (span->rank != rank || step->lane >= LANE_SEND || step->kind == STEP_REPEAT)
            continue;
        bool behind =
            span->iteration == trace->iterations - 1 && span->begin >= again->over[step->lane];
        double gone = behind ? again->gone[step->lane] : 0;
        double begin = span->begin - gone, end = span->end - gone;
        if (end <= from || begin >= to)
            continue;
        enum activity activity = step_activity(step);
        event = base_grow(event, *count + 2, &capacity, sizeof(*event));
        event[(*count)++] = (struct event){clip(begin, from, to), activity, 1};
        event[(*count)++] = (struct event){clip(end, from, to), activity, -1};
    }
    if (*count > 0)
        qsort(event, (size_t)*count, sizeof(*event), event_compare);
    return event;
}

enum { PARTS = sizeof(struct breakdown) / sizeof(double) };

void breakdown_add(struct breakdown *step, const struct breakdown *a, const struct breakdown *b,
                   double count)
{
    for (int32_t i = 0; i < PARTS; i++)
        (&step->time)[i] += ((&a->time)[i] - (&b->time)[i]) / count;
}

void breakdown_scale(struct breakdown *step, double ratio)
{
    for (int32_t i = 0; i < PARTS; i++)
        (&step->time)[i] *= ratio;
}

double breakdown_inside(const struct breakdown *step)
{
    return step->exposed_tensor + step->exposed_context + step->exposed_expert;
}

double breakdown_difference(double a, double b, double whole)
{
    return fabs(a - b) <= 1e-12 * whole ? 0 : a - b;
}

/* @all without @part, which is 0 where the simulator's precision takes it below. */
static double difference(double all, double part)
{
    double rest = breakdown_difference(all, part, all);
    return rest < 0 && rest > -1e-9 * all ? 0 : rest;
}

struct breakdown report_breakdown(const struct schedule *schedule, struct slowdown slowdown,
                                  const struct trace *trace, double time)
{
    double to = trace->iteration_end[trace->iterations - 1];
    double from = to - trace_step_time(trace);
    double spent[ACTIVITY_COUNT] = {0}, beside = 0;
    int32_t running[ACTIVITY_COUNT] = {0};
    int64_t count;
    int32_t rank = breakdown_rank(schedule, trace);
    struct again again = find_again(schedule, trace, rank);
    AUTOFREE struct event *event =
        event_list(schedule, trace, rank, &again, from, to - again.gone[LANE_COMPUTE], &count);
    for (int64_t i = 0; i + 1 < count; i++) {
        running[event[i].activity] += event[i].change;
        int32_t now = 0;
        while (now < ACTIVITY_COUNT && running[now] == 0)
            now++;
        if (now < ACTIVITY_COUNT)
            spent[now] += length(&again, event[i].time, event[i + 1].time);
        int32_t others = 0;
        for (int32_t busy = BUSY_TENSOR; busy <= BUSY_ROW; busy++)
            others += running[busy];
        if (now == BUSY_COMPUTE && others > 0)
            beside += length(&again, event[i].time, event[i + 1].time);
    }
    double slowed = beside * slowdown.compute / (1 + slowdown.compute);
    struct breakdown step = {.time = time,
                             .slower = difference(time, to - from),
                             .compute = spent[BUSY_COMPUTE] - slowed,
                             .slowed = slowed,
                             .exposed_row = spent[BUSY_ROW],
                             .exposed_column = spent[BUSY_COLUMN],
                             .exposed_tensor = spent[BUSY_TENSOR],
                             .exposed_context = spent[BUSY_CONTEXT],
                             .exposed_expert = spent[BUSY_EXPERT],
                             .input_wait = spent[BUSY_INPUT]};
    step.exposed_communication = step.exposed_row + step.exposed_column + breakdown_inside(&step);
    step.other =
        difference(to - from, spent[BUSY_COMPUTE] + step.exposed_communication + step.input_wait);
    if (schedule_stages(schedule) > 1) {
        step.bubble = difference(step.other, spent[BUSY_OPTIMIZER]);
        step.other = spent[BUSY_OPTIMIZER];
    }
    return step;
}

static double share_lost(double with, double without)
{
    return with > without ? 1 - without / with : 0;
}

struct wait_share wait_share(double all, double unslowed, double launched, double swift)
{
    struct wait_share share = {.slowed = share_lost(all, unslowed)};
    share.launch = fmax(0, share_lost(all, launched) - share.slowed);
    share.latency = fmax(0, share_lost(all, swift) - share.slowed - share.launch);
    return share;
}
