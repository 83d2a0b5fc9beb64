#include "app/train/exec_job.h"
#include "app/train/train_answers.h"
#include "core/base/file.h"
#include "core/report/timeline.h"
#include "core/scenario/scenario_change.h"
#include "exec/checkpoint/run_directory.h"
#include "exec/world/world.h"

/* ---- the run that a command continues, and its directory ---- */

/* Start from {0}. */
struct exec_run {
    struct run_directory directory; /**< its lock is rank 0's */
    char *resume;                   /**< the checkpoint to resume from, or NULL; owned */
    struct text values;             /**< of the job, for checkpoints; owned, rank 0's */
};

/* ---- the checkpoint to go on from ---- */

static int find_resumed(struct exec_run *run, const char *path, struct progress *progress,
                        struct err *err)
{
    AUTORELEASE(text) struct text notes = {0};
    char of[RUN_ID_SIZE];
    run->resume = checkpoint_find(path, &notes, err);
    fputs(notes.data ? notes.data : "", stderr);
    if (!run->resume || checkpoint_read_progress(run->resume, progress, err))
        return -1;
    if (strcmp(run->resume, path) != 0 && !run_record_run(path, of))
        return err_add_code(err, 66,
                            "%s: without run.json it is not the directory of a run: name the "
                            "checkpoint to resume, such as %s",
                            path, run->resume);
    return 0;
}

/* The number of ranks may differ, like the keys of allreduce; @now are the values of the job. */
static int compare_job(const struct exec_run *run, const struct json *now,
                       const struct train_request *request, const struct progress *progress,
                       struct err *err)
{
    AUTORELEASE(text) struct text notes = {0};
    AUTORELEASE(json) struct json *before = checkpoint_read_job(run->resume, err);
    int failed = !before || scenario_compare(run->resume, before, now, request->allow_change.item,
                                             request->allow_change.count, &notes, err);
    if (progress->ranks != world_self().ranks)
        text_add(&notes, "note: written on %d rank%s, continued on %d\n", progress->ranks,
                 base_plural(progress->ranks), world_self().ranks);
    fputs(notes.data && !failed ? notes.data : "", stderr);
    return failed ? -1 : 0;
}

/* Resuming an older checkpoint beside newer ones would leave two continuations of one run there. */
static int check_newest(const struct run_directory *directory, const struct progress *progress,
                        struct err *err)
{
    struct progress newest = {0};
    AUTORELEASE(text) struct text notes = {0};
    AUTOFREE char *path = checkpoint_latest(directory->path, progress->run, &notes);
    int failed = path && checkpoint_read_progress(path, &newest, err);
    if (!failed && newest.step > progress->step)
        failed = err_add_code(err, 73,
                              "%s: it holds checkpoints of later steps than %" PRId64 ", such as "
                              "%s: remove them, or choose another directory with --out",
                              directory->path, progress->step, path);
    return failed;
}

/* ---- the directory ---- */

/* A job.yaml that no run wrote is the user's. */
static int check_job(const struct run_directory *directory, const struct text *job, struct err *err)
{
    AUTORELEASE(text) struct text found = {0};
    AUTORELEASE(err) struct err missing = {0};
    AUTOFREE char *path = base_format("%s/job.yaml", directory->path);
    int failed = 0;
    if (!*directory->run && file_read(path, &found, &missing) == 0 &&
        (found.length != job->length || memcmp(found.data, job->data, (size_t)job->length) != 0))
        failed = err_add_code(err, 73,
                              "%s: this other job would be replaced: move it away, or choose "
                              "another directory with --out",
                              path);
    return failed;
}

static int write_beside(const char *directory, const char *name, const struct text *text,
                        struct err *err)
{
    AUTOFREE char *path = base_format("%s/%s", directory, name);
    return file_write(path, text, NULL, err);
}

/* The text was read before, since its file may be in the directory itself. */
static int keep_job(const char *directory, const struct text *job, const struct texts *set,
                    struct err *err)
{
    AUTORELEASE(text) struct text lines = {0};
    text_append(&lines, NULL, 0);
    for (int32_t i = 0; i < set->count; i++)
        text_add(&lines, "%s\n", set->item[i]);
    return write_beside(directory, "job.yaml", job, err) ||
           write_beside(directory, "job.set", &lines, err);
}

static int open_directory(struct run_directory *directory, const char *job,
                          const struct train_request *request, const struct progress *resumed,
                          struct err *err)
{
    const char *run = resumed ? resumed->run : NULL;
    bool over = request->overwrite;
    AUTORELEASE(text) struct text text = {0};
    return file_read(job, &text, err) || run_directory_check(directory, run, over, err) ||
           check_job(directory, &text, err) || run_directory_lock(directory, true, err) ||
           run_directory_check(directory, run, over, err) ||
           (resumed && check_newest(directory, resumed, err)) ||
           run_directory_begin(directory, run, over, err) ||
           keep_job(directory->path, &text, &request->set, err);
}

static int open_first(struct exec_run *run, const struct exec_job *job,
                      const struct train_request *request, struct err *err)
{
    struct progress progress = {0};
    struct run_directory *directory = &run->directory;
    AUTORELEASE(json)
    struct json *values = scenario_values(&job->job.scenario, &job->job.resolved.plan);
    int failed = (request->directory && run_directory_lock(directory, false, err)) ||
                 (request->resume && (find_resumed(run, request->resume, &progress, err) ||
                                      compare_job(run, values, request, &progress, err)));
    json_print(&run->values, values);
    if (failed || !request->directory)
        return failed ? -1 : 0;
    return open_directory(directory, job->job.scenario.path, request,
                          request->resume ? &progress : NULL, err);
}

/* Find the checkpoint that @request resumes from, compare its job with @job, lock the directory of
 * the run, remove an older run from it if @request says so, write a copy of the job's text and
 * assignments there for evaluating or resuming, and set all this in @job; all ranks together.
 * Unless files cannot be written, nothing changes where it fails. */
static int exec_run_open(struct exec_run *run, struct exec_job *job,
                         const struct train_request *request, struct err *err)
{
    run->directory = (struct run_directory){.path = request->directory, .lock = -1};
    int failed = world_self().rank == 0 ? open_first(run, job, request, err) : 0;
    if (world_agree(failed, err))
        return -1;
    run->resume = exec_job_share(run->resume);
    world_broadcast(run->directory.run, sizeof(run->directory.run), 0);
    job->train.resume = run->resume;
    job->train.values = run->values.data;
    job->train.run_id = run->directory.run;
    return 0;
}

/* Give the directory back and release. */
static void exec_run_close(struct exec_run *run)
{
    run_directory_close(&run->directory);
    free(run->resume);
    text_release(&run->values);
    *run = (struct exec_run){.directory.lock = -1};
}

/* ---- training ---- */

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
    text_add(out, "speed           %.1f %s/s, ", result->images_per_s,
             model_inputs(job->job.model, 2));
    if (!model_reads_pictures(job->job.model))
        text_add(out, "%.0f tokens/s, ",
                 result->images_per_s * (double)shape_elements(job->job.model->input));
    text_add(out, "%.4g s a step\n", result->seconds / (double)result->steps);
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
    const char *samples = model_inputs(job->job.model, 2);
    text_add(out, "waited          %.3g s for %s, %.3g s for all-reduces\n", result->input_wait_s,
             samples, result->exposed_communication_s);
    if (result->skipped_images || progress->skipped_steps)
        text_add(out, "left out        %" PRId64 " %s, %" PRId64 " steps by overflow\n",
                 result->skipped_images, samples, progress->skipped_steps);
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
