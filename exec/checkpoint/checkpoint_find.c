#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "exec/checkpoint/checkpoint_parts.h"

static const char prefix[] = "ckpt-";

static bool is_numbered(const char *name)
{
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0)
        return false;
    size_t digits = strspn(name + length, "0123456789");
    return digits > 0 && digits <= 18 && name[length + digits] == '\0';
}

static int64_t number_of(const char *name)
{
    return strtoll(name + strlen(prefix), NULL, 10);
}

static bool is_unfinished(const char *name)
{
    return strncmp(name, ".tmp-ckpt-", 10) == 0 || strncmp(name, ".tmp-snapshot-", 14) == 0;
}

/* Whether all files are there with the right sizes; their checksums are left to the reader. */
static int check_sizes(const char *path, struct err *err)
{
    struct manifest manifest;
    if (manifest_read(&manifest, path, err))
        return -1;
    for (int32_t i = 0; i < CHECKPOINT_FILE_COUNT; i++) {
        if (!manifest.entry[i].present)
            continue;
        struct stat found;
        char *file = base_format("%s/%s", path, checkpoint_file_names[i]);
        int failed = 0;
        if (stat(file, &found) != 0)
            failed = err_add_code(err, 66, "%s: missing", file);
        else if (found.st_size != manifest.entry[i].bytes)
            failed = err_add(err, "%s: damaged: it has %jd bytes, MANIFEST says %" PRId64, file,
                             (intmax_t)found.st_size, manifest.entry[i].bytes);
        free(file);
        if (failed)
            return -1;
    }
    return 0;
}

static void note_unfinished(const char *directory, struct text *notes)
{
    char **name;
    int64_t count = file_list(directory, is_unfinished, &name);
    for (int64_t i = 0; i < count; i++)
        text_add(notes,
                 "note: %s/%s was not finished; it is passed over, and the next checkpoint "
                 "removes it\n",
                 directory, name[i]);
    file_list_free(name, count);
}

static int compare_numbers(const void *a, const void *b)
{
    int64_t one = number_of(*(char *const *)a);
    int64_t other = number_of(*(char *const *)b);
    return (one < other) - (one > other);
}

int64_t checkpoint_list(const char *directory, char ***names)
{
    int64_t count = file_list(directory, is_numbered, names);
    if (count > 0)
        qsort(*names, (size_t)count, sizeof(**names), compare_numbers);
    return count;
}

char *checkpoint_latest(const char *directory, struct text *notes)
{
    char **name, *path = NULL;
    note_unfinished(directory, notes);
    int64_t count = checkpoint_list(directory, &name);
    for (int64_t i = 0; i < count && !path; i++) {
        struct err err = {0};
        path = base_format("%s/%s", directory, name[i]);
        if (check_sizes(path, &err)) {
            text_add(notes, "note: %s is not whole and is passed over: %s", path, err.text);
            free(path);
            path = NULL;
        }
        err_release(&err);
    }
    file_list_free(name, count);
    return path;
}

char *checkpoint_find(const char *path, struct text *notes, struct err *err)
{
    struct stat found;
    if (stat(path, &found) != 0) {
        err_add_code(err, 66, "%s: there is no such file or directory", path);
        return NULL;
    }
    char *manifest = base_format("%s/%s", path, checkpoint_file_names[CHECKPOINT_FILE_COUNT]);
    bool whole = !S_ISDIR(found.st_mode) || access(manifest, F_OK) == 0;
    free(manifest);
    if (whole)
        return base_copy(path);
    struct text passed = {0};
    char *latest = checkpoint_latest(path, &passed);
    if (latest && passed.length > 0)
        text_append(notes, passed.data, passed.length);
    else if (!latest) /* why none was good enough is the answer then */
        err_add_code(err, 66,
                     "%s: no checkpoint: neither has it a MANIFEST, nor does a whole ckpt-* lie in "
                     "it%s%.*s",
                     path, passed.length > 0 ? "\n" : "",
                     passed.length > 0 ? (int)passed.length - 1 : 0,
                     passed.data ? passed.data : "");
    text_release(&passed);
    return latest;
}
