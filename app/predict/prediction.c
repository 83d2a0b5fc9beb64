#include "app/predict/prediction.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/predict/uncertainty.h"
#include "core/backend/cost.h"
#include "core/platform/device_table.h"

static int make_tasks(struct prediction *prediction, const struct predict_options *options,
                      struct err *err)
{
    int32_t phases = job_phases(&prediction->job);
    prediction->task_count = phases + 1;
    prediction->task = base_alloc(prediction->task_count, sizeof(*prediction->task));
    for (int32_t i = 0; i <= phases; i++) {
        int32_t phase = i < phases ? i + 1 : JOB_BASELINE;
        if (task_build(&prediction->task[i], &prediction->job, phase, options, err))
            return -1;
    }
    return 0;
}

const struct task *prediction_last(const struct prediction *prediction)
{
    return &prediction->task[prediction->task_count - 2];
}

static const struct task *find_baseline(const struct prediction *prediction)
{
    return &prediction->task[prediction->task_count - 1];
}

static double images_per_s(const struct task *task)
{
    return (double)grid_ranks(task->point.grid) * (double)task->point.batch /
           trace_step_time(task->trace);
}

/* What a collective of the last phase waits for, in words. */
static char *describe_wait(const struct prediction *prediction)
{
    const struct task *last = prediction_last(prediction);
    const struct breakdown *step = &prediction->result.step;
    bool torus = prediction->job.scenario.allreduce.algorithm == ALGORITHM_TORUS2D;
    bool column = step->exposed_column > step->exposed_row;
    enum axis axis = !torus ? AXIS_WORLD : column ? AXIS_COLUMN : AXIS_ROW;
    int32_t tier = report_bottleneck(last->point.fabric, last->point.schedule, axis);
    const char *which = !torus ? "all-reduce" : column ? "column all-reduce" : "row exchange";
    if (tier < 0)
        return base_format("the %s", which);
    return base_format("the %s on the %s", which, last->point.fabric->tier_name[tier]);
}

static void find_bound(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    double communication = 100.0 * result->step.exposed_communication / result->step.time;
    double input = 100.0 * result->step.input_wait / result->step.time;
    if (fmax(communication, input) < PREDICTION_BOUND_PERCENT) {
        result->bound_by = base_copy("compute");
        result->sentence = base_format("compute-bound: %.0f %% of each step waits for "
                                       "communication, %.0f %% for input",
                                       communication, input);
    } else if (input > communication) {
        result->bound_by = base_copy("input");
        result->sentence = base_format("input-bound: %.0f %% of each step waits for images", input);
    } else {
        char *wait = describe_wait(prediction);
        result->bound_by = base_copy("communication");
        result->sentence = base_format("communication-bound: %.0f %% of each step waits for %s",
                                       communication, wait);
        free(wait);
    }
}

static void add_assumption(struct result *result, char *text)
{
    result_add(&result->assumption, &result->assumption_count, text);
}

static void add_assumed(void *context, const struct quantity *quantity, enum unit unit)
{
    if (quantity->provenance != PROVENANCE_ASSUMED)
        return;
    struct text text = {0};
    text_add(&text, "%s = ", quantity->path);
    unit_print(&text, unit, quantity->value);
    if (quantity->source)
        text_add(&text, " (%s)", quantity->source);
    add_assumption(context, text.data);
}

/* The share of computing time in measured steps, and the source of the measurement. */
static void add_measured(struct prediction *prediction)
{
    const struct device *device = platform_device(prediction->job.platform);
    const struct schedule *schedule = prediction_last(prediction)->point.schedule;
    double all = 0, known = 0;
    if (device->measured.steps.count == 0)
        return;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        double seconds = step->kind == STEP_COMPUTE ? cost_compute(device, step) : 0;
        all += seconds;
        if (step->kind == STEP_COMPUTE && device_measured(device, step) >= 0)
            known += seconds;
    }
    add_assumption(&prediction->result,
                   base_format("%.0f %% of the computing time is of steps measured one by one, the "
                               "rest of the roofline (%s)",
                               all > 0 ? 100 * known / all : 0,
                               device->measured.source ? device->measured.source : "no source"));
}

/* Numbers of 16 bits are converted for messages, which costs about as much as they save where ranks
 * communicate through memory. */
static void add_payload(struct prediction *prediction)
{
    int32_t measured = platform_payload(prediction->job.platform);
    int32_t travels = prediction->job.scenario.model.gradients;
    if (measured < 0 || measured == travels || prediction->result.devices < 2)
        return;
    const char *conversion = measured == DTYPE_FP32  ? "whose conversion is not in the prediction"
                             : travels == DTYPE_FP32 ? "without the conversion in the prediction"
                                                     : "whose conversion is another";
    add_assumption(&prediction->result,
                   base_format("links were measured with gradients in %s; those of the job travel "
                               "in %s, %s: foretrain calibrate cluster --gradients %s",
                               dtype_names[measured], dtype_names[travels], conversion,
                               dtype_names[travels]));
}

/* Assumes equal turns, and no cost of switching between ranks. */
static void add_turns(struct prediction *prediction)
{
    const struct point *last = &prediction_last(prediction)->point;
    int32_t cores = platform_cores(prediction->job.platform, last->devices_per_node);
    if (cores > 0)
        add_assumption(&prediction->result,
                       base_format("%d ranks of a node take turns on %d cores, each as long as "
                                   "the others",
                                   last->devices_per_node, cores));
}

/* A global batch that the devices cannot share evenly. */
static void add_rounding(struct prediction *prediction, int32_t index)
{
    const struct field_list *list = &prediction->job.scenario.training.phase;
    int64_t asked = ((const struct scenario_phase *)list->item)[index].global_batch;
    const struct phase *phase = &prediction->job.resolved.plan.phase[index];
    if (asked && asked != phase->global_batch)
        add_assumption(&prediction->result,
                       base_format("phase %d: the global batch of %lld is rounded to %lld, %lld "
                                   "images on each device",
                                   index + 1, (long long)asked, (long long)phase->global_batch,
                                   (long long)phase->batch_per_device));
}

static void list_assumptions(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    add_measured(prediction);
    add_payload(prediction);
    add_turns(prediction);
    platform_each_quantity(prediction->job.platform, add_assumed, result);
    for (int32_t i = 0; i < job_phases(&prediction->job); i++)
        add_rounding(prediction, i);
    const struct point *last = &prediction_last(prediction)->point;
    if (prediction->job.resolved.grid_chosen)
        add_assumption(result, base_format("grid %d x %d, the nearest to a square, since "
                                           "allreduce.grid is not given",
                                           last->grid.columns, last->grid.rows));
    if (result->plan.evaluations)
        add_assumption(result,
                       base_format("evaluation: %lld forward passes over %lld validation images, "
                                   "split evenly, without communication",
                                   (long long)result->plan.evaluations,
                                   (long long)result->scenario->training.validation_images));
}

static bool any_grain(const struct prediction *prediction, const char *grain)
{
    for (int32_t i = 0; i < prediction->task_count; i++)
        if (!strncmp(prediction->task[i].trace->grain, grain, strlen(grain)))
            return true;
    return false;
}

static void list_warnings(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct noise *noise = &prediction_last(prediction)->point.run.noise;
    bool noisy = noise->compute_cv > 0 || noise->straggler_fraction > 0;
    if (any_grain(prediction, "coarse"))
        result_add(&result->warning, &result->warning_count,
                   base_copy("the coarse grain was used: up to 20 % optimistic where collectives "
                             "share links"));
    if (any_grain(prediction, "smoothed"))
        result_add(&result->assumption, &result->assumption_count,
                   base_copy("smoothed grain: links that cannot be filled left out, small "
                             "differences in latency rounded up; --grain folded is exact"));
    if (noisy && strcmp(result->grain, "full") != 0)
        result_add(&result->warning, &result->warning_count,
                   base_copy("noise is approximated: every rank takes as long as the slowest is "
                             "expected to take"));
}

/* The run as a whole: start-up, every phase's steps, and the evaluations. */
static void sum_up(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct task *last = prediction_last(prediction);
    result->plan = prediction->job.resolved.plan;
    result->phase_step_time = base_alloc(result->plan.phase_count, sizeof(double));
    result->evaluation_s = job_evaluation(&prediction->job, &last->point, result->plan.evaluations);
    result->startup_s = prediction->job.scenario.training.startup;
    result->time_to_train_s = result->startup_s + result->evaluation_s;
    for (int32_t i = 0; i < result->plan.phase_count; i++) {
        result->phase_step_time[i] = trace_step_time(prediction->task[i].trace);
        result->time_to_train_s += (double)result->plan.phase[i].steps * result->phase_step_time[i];
    }
}

static void conclude(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct task *last = prediction_last(prediction);
    const struct task *baseline = find_baseline(prediction);
    result->scenario = &prediction->job.scenario;
    result->platform = base_copy(platform_name(prediction->job.platform));
    memcpy(result->sha256, result->scenario->sha256, sizeof(result->sha256));
    result->schedule_hash = schedule_hash(last->point.schedule);
    result->platform_hash = platform_hash(prediction->job.platform);
    memcpy(result->backend, last->trace->backend, sizeof(result->backend));
    memcpy(result->grain, last->trace->grain, sizeof(result->grain));
    result->grid = last->point.grid;
    result->nodes = last->point.nodes;
    result->devices = grid_ranks(last->point.grid);
    result->step = report_breakdown(last->point.schedule, last->trace);
    result->images_per_s = images_per_s(last);
    result->baseline_devices = grid_ranks(baseline->point.grid);
    result->baseline_images_per_s = images_per_s(baseline);
    result->scaling_efficiency = result->images_per_s / result->devices /
                                 (result->baseline_images_per_s / result->baseline_devices);
    struct uncertainty doubts = uncertainty_of(&prediction->job, result->nodes > 1);
    struct interval likely = uncertainty_step(&last->point, last->trace, 0, &doubts);
    result->step_low = likely.low;
    result->step_high = likely.high;
    sum_up(prediction);
    find_bound(prediction);
    list_assumptions(prediction);
    list_warnings(prediction);
}

int prediction_make(struct prediction *prediction, const char *path,
                    const struct predict_options *options, struct err *err)
{
    struct result *result = &prediction->result;
    if (job_open(&prediction->job, path, options->set.item, options->set.count,
                 (enum rank_order)options->order, err) ||
        make_tasks(prediction, options, err))
        return -1;
    char *warning;
    enum backend_choice backend = task_backend(options, &warning);
    if (warning)
        result_add(&result->warning, &result->warning_count, warning);
    if (task_run_all(prediction->task, prediction->task_count, backend, options, err))
        return -1;
    conclude(prediction);
    return 0;
}

void prediction_release(struct prediction *prediction)
{
    result_release(&prediction->result);
    for (int32_t i = 0; i < prediction->task_count; i++)
        task_release(&prediction->task[i]);
    free(prediction->task);
    job_release(&prediction->job);
    *prediction = (struct prediction){0};
}
