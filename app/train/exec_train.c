#include <inttypes.h>
#include <math.h>

#include "app/train/exec_command.h"
#include "app/train/exec_job.h"
#include "app/train/exec_run.h"
#include "app/train/train_answers.h"
#include "core/report/timeline.h"

/* Of one checkpoint; NAN: none was written. */
static double checkpoint_seconds(const struct train_result *result)
{
    return result->checkpoints ? result->checkpoint_s / (double)result->checkpoints : NAN;
}

static void print_json(struct text *out, const struct exec_job *job,
                       const struct train_result *result)
{
    bool ran = result->steps > 0; /* null is no speed of 0 */
    AUTOFREE struct train_step *step = base_alloc(result->steps, sizeof(*step));
    for (int64_t i = 0; i < result->steps; i++)
        step[i] = (struct train_step){result->loss[i], result->step_s[i]};
    answer_print(out, &training_columns,
                 &(struct train_answer){
                     .sha256 = job->job.scenario.sha256,
                     .schedule_hash = schedule_hash(job->schedule[0]),
                     .network = job->job.model->name,
                     .device = job->train.device_ops->name,
                     .threads = job->train.threads,
                     .result = result,
                     .rehearsed = job->train.device_ops->rehearses ? result : NULL,
                     .traced = job->train.traced ? result : NULL,
                     .images_per_s = ran ? result->images_per_s : NAN,
                     .loss_first = ran ? result->loss_first : NAN,
                     .loss_last = ran ? result->loss_last : NAN,
                     .checkpoint_s = checkpoint_seconds(result),
                     .choice = result->choice,
                     .choices = result->choices,
                     .step = step,
                     .steps = result->steps,
                 });
}

static void print_steps(struct text *out, const struct exec_job *job,
                        const struct train_result *result)
{
    if (!result->steps) {
        text_add(out, "speed           unknown: no step was %s\n",
                 result->finished ? "left to run" : "run");
        return;
    }
    text_add(out, "speed           %.1f images/s, %.4g s a step\n", result->images_per_s,
             result->seconds / (double)result->steps);
    if (job->train.device_ops->rehearses)
        text_add(out, "rehearsed       steps ended %.3g s late on average, %.3g s at most\n",
                 result->late_s, result->latest_s);
    else
        text_add(out, "loss            %.4f in the last step, %.4f in the first\n",
                 result->loss_last, result->loss_first);
}

static void print_people(struct text *out, const struct exec_job *job,
                         const struct train_result *result)
{
    const struct progress *progress = &result->progress;
    text_add(out,
             "trained         %s, %d rank%s of %d thread%s, %.4g epoch%s, %" PRId64 " step%s\n",
             job->job.model->name, result->ranks, base_plural(result->ranks), job->train.threads,
             base_plural(job->train.threads), progress->epoch, progress->epoch == 1.0 ? "" : "s",
             progress->step, base_plural(progress->step));
    print_steps(out, job, result);
    if (progress->top1 >= 0)
        text_add(out, "validation      top-1 %.2f %%, top-5 %.2f %%\n", 100 * progress->top1,
                 100 * progress->top5);
    text_add(out, "waited          %.3g s for images, %.3g s for all-reduces\n",
             result->input_wait_s, result->exposed_communication_s);
    if (result->skipped_images || progress->skipped_steps)
        text_add(out, "left out        %" PRId64 " images, %" PRId64 " steps by overflow\n",
                 result->skipped_images, progress->skipped_steps);
    if (job->train.traced)
        text_add(out, "trace           %d step%s; recording took %.3g s, clocks agree to %.2g s\n",
                 result->trace.iterations, base_plural(result->trace.iterations),
                 result->trace_cost_s, result->trace_error_s);
    if (*result->checkpoint)
        text_add(out, "checkpoint      %s\n", result->checkpoint);
    if (result->checkpoints) {
        double seconds = checkpoint_seconds(result);
        text_add(out,
                 "checkpoints     %" PRId64
                 " written, %.3g s each (training.checkpoint.cost), %.4g "
                 "MB: %.4g MB/s (.bandwidth)\n",
                 result->checkpoints, seconds, 1e-6 * (double)result->checkpoint_bytes,
                 1e-6 * (double)result->checkpoint_bytes / seconds);
    }
}

static void advise(const struct train_result *result, struct err *err)
{
    AUTORELEASE(text) struct text how = {0};
    if (*result->checkpoint) {
        text_add(&how, "go on with: foretrain train ... --resume ");
        text_add_word(&how, result->checkpoint);
    } else {
        text_add(&how, "without --out there is no checkpoint");
    }
    err_add_code(err, 75, "stopped by a signal after step %" PRId64 "; %s", result->progress.step,
                 how.data);
}

static void report(const struct train_request *request, const struct exec_job *job,
                   const struct train_result *result, struct text *out, struct err *err)
{
    if (request->head.json)
        print_json(out, job, result);
    else
        print_people(out, job, result);
    const struct schedule *schedule = job->schedule[result->traced_phase];
    timeline_write_kineto_at(request->trace, schedule, &result->trace, err);
    timeline_write_file(request->spans, timeline_write_spans, schedule, &result->trace, err);
    if (result->interrupted)
        advise(result, err);
}

static int train(const void *record, struct text *out, struct err *err)
{
    const struct train_request *request = record;
    struct exec_job job = {0};
    struct train_result result = {0};
    struct exec_run run = {.directory.lock = -1};
    int failed = train_request_check(request, err) || exec_job_open(&job, request, true, err) ||
                 exec_run_open(&run, &job, request, err) || train_run(&job.train, &result, err);
    if (!failed && world_self().rank == 0)
        report(request, &job, &result, out, err);
    else if (!failed && result.interrupted)
        err_exit(err, 75);
    train_result_release(&result);
    exec_run_close(&run);
    exec_job_close(&job);
    return failed ? -1 : 0;
}

static const struct option options[] = {ROWS_TRAIN, ROW_LAST};

const struct command exec_train = {
    .name = "train",
    .synopsis = "JOB [options]",
    .help = "train for real, on as many ranks as were started",
    .examples = "mpirun -n 4 foretrain-exec train job.yaml --out run1",
    RECORD(options, struct train_request, &train_defaults),
    TAKES(1, 1),
    .ranks = true,
    .run = train,
};
