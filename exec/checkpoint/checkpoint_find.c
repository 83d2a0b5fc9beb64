#include <sys/stat.h>

#include "exec/checkpoint/checkpoint_parts.h"
#include "exec/checkpoint/run_directory.h"

static const char prefix[] = "ckpt-";

/* What of @name follows @start, or NULL. */
static const char *after(const char *name, const char *start)
{
    size_t length = strlen(start);
    return name && strncmp(name, start, length) == 0 ? name + length : NULL;
}

static bool is_number(const char *text)
{
    size_t digits = text ? strspn(text, "0123456789") : 0;
    return digits > 0 && digits <= 18 && text[digits] == '\0';
}

static bool is_numbered(const char *name)
{
    return is_number(after(name, prefix));
}

bool checkpoint_is_name(const char *name)
{
    const char *temporary = after(name, ".tmp-");
    const char *gone = after(temporary, "gone-");
    name = gone ? gone : temporary ? temporary : name;
    return is_numbered(name) || is_number(after(name, "snapshot-"));
}

static int64_t number_of(const char *name)
{
    return strtoll(after(name, prefix), NULL, 10);
}

static bool is_unfinished(const char *name)
{
    return after(name, ".tmp-") && !after(name, ".tmp-gone-") && checkpoint_is_name(name);
}

/* Whether all files are there, byte for byte. */
static int check_whole(const char *path, struct err *err)
{
    struct manifest manifest;
    int failed = manifest_read(&manifest, path, err);
    for (int32_t i = 0; i < CHECKPOINT_FILE_COUNT && !failed; i++) {
        AUTORELEASE(text) struct text content = {0};
        AUTOFREE char *file = NULL;
        if (manifest.entry[i].present)
            failed = manifest_read_file(&manifest, path, i, &file, &content, err);
    }
    return failed ? -1 : 0;
}

static void note_unfinished(const char *directory, struct text *notes)
{
    AUTORELEASE(texts) struct texts names = file_list(directory, is_unfinished);
    for (int32_t i = 0; i < names.count; i++)
        text_add(notes,
                 "note: %s/%s was not finished; it is passed over, and the next checkpoint "
                 "removes it\n",
                 directory, names.item[i]);
}

static int compare_numbers(const void *a, const void *b)
{
    int64_t one = number_of(*(char *const *)a);
    int64_t other = number_of(*(char *const *)b);
    return (one < other) - (one > other);
}

int64_t checkpoint_bytes(const char *path)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i <= CHECKPOINT_FILE_COUNT; i++) {
        struct stat file;
        AUTOFREE char *name = base_format("%s/%s", path, checkpoint_file_names[i]);
        bytes += stat(name, &file) ? 0 : file.st_size;
    }
    return bytes;
}

struct texts checkpoint_list(const char *directory)
{
    struct texts names = file_list(directory, is_numbered);
    if (names.count > 0)
        qsort(names.item, (size_t)names.count, sizeof(*names.item), compare_numbers);
    return names;
}

static int check_run(const char *path, const char *run, struct err *err)
{
    struct progress progress;
    if (!run)
        return 0;
    if (checkpoint_read_progress(path, &progress, err))
        return -1;
    return strcmp(progress.run, run) == 0 ? 0
                                          : err_add(err, "it is of run %s, not of run %s",
                                                    *progress.run ? progress.run : "unknown", run);
}

char *checkpoint_latest(const char *directory, const char *run, struct text *notes)
{
    char *path = NULL;
    note_unfinished(directory, notes);
    AUTORELEASE(texts) struct texts names = checkpoint_list(directory);
    for (int32_t i = 0; i < names.count && !path; i++) {
        AUTORELEASE(err) struct err err = {0};
        path = base_format("%s/%s", directory, names.item[i]);
        bool faulty = check_run(path, run, &err) || check_whole(path, &err);
        if (faulty && err.exit_code != 69) { /* unable to judge is no fault */
            text_add(notes, "note: %s is passed over: %s", path, err.text);
            free(path);
            path = NULL;
        }
    }
    return path;
}

char *checkpoint_find(const char *path, struct text *notes, struct err *err)
{
    struct stat found;
    if (stat(path, &found) != 0) {
        err_add_code(err, 66, "%s: there is no such file or directory", path);
        return NULL;
    }
    if (!S_ISDIR(found.st_mode)) {
        int folder = strrchr(path, '/') ? (int)(strrchr(path, '/') - path) : 0;
        err_add_code(err, 66, "%s: a checkpoint is a folder, and this is a file: give %.*s", path,
                     folder ? folder : 1, folder ? path : ".");
        return NULL;
    }
    AUTOFREE char *manifest =
        base_format("%s/%s", path, checkpoint_file_names[CHECKPOINT_FILE_COUNT]);
    if (access(manifest, F_OK) == 0)
        return base_copy(path);
    char run[RUN_ID_SIZE];
    AUTORELEASE(text) struct text passed = {0};
    char *latest = checkpoint_latest(path, run_record_run(path, run) ? run : NULL, &passed);
    if (latest && passed.length > 0)
        text_append(notes, passed.data, passed.length);
    else if (!latest) /* then the message says why none is valid */
        err_add_code(
            err, 66,
            "%s: not a checkpoint: it contains neither a MANIFEST nor a complete ckpt-*%s%.*s",
            path, passed.length > 0 ? "\n" : "", passed.length > 0 ? (int)passed.length - 1 : 0,
            passed.data ? passed.data : "");
    return latest;
}
