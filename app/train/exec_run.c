#include "app/train/exec_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/scenario/scenario_change.h"
#include "exec/checkpoint/run_record.h"
#include "exec/world/agree.h"

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
static int keep_job(const char *directory, const struct text *job, const struct option_list *set,
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

int exec_run_open(struct exec_run *run, struct exec_job *job, const struct train_request *request,
                  struct err *err)
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

void exec_run_close(struct exec_run *run)
{
    run_directory_close(&run->directory);
    free(run->resume);
    text_release(&run->values);
    *run = (struct exec_run){.directory.lock = -1};
}
