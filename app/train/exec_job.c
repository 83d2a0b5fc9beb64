#include "app/train/exec_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/process/cores.h"
#include "core/base/unit.h"
#include "exec/measure/devices.h"

/* Ranks times threads are at most the cores.  A rank that mpirun has bound sees its own cores only,
 * and so do not its neighbours: the largest mask on the machine tells how many there are. */
int32_t exec_job_threads(const struct request *request)
{
    struct exec_world world = world_self();
    int64_t cores = cores_available();
    if (request->threads > 0)
        return request->threads;
    world_max(&cores, 1);
    int32_t share = (int32_t)cores / world.local_ranks;
    return share > 1 ? share : 1;
}

const struct device_ops *exec_job_device(int32_t device, struct err *err)
{
    const struct device_ops *ops = device_find(device_words[device]);
    if (!ops && device == DEVICE_CUDA)
        err_add_code(err, 69,
                     "this foretrain-exec was built without CUDA (nvcc, cuDNN 9 and NCCL; meson's "
                     "option cuda); --device cpu works without a GPU");
    else if (!ops)
        err_add_code(err, 69,
                     "this foretrain-exec was built without oneDNN (libdnnl-dev); --device "
                     "cpu-naive works, slowly");
    else if (device_present(device_words[device], err))
        return NULL;
    return ops;
}

/* What a rehearsal cannot do, and what only a rehearsal can. */
static int check_rehearsal(struct exec_job *job, const struct request *request, bool trains,
                           struct err *err)
{
    bool rehearses = job->train.device_ops->rehearses;
    job->run = job_run(&job->job);
    job->train.run = &job->run;
    job->train.time_scale = 1;
    if (rehearses && !trains)
        return err_add_code(err, 64, "--device replay has no weights: it can only train");
    if (rehearses && request->resume)
        return err_add_code(err, 64,
                            "--resume has no effect on --device replay: it has no weights");
    if (!request->time_scale)
        return 0;
    if (!rehearses)
        return err_add_code(err, 64, "--time-scale has no effect without --device replay");
    struct err found = {0};
    bool good = unit_parse(UNIT_NONE, request->time_scale, &job->train.time_scale, &found) == 0 &&
                job->train.time_scale >= 0;
    err_release(&found);
    return good ? 0
                : err_add_code(err, 64, "--time-scale: expected a number, at least 0, got '%s'",
                               request->time_scale);
}

static int find_resumed(struct exec_job *job, const char *path, struct err *err)
{
    struct stat status;
    char *manifest = base_format("%s/MANIFEST", path);
    bool whole = stat(manifest, &status) == 0;
    struct text notes = {0};
    free(manifest);
    job->resume = whole ? base_copy(path) : checkpoint_latest(path, &notes);
    if (notes.data && world_self().rank == 0)
        fputs(notes.data, stderr);
    text_release(&notes);
    job->train.resume = job->resume;
    return job->resume ? 0 : err_add_code(err, 66, "%s: there is no checkpoint", path);
}

static int fill(struct exec_job *job, const struct request *request, bool trains, struct err *err)
{
    const struct option_list *set = &request->set;
    struct exec_world world = world_self();
    if (job_read(&job->job, request->job ? request->job : request->argument.item[0], set->item,
                 set->count, err) ||
        (trains && job_training(&job->job, world.ranks, world.local_ranks, &job->training, err)))
        return -1;
    job->job.scenario.training.data.strict |= request->strict_data;
    const struct device_ops *ops = exec_job_device(request->device, err);
    if (!ops || (trains && strcmp(ops->name, "cuda") != 0 && job_check_mpi(&job->job, err)))
        return -1;
    job->train = (struct train_job){
        .scenario = &job->job.scenario,
        .model = job->job.model,
        .plan = &job->training.plan,
        .schedule = (const struct schedule *const *)job->training.schedule,
        .device_ops = ops,
        .comm_ops = transport_find(device_words[request->device]),
        .directory = request->directory,
        .steps = request->steps,
        .traced = request->trace || request->spans ? request->traced : 0,
        .timeout_s = world.ranks > 1 ? request->timeout : 0,
        .progress = !request->quiet && !request->json,
    };
    if (check_rehearsal(job, request, trains, err))
        return -1;
    return request->resume ? find_resumed(job, request->resume, err) : 0;
}

int exec_job_open(struct exec_job *job, const struct request *request, bool trains, struct err *err)
{
    *job = (struct exec_job){0};
    int failed = fill(job, request, trains, err);
    int64_t code = failed ? err->exit_code : 0;
    world_max(&code, 1);
    job->train.threads = exec_job_threads(request);
    if (code && !failed)
        err->exit_code = (int32_t)code;
    return code ? -1 : 0;
}

static int copy_file(const char *from, const char *to, struct err *err)
{
    char buffer[65536];
    size_t got;
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    bool good = in && out;
    while (good && (got = fread(buffer, 1, sizeof(buffer), in)) > 0)
        good = fwrite(buffer, 1, got, out) == got;
    int error = errno;
    if (in)
        fclose(in);
    if (out)
        good = fclose(out) == 0 && good;
    return good ? 0 : err_add_code(err, 73, "cannot write %s: %s", to, strerror(error));
}

static int write_lines(const struct option_list *list, const char *path, struct err *err)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return err_add_code(err, 73, "cannot write %s: %s", path, strerror(errno));
    for (int32_t i = 0; i < list->count; i++)
        fprintf(file, "%s\n", list->item[i]);
    return fclose(file) ? err_add_code(err, 74, "cannot write %s: %s", path, strerror(errno)) : 0;
}

int exec_job_keep(const struct exec_job *job, const struct request *request, struct err *err)
{
    const char *directory = job->train.directory;
    int failed = 0;
    if (directory && world_self().rank == 0) {
        char *text = base_format("%s/job.yaml", directory);
        char *set = base_format("%s/job.set", directory);
        if (mkdir(directory, 0777) && errno != EEXIST)
            failed =
                err_add_code(err, 73, "cannot make directory %s: %s", directory, strerror(errno));
        failed = failed || copy_file(job->job.scenario.path, text, err) ||
                 write_lines(&request->set, set, err);
        free(text);
        free(set);
    }
    int64_t code = failed ? err->exit_code : 0;
    world_max(&code, 1);
    if (code && !failed)
        err->exit_code = (int32_t)code;
    return code ? -1 : 0;
}

void exec_job_close(struct exec_job *job)
{
    training_release(&job->training);
    job_release(&job->job);
    free(job->resume);
    *job = (struct exec_job){0};
}
