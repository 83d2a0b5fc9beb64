#include "exec/checkpoint/checkpoint_parts.h"

/* A file of tensors in memory. */
struct tensor_file {
    char *path;          /* owned */
    struct text content; /* empty: missing or not needed */
    int32_t ranks;       /* that wrote it */
    struct safetensors header;
};

/* Widen the tensors of @file into the arrays that are not NULL. */
static void fill(const struct tensor_file *file, const struct layout *layout,
                 enum checkpoint_file kind, float *parameter, float *statistics)
{
    struct stored_list list = stored_tensors(layout, kind, file->ranks);
    for (int64_t i = 0; i < list.count; i++) {
        const struct stored_tensor *tensor = &list.item[i];
        const struct safetensors_tensor *found = safetensors_find(&file->header, tensor->name);
        float *array = tensor->in == STORED_IN_PARAMETER    ? parameter
                       : tensor->in == STORED_IN_STATISTICS ? statistics
                                                            : NULL;
        if (array)
            safetensors_widen(found->type, file->content.data + file->header.data + found->begin,
                              tensor->elements, array + tensor->offset);
    }
    free(list.item);
}

static int read_state(const char *path, const struct manifest *manifest, struct progress *progress,
                      struct err *err)
{
    AUTOFREE char *file = NULL;
    AUTORELEASE(text) struct text content = {0};
    int failed = manifest_read_file(manifest, path, CHECKPOINT_STATE, &file, &content, err) ||
                 state_read_text(progress, file, content.data, content.length, err);
    return failed ? -1 : 0;
}

static int read_tensors(const char *path, const struct manifest *manifest,
                        const struct layout *layout, enum checkpoint_file kind,
                        struct tensor_file *file, struct err *err)
{
    if (!manifest->entry[kind].present)
        return 0;
    if (manifest_read_file(manifest, path, kind, &file->path, &file->content, err) ||
        safetensors_read_header(&file->header, file->path, file->content.data, file->content.length,
                                err))
        return -1;
    struct stored_list list = stored_tensors(layout, kind, file->ranks);
    int failed = stored_check(&list, file->path, &file->header, err);
    free(list.item);
    return failed;
}

static int check_network(const char *path, const struct progress *progress,
                         const struct layout *layout, struct err *err)
{
    if (strcmp(progress->network, layout->model->name) == 0)
        return 0;
    return err_add(err, "%s: a checkpoint of network '%s', but the job trains '%s'", path,
                   progress->network, layout->model->name);
}

int checkpoint_read(const char *path, const struct layout *layout, struct progress *progress,
                    const struct weights *weights, struct err *err)
{
    enum { FILES = CHECKPOINT_STATE };
    float *const array[FILES][2] = {{weights->parameter, weights->statistics},
                                    {weights->momentum, NULL},
                                    {NULL, weights->rank_statistics}};
    struct manifest manifest;
    struct progress found = {0};
    struct tensor_file file[FILES] = {0};
    int failed = manifest_read(&manifest, path, err) || read_state(path, &manifest, &found, err) ||
                 check_network(path, &found, layout, err);
    file[CHECKPOINT_RANKS].ranks = found.ranks;
    for (int32_t i = 0, before = failed; i < FILES && !before; i++) /* all faults of all */
        failed |= read_tensors(path, &manifest, layout, i, &file[i], err);
    if (!failed)
        *progress = found;
    for (int32_t i = 0; i < FILES; i++) {
        if (!failed && manifest.entry[i].present)
            fill(&file[i], layout, i, array[i][0], array[i][1]);
        free(file[i].path);
        text_release(&file[i].content);
        safetensors_release(&file[i].header);
    }
    return failed ? -1 : 0;
}

int checkpoint_read_progress(const char *path, struct progress *progress, struct err *err)
{
    struct manifest manifest;
    return manifest_read(&manifest, path, err) || read_state(path, &manifest, progress, err) ? -1
                                                                                             : 0;
}

struct json *checkpoint_read_job(const char *path, struct err *err)
{
    struct manifest manifest;
    AUTORELEASE(text) struct text content = {0};
    struct json *job = NULL;
    AUTOFREE char *file = NULL;
    if (!manifest_read(&manifest, path, err) && !manifest.entry[CHECKPOINT_JOB].present)
        err_add_code(err, 66, "%s: it does not name its job", path);
    else if (!err->count &&
             !manifest_read_file(&manifest, path, CHECKPOINT_JOB, &file, &content, err))
        job = json_read(file, content.data, content.length, err);
    if (job && json_count_members(job) < 0) {
        err_add(err, "%s: it must be a JSON object", file);
        json_free(job);
        job = NULL;
    }
    return job;
}
