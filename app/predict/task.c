#include "app/predict/task.h"

#include "core/backend/analytic.h"
#include "core/backend/floor.h"
#include "core/backend/steady.h"

struct texts predict_set(const struct predict_options *options, const struct price_file *prices)
{
    struct texts set = {0};
    AUTOFREE char *assignment = price_assignment(prices);
    if (assignment)
        texts_add(&set, "%s", assignment);
    texts_add_all(&set, &options->set);
    return set;
}

int predict_open_job(struct job *job, const char *path, const struct predict_options *options,
                     const struct draw *draw, struct err *err)
{
    struct wish wish = {.order = (enum rank_order)options->order,
                        .ignore_memory = options->ignore_memory,
                        .repeat = options->grain != GRAIN_FULL,
                        .memory = options->memory};
    return job_open(job, options->files, path, options->set.item, options->set.count, draw, &wish,
                    err);
}

/* Without folding every rank draws its own noise; else all are as slow as the slowest. */
static bool draws_noise(const struct predict_options *options, const struct noise *noise)
{
    bool each_rank = options->grain == GRAIN_AUTO || options->grain == GRAIN_FULL;
    return noise_is_any(noise) && each_rank && options->backend != BACKEND_ANALYTIC;
}

/* Iterations to walk: the user's, or 1 where every iteration is like the first, or 2 where input
 * is prefetched or every rank draws its own noise. */
static int32_t predict_iterations(const struct predict_options *options, const struct run *run)
{
    if (options->iterations != PREDICT_CHOOSE)
        return options->iterations;
    return run->input_workers == 0 && !draws_noise(options, &run->noise) ? 1 : 2;
}

enum backend_choice task_backend(const struct predict_options *options, char **warning)
{
    *warning = NULL;
    if (options->backend >= 0)
        return (enum backend_choice)options->backend;
    const struct simulator *simulator = options->simulator;
    if (simulator && simulator->is_there(simulator))
        return BACKEND_SIM;
    *warning = base_copy("foretrain-sim was not found, so this is the closed form without "
                         "contention: usually early");
    return BACKEND_ANALYTIC;
}

int task_build(struct task *task, const struct job *job, int32_t phase,
               const struct predict_options *options, struct err *err)
{
    if (job_point(job, phase, &task->point, err))
        return -1;
    if (options->noise != NOISE_NONE)
        task->noise = task->point.run.noise;
    task->point.run.noise = (struct noise){0};
    task->point.run.memory = options->memory;
    task->point.run.iterations = predict_iterations(options, &task->point.run);
    const char *path = job->scenario.path;
    task->what = phase < 0 ? base_format("the baseline of %s", path)
                           : base_format("phase %d of %s", phase, path);
    if (options->noise != NOISE_DRAWN || !noise_is_any(&task->noise))
        return 0;
    struct predict_options quiet = *options;
    quiet.noise = NOISE_NONE;
    task->drawn = base_alloc(1, sizeof(*task->drawn));
    if (task_build(task->drawn, job, phase, &quiet, err))
        return -1;
    task->drawn->point.run.noise = task->noise;
    task->drawn->point.run.iterations = predict_iterations(options, &task->drawn->point.run);
    return 0;
}

const struct trace *task_trace(const struct task *task)
{
    return task->drawn ? task->drawn->quiet : task->quiet;
}

static int run_analytic(struct task *const *task, int32_t count, struct err *err)
{
    for (int32_t i = 0; i < count; i++)
        if (backend_analytic.run(&task[i]->point.run, task[i]->point.schedule, &task[i]->trace,
                                 err))
            return -1;
    return 0;
}

static int run_sim(struct task *const *task, int32_t count, const struct predict_options *options,
                   struct err *err)
{
    if (!options->simulator)
        return err_add_code(err, 69, "there is nobody here who starts foretrain-sim");
    AUTOFREE struct simulation *all = base_alloc(count, sizeof(*all));
    for (int32_t i = 0; i < count; i++)
        all[i] = (struct simulation){task[i]->what, &task[i]->point.run, task[i]->point.schedule,
                                     &task[i]->trace};
    return options->simulator->run(options->simulator, all, count, err);
}

/* The tasks that are not equal to an earlier one, and the drawn ones. */
static int32_t find_distinct(struct task *task, int32_t count, struct task **distinct)
{
    int32_t found = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t same = 0;
        while (same < found && !point_equal(&distinct[same]->point, &task[i].point))
            same++;
        if (same == found)
            distinct[found++] = &task[i];
        task[i].quiet = &distinct[same]->trace;
    }
    for (int32_t i = 0; i < count; i++)
        if (task[i].drawn) {
            distinct[found++] = task[i].drawn;
            task[i].drawn->quiet = &task[i].drawn->trace;
        }
    return found;
}

/* The step with noise. */
static void add_noise(struct task *task)
{
    task->step = trace_step_time(task_trace(task));
    if (task->drawn || !noise_is_any(&task->noise))
        return;
    AUTORELEASE(steady)
    struct steady steady =
        steady_new(task->point.schedule, device_slowdown(task->point.run.device), task->quiet);
    task->step += steady_waiting(&steady, &task->noise, grid_ranks(task->point.grid));
}

int task_run_all(struct task *task, int32_t count, enum backend_choice backend,
                 const struct predict_options *options, struct err *err)
{
    struct task **distinct = base_alloc(2 * count, sizeof(struct task *));
    int32_t found = find_distinct(task, count, distinct);
    for (int32_t i = 0; i < found; i++) {
        distinct[i]->point.run.grain = (enum grain)options->grain;
        distinct[i]->point.run.traced_ranks = options->traced_ranks;
    }
    int failed = backend == BACKEND_SIM ? run_sim(distinct, found, options, err)
                                        : run_analytic(distinct, found, err);
    for (int32_t i = 0; i < found && !failed; i++)
        failed = floor_check(&distinct[i]->point.run, distinct[i]->point.schedule,
                             distinct[i]->quiet, err);
    for (int32_t i = 0; i < count && !failed; i++)
        add_noise(&task[i]);
    free(distinct);
    return failed;
}

struct breakdown task_breakdown(const struct task *task)
{
    return report_breakdown(task->point.schedule, device_slowdown(task->point.run.device),
                            task->quiet, task->step);
}

void task_release(struct task *task)
{
    if (task->drawn)
        task_release(task->drawn);
    free(task->drawn);
    point_release(&task->point);
    trace_release(&task->trace);
    free(task->what);
    *task = (struct task){0};
}
