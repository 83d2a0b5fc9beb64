#include "app/predict/prediction.h"

#include <sys/resource.h>

/* Whether the scenario fixes how many images all devices of the last phase have together, which is
 * more than the devices of the baseline have otherwise. */
static bool has_strong(const struct job *job)
{
    int32_t last = job_phases(job) - 1;
    const struct scenario_phase *asked = job->scenario.training.phase.item;
    const struct phase *phase = &job->resolved.plan.phase[last];
    int64_t devices = extent_replicas(job->resolved.baseline);
    return asked[last].global_batch > 0 && phase->global_batch > devices * phase->batch_per_device;
}

/* The phases, the baseline, and if asked for its devices at the global batch. */
static int make_tasks(struct prediction *prediction, const struct predict_options *options,
                      struct err *err)
{
    int32_t phases = job_phases(&prediction->job);
    prediction->task_count = phases + (options->alone ? 0 : 1 + has_strong(&prediction->job));
    prediction->task = base_alloc(prediction->task_count, sizeof(*prediction->task));
    for (int32_t i = 0; i < prediction->task_count; i++) {
        int32_t phase = i < phases ? i + 1 : i == phases ? JOB_BASELINE : JOB_STRONG;
        if (task_build(&prediction->task[i], &prediction->job, phase, options, err))
            return -1;
    }
    return 0;
}

int32_t baseline_of(const struct prediction *prediction)
{
    int32_t phases = job_phases(&prediction->job);
    return phases < prediction->task_count ? phases : phases - 1;
}

const struct task *prediction_last(const struct prediction *prediction)
{
    return &prediction->task[job_phases(&prediction->job) - 1];
}

/* Evaluation, which is compute, moves with the baseline. */
double prediction_seconds(const struct prediction *prediction, const double *step, double epochs)
{
    const struct result *result = &prediction->result;
    const struct task *task = prediction->task;
    const struct plan *plan = &result->plan;
    int32_t baseline = baseline_of(prediction);
    double evaluation =
        result->evaluation_s * (step ? step[baseline] : task[baseline].step) / task[baseline].step;
    double sum = result->startup_s;
    for (int32_t i = 0; i < plan->phase_count; i++) {
        double steps = (double)plan->phase[i].steps;
        if (epochs > 0 && i == plan->phase_count - 1) {
            double before = plan->epochs - plan->phase[i].epochs;
            const struct scenario *scenario = &prediction->job.scenario;
            steps = fmax(0, epochs - before) * (double)scenario->training.train_images /
                    (double)plan->phase[i].global_batch;
            evaluation *= (double)plan_evaluations(epochs, scenario->training.evaluate_every) /
                          (double)plan->evaluations;
        }
        sum += steps * (step ? step[i] : task[i].step);
    }
    return sum + evaluation;
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
    for (int32_t i = 0; i < result->plan.phase_count; i++)
        result->phase_step_time[i] = prediction->task[i].step;
    result->time_to_train_s = result->toll.work = prediction_seconds(prediction, NULL, 0);
}

struct usage prediction_usage(const struct prediction *prediction)
{
    const struct result *result = &prediction->result;
    const struct plan *plan = &result->plan;
    const struct task *last = prediction_last(prediction);
    double all = grid_ranks(last->point.grid);
    double spent = all * (result->evaluation_s + result->startup_s);
    for (int32_t i = 0; i < plan->phase_count; i++)
        spent +=
            (double)(plan->phase[i].devices * plan->phase[i].steps) * result->phase_step_time[i];
    double devices = spent / result->toll.work;
    return (struct usage){
        devices * last->point.nodes / all,
        devices,
        {result->train_likely.low, result->time_to_train_s, result->train_likely.high}};
}

struct memory_plan prediction_memory(const struct prediction *prediction, int32_t index)
{
    const struct job *job = &prediction->job;
    const struct phase *phase = &job->resolved.plan.phase[index];
    const struct device *device = &job->platform->device;
    struct memory_plan plan = memory_plan(
        &(struct memory_case){job->part, &job->scenario, device->merges, job->resolved.shards,
                              phase->batch_per_device, phase->micro_batch});
    plan.workspace = device->compute_capability > 0 ? memory_workspace(job->part) : 0;
    plan.first += plan.workspace;
    return plan;
}

int prediction_open(struct prediction *prediction, const char *path,
                    const struct predict_options *options, const struct draw *draw, struct err *err)
{
    if (predict_open_job(&prediction->job, path, options, draw, err))
        return -1;
    prediction->result.images_unit = model_reads_pictures(prediction->job.model)
                                         ? UNIT_IMAGES_PER_SECOND
                                         : UNIT_SAMPLES_PER_SECOND;
    return make_tasks(prediction, options, err);
}

int prediction_run(struct prediction *prediction, enum backend_choice backend,
                   const struct predict_options *options, struct err *err)
{
    if (task_run_all(prediction->task, prediction->task_count, backend, options, err))
        return -1;
    sum_up(prediction);
    return 0;
}

double prediction_children_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
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
