#include "app/train/exec_job.h"

#include "app/process/cores.h"
#include "exec/measure/devices.h"
#include "exec/world/world.h"

/* Ranks times threads are at most the cores.  mpirun may bind a rank to some cores, so masks differ
 * between ranks: the largest mask on the machine gives the number of cores. */
int32_t exec_job_threads(const struct compute_options *options)
{
    struct exec_world world = world_self();
    int64_t cores = cores_available();
    if (options->threads > 0)
        return options->threads;
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

/* With @each ranks per machine; 0: each rank is a node. */
static int lay_out_ranks(struct exec_job *job, int32_t each, struct err *err)
{
    struct wish wish = wish_for_ranks(world_self().ranks, each ? each : 1);
    wish.real = true;
    if (!each && job->job.scenario.allreduce.algorithm == ALGORITHM_HIERARCHICAL)
        return err_usage(err, "%s: hierarchical needs the same number of ranks on each machine",
                         job->job.scenario.path);
    if (job_resolve(&job->job, &wish, err))
        return -1;
    job->schedule = job_training(&job->job, err);
    job->run = job_run(&job->job);
    return job->schedule ? 0 : -1;
}

static int fill(struct exec_job *job, const struct train_request *request, bool trains,
                int32_t each, struct err *err)
{
    const struct texts *set = &request->set;
    const char *path = request->job ? request->job : request->head.argument.item[0];
    if (job_read(&job->job, NULL, path, set->item, set->count, NULL, err) ||
        (trains && lay_out_ranks(job, each, err)))
        return -1;
    job->job.scenario.training.data.strict |= request->strict_data;
    const struct device_ops *ops = exec_job_device(request->compute.device, err);
    if (!ops || (trains && strcmp(ops->name, "cuda") != 0 && job_check_mpi(&job->job, err)))
        return -1;
    bool gpu = request->compute.device == DEVICE_CUDA;
    if (!ops->rehearses && (trains ? job_check_device : job_check_network)(&job->job, gpu, err))
        return -1;
    job->train = (struct train_job){
        .scenario = &job->job.scenario,
        .model = job->job.model,
        .split = job->job.part,
        .plan = &job->job.resolved.plan,
        .schedule = (const struct schedule *const *)job->schedule,
        .run = &job->run,
        .device_ops = ops,
        .comm_ops = transport_find(device_words[request->compute.device]),
        .directory = request->directory,
        .steps = request->steps,
        .traced = request->trace || request->spans ? request->traced : 0,
        .tunes = request->tune,
        .time_scale = request->time_scale,
        .attention = job->job.platform->device.merges.attention,
        .timeout_s = world_self().ranks > 1 ? request->timeout : 0,
        .progress = !request->quiet && !request->head.json,
    };
    return 0;
}

char *exec_job_share(char *text)
{
    int64_t size = text ? (int64_t)strlen(text) + 1 : 0;
    world_broadcast(&size, sizeof(size), 0);
    if (size > 0 && !text)
        text = base_alloc(size, 1);
    world_broadcast(text, size, 0);
    return text;
}

int exec_job_open(struct exec_job *job, const struct train_request *request, bool trains,
                  struct err *err)
{
    *job = (struct exec_job){0};
    int64_t local = world_self().local_ranks, bound[] = {local, -local};
    world_max(bound, 2);
    int32_t each = bound[0] == -bound[1] ? (int32_t)local : 0; /* 0: machines have different ones */
    int failed = world_agree(fill(job, request, trains, each, err), err);
    job->train.threads = exec_job_threads(&request->compute);
    return failed;
}

void exec_job_close(struct exec_job *job)
{
    training_free(&job->job, job->schedule);
    job_release(&job->job);
    *job = (struct exec_job){0};
}
