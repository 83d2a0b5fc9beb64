#include <inttypes.h>
#include <math.h>

#include "app/train/exec_command.h"
#include "app/train/exec_job.h"
#include "app/train/exec_run.h"
#include "config.h"
#include "core/base/json.h"
#include "core/report/timeline.h"
#include "exec/train/train.h"

/* null for values that were never measured. */
static void put_share(struct json *json, const char *key, double value)
{
    if (value >= 0)
        json_put_real(json, key, value);
    else
        json_put_text(json, key, NULL);
}

static void put_steps(struct json *json, const struct train_result *result)
{
    struct json *steps = json_new_array();
    for (int64_t i = 0; i < result->steps; i++) {
        struct json *step = json_append_object(steps);
        json_put_real(step, "loss", result->loss[i]);
        json_put_real(step, "step_s", result->step_s[i]);
    }
    json_put(json, "step", steps);
}

/* Bytes of each step of the schedule, by its id. */
static void put_moved(struct json *json, const struct train_result *result)
{
    struct json *moved = json_put_array(json, "step_bytes");
    for (int32_t i = 0; i < result->moved_count; i++)
        json_append_integer(moved, result->moved[i]);
}

static void put_choices(struct json *json, const struct train_result *result)
{
    struct json *choices = json_new_array();
    for (int32_t i = 0; i < result->choices; i++) {
        const struct choice *choice = &result->choice[i];
        struct json *row = json_new_object();
        json_put_text(row, "name", choice->name);
        json_put_integer(row, "layers", choice->layers);
        json_put_integer(row, "of", choice->of);
        json_put_real(row, "saved_s", choice->saved_s);
        json_append(choices, row);
    }
    json_put(json, "choices", choices);
}

/* Of one checkpoint; NAN: none was written. */
static double checkpoint_seconds(const struct train_result *result)
{
    return result->checkpoints ? result->checkpoint_s / (double)result->checkpoints : NAN;
}

static void print_json(struct text *out, const struct exec_job *job,
                       const struct train_result *result)
{
    const struct scenario *scenario = &job->job.scenario;
    AUTORELEASE(json) struct json *json = json_new_object();
    AUTOFREE char *hash = base_format("%016" PRIx64, schedule_hash(job->schedule[0]));
    json_put_text(json, "schema", "foretrain/training/1");
    json_put_text(json, "version", FORETRAIN_VERSION);
    json_put_text(json, "scenario_sha256", scenario->sha256);
    json_put_text(json, "schedule_hash", hash);
    json_put_text(json, "network", job->job.model->name);
    json_put_text(json, "device", job->train.device_ops->name);
    json_put_integer(json, "ranks", result->ranks);
    json_put_integer(json, "threads", job->train.threads);
    json_put_real(json, "epochs", result->progress.epoch);
    json_put_integer(json, "steps", result->progress.step);
    json_put_integer(json, "steps_here", result->steps);
    bool ran = result->steps > 0; /* null is no speed of 0 */
    json_put_real(json, "images_per_s", ran ? result->images_per_s : NAN);
    json_put_real(json, "seconds", result->seconds);
    json_put_real(json, "loss", result->progress.loss);
    json_put_real(json, "loss_first", ran ? result->loss_first : NAN);
    json_put_real(json, "loss_last", ran ? result->loss_last : NAN);
    put_share(json, "top1", result->progress.top1);
    put_share(json, "top5", result->progress.top5);
    put_share(json, "evaluation_loss", result->evaluation_loss);
    json_put_integer(json, "skipped_images", result->skipped_images);
    json_put_integer(json, "skipped_steps", result->progress.skipped_steps);
    json_put_real(json, "loss_scale", result->progress.loss_scale);
    json_put_real(json, "input_wait_s", result->input_wait_s);
    json_put_real(json, "exposed_comm_s", result->exposed_comm_s);
    if (job->train.device_ops->rehearses) {
        json_put_real(json, "late_s", result->late_s);
        json_put_real(json, "latest_s", result->latest_s);
    }
    if (job->train.traced) {
        json_put_integer(json, "traced_steps", result->trace.iterations);
        json_put_real(json, "trace_error_s", result->trace_error_s);
        json_put_real(json, "trace_cost_s", result->trace_cost_s);
    }
    if (result->moved)
        put_moved(json, result);
    if (result->choices)
        put_choices(json, result);
    json_put_boolean(json, "finished", result->finished);
    json_put_text(json, "run", *result->progress.run ? result->progress.run : NULL);
    json_put_text(json, "checkpoint", *result->checkpoint ? result->checkpoint : NULL);
    json_put_integer(json, "checkpoints", result->checkpoints);
    json_put_real(json, "checkpoint_s", checkpoint_seconds(result));
    json_put_integer(json, "checkpoint_bytes", result->checkpoint_bytes);
    put_steps(json, result);
    json_print(out, json);
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
             result->input_wait_s, result->exposed_comm_s);
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
        err->exit_code = 75;
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
    .run = train,
};
