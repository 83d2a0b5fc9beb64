#include <fcntl.h>
#include <sys/stat.h>

#include "exec/checkpoint/checkpoint_parts.h"
#include "exec/checkpoint/run_directory.h"

#define TEMPORARY ".tmp-"

/* A checkpoint being written. */
struct writing {
    char *path; /* its directory for now, owned */
    const struct layout *layout;
    const struct progress *progress;
    struct manifest manifest;
};

/* ---- directories that are checkpoints ---- */

/* Remove the files of a checkpoint and then the directory, unless it holds anything else. */
static void remove_files(const char *path)
{
    for (int32_t i = 0; checkpoint_file_names[i]; i++) {
        AUTOFREE char *file = base_format("%s/%s", path, checkpoint_file_names[i]);
        unlink(file);
    }
    rmdir(path);
}

static bool is_foreign(const char *name)
{
    return base_find_word(name, checkpoint_file_names) < 0 && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

bool checkpoint_is_removable(const char *directory, const char *name)
{
    struct stat found;
    AUTOFREE char *path = base_format("%s/%s", directory, name);
    AUTORELEASE(texts) struct texts foreign = file_list(path, is_foreign);
    return foreign.count == 0 && lstat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

/* Renamed first, so that a crash never leaves a checkpoint that lacks files. */
void checkpoint_remove(const char *directory, const char *name)
{
    AUTOFREE char *path = base_format("%s/%s", directory, name);
    AUTOFREE char *gone = base_format("%s/" TEMPORARY "gone-%s", directory, name);
    if (!checkpoint_is_removable(directory, name))
        ;
    else if (strncmp(name, TEMPORARY, strlen(TEMPORARY)) == 0)
        remove_files(path);
    else if (rename(path, gone) == 0)
        remove_files(gone);
}

static bool is_temporary(const char *name)
{
    return strncmp(name, TEMPORARY, strlen(TEMPORARY)) == 0;
}

static void remove_leftovers(const char *directory)
{
    AUTORELEASE(texts) struct texts names = file_list(directory, is_temporary);
    for (int32_t i = 0; i < names.count; i++) {
        AUTOFREE char *path = base_format("%s/%s", directory, names.item[i]);
        remove_files(path);
    }
}

static bool is_of_run(const char *directory, const char *name, const char *run)
{
    AUTORELEASE(err) struct err err = {0};
    struct progress progress;
    AUTOFREE char *path = base_format("%s/%s", directory, name);
    return checkpoint_read_progress(path, &progress, &err) == 0 && strcmp(progress.run, run) == 0;
}

/* @name was just written and stays, whatever its number. */
static void prune(const char *directory, const char *name, int32_t keep, const char *run)
{
    AUTORELEASE(texts) struct texts names = checkpoint_list(directory);
    int32_t kept = 1;
    for (int32_t i = 0; i < names.count && keep > 0; i++) {
        const char *found = names.item[i];
        if (strcmp(found, name) != 0 && is_of_run(directory, found, run) && kept++ >= keep)
            checkpoint_remove(directory, found);
    }
}

/* ---- files ---- */

static void put_tensor(struct file_sink *sink, const struct stored_tensor *tensor,
                       const struct progress *progress, const float *parameter,
                       const float *statistics)
{
    const float *array = tensor->in == STORED_IN_PARAMETER ? parameter : statistics;
    if (tensor->in == STORED_IN_PROGRESS)
        file_sink_put(sink, &progress->step, sizeof(progress->step));
    else
        file_sink_put(sink, array + tensor->offset, tensor->elements * (int64_t)sizeof(*array));
}

static int end_file(struct writing *writing, struct file_sink *sink, enum checkpoint_file file,
                    struct err *err)
{
    struct manifest_entry *entry = &writing->manifest.entry[file];
    *entry = (struct manifest_entry){.present = true, .bytes = sink->bytes};
    return file_sink_close(sink, entry->digits, err);
}

/* Model or momentum: integers are first, so that each number is aligned to its size. */
static int write_tensors(struct writing *writing, enum checkpoint_file file, const float *parameter,
                         const float *statistics, struct err *err)
{
    struct stored_list list = stored_tensors(writing->layout, file, writing->progress->ranks);
    AUTORELEASE(safetensors) struct safetensors header = {0};
    AUTORELEASE(text) struct text text = {0};
    struct file_sink sink = file_sink_open(writing->path, checkpoint_file_names[file]);
    for (int32_t integers = 1; integers >= 0; integers--)
        for (int64_t i = 0; i < list.count; i++)
            if ((list.item[i].in == STORED_IN_PROGRESS) == integers)
                safetensors_add(&header, list.item[i].name,
                                integers ? SAFETENSORS_I64 : SAFETENSORS_F32, list.item[i].rank,
                                list.item[i].shape);
    safetensors_print_header(&text, &header);
    file_sink_put(&sink, text.data, text.length);
    for (int32_t integers = 1; integers >= 0; integers--)
        for (int64_t i = 0; i < list.count; i++)
            if ((list.item[i].in == STORED_IN_PROGRESS) == integers)
                put_tensor(&sink, &list.item[i], writing->progress, parameter, statistics);
    free(list.item);
    return end_file(writing, &sink, file, err);
}

static int write_text(struct writing *writing, enum checkpoint_file file, const char *text,
                      struct err *err)
{
    struct file_sink sink = file_sink_open(writing->path, checkpoint_file_names[file]);
    file_sink_put(&sink, text, (int64_t)strlen(text));
    return end_file(writing, &sink, file, err);
}

static int write_state(struct writing *writing, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    state_print(&text, writing->progress);
    return write_text(writing, CHECKPOINT_STATE, text.data, err);
}

static int write_manifest(struct writing *writing, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    manifest_print(&text, &writing->manifest);
    return write_text(writing, CHECKPOINT_FILE_COUNT, text.data, err);
}

static int write_files(struct writing *writing, const struct weights *weights, struct err *err)
{
    if (mkdir(writing->path, 0777) != 0)
        return err_add_code(err, 73, "%s: cannot make this directory: %s", writing->path,
                            strerror(errno));
    if (write_tensors(writing, CHECKPOINT_MODEL, weights->parameter, weights->statistics, err))
        return -1;
    if (weights->momentum && write_tensors(writing, CHECKPOINT_OPTIM, weights->momentum, NULL, err))
        return -1;
    if (weights->rank_statistics &&
        write_tensors(writing, CHECKPOINT_RANKS, NULL, weights->rank_statistics, err))
        return -1;
    if (writing->progress->job && write_text(writing, CHECKPOINT_JOB, writing->progress->job, err))
        return -1;
    return write_state(writing, err) || write_manifest(writing, err) ||
                   file_sync_directory(writing->path, err)
               ? -1
               : 0;
}

/* Rename the finished directory.  An older one of that name is exchanged atomically if the file
 * system supports it, else removed first. */
static int publish(const char *directory, const char *name, const char *temporary, struct err *err)
{
    AUTOFREE char *path = base_format("%s/%s", directory, name);
    int failed = rename(temporary, path);
    if (failed && (errno == ENOTEMPTY || errno == EEXIST)) {
        failed = renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE);
        if (!failed) {
            remove_files(temporary); /* the older one */
        } else {
            checkpoint_remove(directory, name);
            failed = rename(temporary, path);
        }
    }
    if (failed)
        err_add_code(err, 73, "%s: cannot be made from %s: %s", path, temporary, strerror(errno));
    return failed;
}

/* @return 0, or -1: @directory has been given to another run. */
static int check_owner(const char *directory, const char *run, struct err *err)
{
    char owner[RUN_ID_SIZE];
    if (!run_record_run(directory, owner) || strcmp(owner, run) == 0)
        return 0;
    return err_add_code(err, 73, "%s: now belongs to run %s, not to run %s: nothing is written",
                        directory, owner, run);
}

int checkpoint_write(const char *directory, const char *name, int32_t keep,
                     const struct layout *layout, const struct progress *progress,
                     const struct weights *weights, struct err *err)
{
    assert(weights->parameter && (weights->statistics || layout->statistic_count == 0));
    if (file_make_directory(directory, err) || check_owner(directory, progress->run, err))
        return -1;
    remove_leftovers(directory);
    struct writing writing = {.path = base_format("%s/" TEMPORARY "%s", directory, name),
                              .layout = layout,
                              .progress = progress};
    int failed = write_files(&writing, weights, err) ||
                 check_owner(directory, progress->run, err) || /* writing takes a while */
                 publish(directory, name, writing.path, err);
    if (failed)
        remove_files(writing.path);
    else
        failed = file_sync_directory(directory, err);
    if (!failed)
        prune(directory, name, keep, progress->run);
    free(writing.path);
    return failed ? -1 : 0;
}
