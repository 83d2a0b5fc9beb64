#include "app/cli/command.h"
#include "app/cli/measure_list.h"
#include "app/train/exec_job.h"

struct workspace_request {
    struct request head;
    struct compute_options compute;
    struct texts set;
    const char *batches;
};

/* The workspace of a rank's device for @batch images at once. */
static int add_batch(const struct job *job, const struct workspace_request *request,
                     const struct device_ops *ops, int64_t batch, struct json *rows,
                     struct err *err)
{
    struct device_job asked = {.model = job->model,
                               .scenario = &job->scenario,
                               .batch = (int32_t)batch,
                               .micro_batches = 1,
                               .slots = 1,
                               .ranks = 1,
                               .attention = job->platform->device.merges.attention,
                               .threads = exec_job_threads(&request->compute)};
    int64_t bytes = 0;
    if (ops->workspace(&asked, &bytes, err))
        return -1;
    struct json *row = json_append_object(rows);
    json_put_integer(row, "batch", batch);
    json_put_integer(row, "bytes", bytes);
    return 0;
}

static int add_all(const struct job *job, const struct workspace_request *request,
                   const struct measure_list *list, struct json *rows, struct err *err)
{
    const struct device_ops *ops = exec_job_device(request->compute.device, err);
    if (!ops)
        return -1;
    if (!ops->workspace)
        return err_usage(err, "--device %s does not know its workspace", ops->name);
    for (int32_t i = 0; i < list->batches; i++)
        if (add_batch(job, request, ops, list->batch[i], rows, err))
            return -1;
    return 0;
}

static int workspace(const void *record, struct text *out, struct err *err)
{
    const struct workspace_request *request = record;
    AUTORELEASE(measure_list) struct measure_list list = {0};
    AUTORELEASE(job) struct job job = {0};
    struct json *json = json_new_object(), *rows = json_new_array();
    const struct texts *set = &request->set;
    int failed =
        job_read(&job, NULL, request->head.argument.item[0], set->item, set->count, NULL, err);
    failed = failed ||
             measure_list_read(&list, NULL, request->batches ? request->batches : "1", err) ||
             add_all(&job, request, &list, rows, err);
    json_put_text(json, "schema", "foretrain/exec-workspace/1");
    json_put_text(json, "device", device_words[request->compute.device]);
    json_put_integer(json, "threads", exec_job_threads(&request->compute));
    json_put(json, "workspaces", rows);
    if (!failed && world_self().rank == 0)
        json_print(out, json);
    json_free(json);
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct workspace_request, member)

static const struct option options[] = {ROW_SET(AT(set)), ROW_BATCHES(AT(batches)),
                                        ROW_THREADS(AT(compute.threads)),
                                        ROW_DEVICE(AT(compute.device)), ROW_LAST};

const struct command exec_workspace = {
    .name = "workspace",
    .synopsis = "JOB [options]",
    .help = "the memory that a device would take beside that of the network's arrays, as one JSON "
            "object; nothing is allocated",
    .examples = "foretrain-exec workspace job.yaml --batch 8,16 --threads 1",
    RECORD(options, struct workspace_request, NULL),
    TAKES(1, 1),
    .run = workspace,
};
