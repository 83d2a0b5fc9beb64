#include "app/predict/task.h"

#include <stdlib.h>

#include "core/backend/analytic.h"
#include "core/backend/floor.h"

enum backend_choice task_backend(const struct predict_options *options, char **warning)
{
    *warning = NULL;
    if (options->backend >= 0)
        return (enum backend_choice)options->backend;
    char *program = child_program("foretrain-sim");
    free(program);
    if (program)
        return BACKEND_SIM;
    *warning = base_copy("foretrain-sim was not found, so this is the closed form without "
                         "contention: usually early");
    return BACKEND_ANALYTIC;
}

static void describe_child(struct task *task, const struct job *job, int32_t phase,
                           const struct predict_options *options)
{
    const char *path = job->scenario.path;
    for (int32_t i = 0; i < options->set.count; i++)
        child_add(&task->child, "--set=%s", options->set.item[i]);
    if (options->no_noise)
        child_add(&task->child, "--no-noise");
    if (job->wish.nodes)
        child_add(&task->child, "--extent=%lldx%lld", (long long)job->wish.nodes,
                  (long long)job->wish.devices_per_node);
    if (job->wish.order != RANK_ORDER_ROW)
        child_add(&task->child, "--order=%s", rank_order_names[job->wish.order]);
    if (phase == JOB_BASELINE) {
        child_add(&task->child, "--baseline");
        task->child.what = base_format("the baseline of %s", path);
    } else {
        child_add(&task->child, "--phase=%d", phase);
        task->child.what = base_format("phase %d of %s", phase, path);
    }
    child_add(&task->child, "%s%s", path[0] == '-' ? "./" : "", path);
}

int task_build(struct task *task, const struct job *job, int32_t phase,
               const struct predict_options *options, struct err *err)
{
    if (job_point(job, phase, &task->point, err))
        return -1;
    if (options->no_noise)
        task->point.run.noise = (struct noise){0};
    task->point.run.iterations = request_iterations(options, &task->point.run);
    describe_child(task, job, phase, options);
    return 0;
}

static int run_analytic(struct task *const *task, int32_t count, struct err *err)
{
    for (int32_t i = 0; i < count; i++)
        if (backend_analytic.run(&task[i]->point.run, task[i]->point.schedule,
                                 &task[i]->child.trace, err))
            return -1;
    return 0;
}

static int run_sim(struct task *const *task, int32_t count, const struct predict_options *options,
                   struct err *err)
{
    struct child *child = base_alloc(count, sizeof(*child));
    for (int32_t i = 0; i < count; i++) {
        struct child *own = &task[i]->child;
        child_add(own, "--grain=%s", grain_names[options->grain]);
        child_add(own, "--iterations=%d", task[i]->point.run.iterations);
        child_add(own, "--traced-ranks=%d", options->traced_ranks);
        child[i] = *own;
    }
    int failed = child_run(child, count, err);
    for (int32_t i = 0; i < count; i++)
        task[i]->child = child[i];
    free(child);
    return failed;
}

/* The tasks that are not equal to an earlier one. */
static int32_t find_distinct(struct task *task, int32_t count, struct task **distinct)
{
    int32_t found = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t same = 0;
        while (same < found && !point_equal(&distinct[same]->point, &task[i].point))
            same++;
        if (same == found)
            distinct[found++] = &task[i];
        task[i].trace = &distinct[same]->child.trace;
    }
    return found;
}

int task_run_all(struct task *task, int32_t count, enum backend_choice backend,
                 const struct predict_options *options, struct err *err)
{
    for (int32_t i = 0; i < count; i++) {
        task[i].point.run.grain = (enum grain)options->grain;
        task[i].point.run.traced_ranks = options->traced_ranks;
    }
    struct task **distinct = base_alloc(count, sizeof(struct task *));
    int32_t found = find_distinct(task, count, distinct);
    int failed = backend == BACKEND_SIM ? run_sim(distinct, found, options, err)
                                        : run_analytic(distinct, found, err);
    for (int32_t i = 0; i < found && !failed; i++)
        failed = floor_check(&distinct[i]->point.run, distinct[i]->point.schedule,
                             distinct[i]->trace, err);
    free(distinct);
    return failed;
}

void task_release(struct task *task)
{
    point_release(&task->point);
    child_release(&task->child);
    *task = (struct task){0};
}
