#include "app/validate/validate.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/base.h"

/* ---- what can be compared ---- */

static int check_steps(const struct schedule *schedule, const struct trace *trace, const char *what,
                       struct err *err)
{
    for (int64_t i = 0; schedule && i < trace->span_count; i++)
        if (trace->span[i].step >= schedule->step_count)
            return err_add_code(err, 65, "the %s trace names step %d, but its schedule has %d",
                                what, trace->span[i].step, schedule->step_count);
    return 0;
}

int validate_check(const struct schedule *schedule, const struct trace *predicted,
                   const struct trace *measured, struct err *err)
{
    uint64_t hash = schedule ? schedule_hash(schedule) : predicted->schedule_hash;
    if (predicted->schedule_hash != measured->schedule_hash)
        return err_add_code(
            err, 65,
            "the traces are of different schedules, %016" PRIx64 " predicted and %016" PRIx64
            " measured: only runs of the same job on the same number of ranks can be compared",
            predicted->schedule_hash, measured->schedule_hash);
    if (hash != predicted->schedule_hash)
        return err_add_code(
            err, 65, "the traces are of schedule %016" PRIx64 ", but the job's is %016" PRIx64,
            predicted->schedule_hash, hash);
    if (predicted->iterations < 1 || measured->iterations < 2)
        return err_add_code(err, 65,
                            "%d iterations are predicted and %d measured: there must be at least 1 "
                            "and 2 (--traced-steps of train)",
                            predicted->iterations, measured->iterations);
    return check_steps(schedule, predicted, "predicted", err) ||
                   check_steps(schedule, measured, "measured", err)
               ? -1
               : 0;
}

/* ---- seconds of every step ---- */

/* One step of one iteration, over the ranks. */
struct occurrence {
    double sum, last_begin, last_end;
    int32_t ranks;
};

/* A trace, step by step. */
struct joined {
    const struct schedule *schedule;
    const struct trace *trace;
    struct occurrence *at; /* (iterations, steps) */
};

static struct joined join(const struct schedule *schedule, const struct trace *trace)
{
    struct joined joined = {schedule, trace, NULL};
    joined.at = base_alloc((int64_t)trace->iterations * schedule->step_count, sizeof(*joined.at));
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->span[i];
        struct occurrence *at =
            &joined.at[(int64_t)span->iteration * schedule->step_count + span->step];
        bool first = at->ranks++ == 0;
        at->sum += span->end - span->begin;
        at->last_begin = first ? span->begin : fmax(at->last_begin, span->begin);
        at->last_end = first ? span->end : fmax(at->last_end, span->end);
    }
    return joined;
}

/* While ranks wait for each other in a collective, nothing is exchanged. */
static double step_seconds(const struct joined *joined, int32_t iteration, int32_t step)
{
    const struct occurrence *at =
        &joined->at[(int64_t)iteration * joined->schedule->step_count + step];
    if (at->ranks == 0)
        return 0;
    if (joined->schedule->step[step].kind == STEP_COLLECTIVE)
        return at->last_end - at->last_begin;
    return at->sum / at->ranks;
}

/* ---- rows ---- */

enum kind { KIND_FORWARD, KIND_LOSS, KIND_BACKWARD, KIND_OPTIMIZER, KIND_INPUT, KIND_COUNT };

static const char *const kind_names[] = {"forward", "loss", "backward", "optimizer", "input"};
static_assert(ARRAY_SIZE(kind_names) == KIND_COUNT, "a name each");

static enum kind kind_of(const struct step *step)
{
    if (step->kind == STEP_INPUT)
        return KIND_INPUT;
    switch (step->compute.op) {
    case COMPUTE_FORWARD:
        return KIND_FORWARD;
    case COMPUTE_LOSS:
        return KIND_LOSS;
    case COMPUTE_OPTIMIZER:
        return KIND_OPTIMIZER;
    default:
        return KIND_BACKWARD;
    }
}

/* The parts of a step, from its breakdown. */
enum part { PART_COMPUTE, PART_COMMUNICATION, PART_INPUT, PART_OTHER, PART_COUNT };

static const char *const part_names[] = {"computing", "waiting for communication",
                                         "waiting for input", "optimizer, and idle"};
static_assert(ARRAY_SIZE(part_names) == PART_COUNT, "a name each");

/* What a row is the sum of. */
struct subject {
    enum validate_group group;
    int32_t index; /* a kind, a lane, a part or a step */
};

static bool belongs(const struct subject *subject, const struct step *step, int32_t id)
{
    switch (subject->group) {
    case VALIDATE_KIND:
        return step->kind != STEP_COLLECTIVE && (int32_t)kind_of(step) == subject->index;
    case VALIDATE_LANE:
        return (int32_t)step->lane == subject->index;
    case VALIDATE_COLLECTIVE:
        return id == subject->index;
    default:
        return false;
    }
}

/* A trace that ends with @iteration gives its breakdown. */
static double part_seconds(const struct joined *joined, int32_t iteration, enum part part)
{
    struct trace until = *joined->trace;
    until.iterations = iteration + 1;
    struct breakdown step =
        report_breakdown(joined->schedule, (struct slowdown){0}, &until, trace_step_time(&until));
    const double seconds[PART_COUNT] = {
        step.compute,
        step.exposed_communication,
        step.input_wait,
        step.other,
    };
    return seconds[part];
}

static double seconds_of(const struct joined *joined, int32_t iteration,
                         const struct subject *subject)
{
    double seconds = 0;
    if (subject->group == VALIDATE_PART)
        return part_seconds(joined, iteration, (enum part)subject->index);
    for (int32_t id = 0; id < joined->schedule->step_count; id++)
        if (belongs(subject, &joined->schedule->step[id], id))
            seconds += step_seconds(joined, iteration, id);
    return seconds;
}

/* Sorts @value (@count). */
static void conclude(struct validate_row *row, bool lab, double *value, int32_t count)
{
    row->measured_s = base_quantile(value, count, 0.5);
    row->quartile_s = base_quantile(value, count, 0.25);
    double counts = lab ? row->quartile_s : row->measured_s;
    row->error = row->predicted_s > 0 && counts > 0 ? row->predicted_s / counts - 1 : NAN;
}

static struct validate_row *add_row(struct validation *validation, enum validate_group group,
                                    const char *name)
{
    validation->row = base_room(validation->row, validation->count, sizeof(*validation->row));
    struct validate_row *row = &validation->row[validation->count++];
    *row = (struct validate_row){.group = group, .name = name};
    return row;
}

/* The step times of all measured iterations but the first; the caller frees them. */
static double *step_times(const struct trace *measured)
{
    double *time = base_alloc(measured->iterations - 1, sizeof(*time));
    for (int32_t i = 1; i < measured->iterations; i++)
        time[i - 1] = measured->iteration_end[i] - measured->iteration_end[i - 1];
    return time;
}

static void add_step(struct validation *validation, const struct trace *predicted,
                     const struct trace *measured)
{
    struct validate_row *row = add_row(validation, VALIDATE_STEP, "step");
    AUTOFREE double *time = step_times(measured);
    row->predicted_s = trace_step_time(predicted) + validation->waiting_s;
    validation->time = step_times(measured);
    conclude(row, validation->lab, time, measured->iterations - 1);
}

/* Rows with no time on either side are left out. */
static void add_subject(struct validation *validation, const struct joined *predicted,
                        const struct joined *measured, struct subject subject, const char *name)
{
    int32_t count = measured->trace->iterations - 1;
    double *time = base_alloc(count, sizeof(*time)), sum = 0;
    double expected = seconds_of(predicted, predicted->trace->iterations - 1, &subject);
    for (int32_t i = 0; i < count; i++)
        sum += time[i] = seconds_of(measured, i + 1, &subject);
    if (sum > 0 || expected > 0) {
        struct validate_row *row = add_row(validation, subject.group, name);
        row->predicted_s = expected;
        conclude(row, validation->lab, time, count);
    }
    free(time);
}

static void add_subjects(struct validation *validation, const struct schedule *schedule,
                         const struct trace *predicted, const struct trace *measured)
{
    struct joined expected = join(schedule, predicted), found = join(schedule, measured);
    for (int32_t i = 0; i < KIND_COUNT; i++)
        add_subject(validation, &expected, &found, (struct subject){VALIDATE_KIND, i},
                    kind_names[i]);
    for (int32_t i = 0; i < LANE_COUNT; i++)
        if (schedule_lane(schedule, (enum lane)i))
            add_subject(validation, &expected, &found, (struct subject){VALIDATE_LANE, i},
                        schedule_lane(schedule, (enum lane)i));
    for (int32_t i = 0; i < PART_COUNT; i++)
        add_subject(validation, &expected, &found, (struct subject){VALIDATE_PART, i},
                    part_names[i]);
    for (int32_t i = 0; i < schedule->step_count; i++)
        if (schedule->step[i].kind == STEP_COLLECTIVE)
            add_subject(validation, &expected, &found, (struct subject){VALIDATE_COLLECTIVE, i},
                        schedule->step[i].name);
    free(expected.at);
    free(found.at);
}

static enum validate_verdict judge(const struct validation *validation)
{
    const struct validate_row *step = validation->row;
    double at_quartile = fabs(step->predicted_s / step->quartile_s - 1);
    if (validation->lab && validation->busy && step->error <= validation->tolerance)
        return VALIDATE_DISTURBED;
    if (fabs(step->error) <= validation->tolerance)
        return VALIDATE_PASS;
    if (step->error < 0 && (validation->busy || at_quartile <= validation->tolerance))
        return VALIDATE_DISTURBED;
    return VALIDATE_FAIL;
}

void validate_compare(const struct schedule *schedule, const struct trace *predicted,
                      const struct trace *measured, struct validation *validation)
{
    validation->iterations = measured->iterations - 1;
    add_step(validation, predicted, measured);
    if (schedule)
        add_subjects(validation, schedule, predicted, measured);
    validation->step_s = validation->row->predicted_s;
    validation->error_of = validation->lab ? "lower quartile" : "median";
    validation->inside = validation->likely.low <= validation->row->measured_s &&
                         validation->row->measured_s <= validation->likely.high;
    validation->verdict = judge(validation);
}

int32_t validate_typical(const struct trace *measured)
{
    struct validate_row row = {0};
    double *time = step_times(measured);
    conclude(&row, false, time, measured->iterations - 1);
    free(time);
    time = step_times(measured);
    int32_t best = 0;
    for (int32_t i = 1; i < measured->iterations - 1; i++)
        if (fabs(time[i] - row.measured_s) < fabs(time[best] - row.measured_s))
            best = i;
    free(time);
    return best + 1;
}

void validation_release(struct validation *validation)
{
    free(validation->row);
    free(validation->time);
    *validation = (struct validation){0};
}
