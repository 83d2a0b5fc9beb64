#include "exec/log/log_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void note_fault(struct log_file *file)
{
    if (file->error)
        return;
    file->error = errno ? errno : EIO;
    fprintf(stderr, "warning: %s cannot be written: %s; training continues without it\n",
            file->path, strerror(file->error));
}

int log_file_open(struct log_file *file, const char *directory, const char *name, struct err *err)
{
    *file = (struct log_file){.path = base_format("%s/%s", directory, name)};
    file->stream = fopen(file->path, "ae");
    if (file->stream)
        return 0;
    err_add_code(err, 73, "%s: cannot be made: %s", file->path, strerror(errno));
    free(file->path);
    *file = (struct log_file){0};
    return -1;
}

bool log_file_is_empty(const struct log_file *file)
{
    struct stat found;
    return stat(file->path, &found) != 0 || found.st_size == 0;
}

void log_file_cut(struct log_file *file, bool (*is_lost)(const char *line, int64_t step),
                  int64_t step)
{
    FILE *old = fopen(file->path, "re");
    AUTOFREE char *line = NULL;
    size_t capacity = 0;
    off_t whole = 0;
    ssize_t length;
    while (old && (length = getline(&line, &capacity, old)) > 0) {
        if (line[length - 1] != '\n' || is_lost(line, step))
            break;
        whole += length;
    }
    if (!old || truncate(file->path, whole) != 0)
        note_fault(file);
    if (old)
        fclose(old);
}

void log_file_put(struct log_file *file, const void *data, int64_t size)
{
    if (!file->error && fwrite(data, 1, (size_t)size, file->stream) != (size_t)size)
        note_fault(file);
}

void log_file_take(struct log_file *file, struct text *text)
{
    log_file_put(file, text->data, text->length);
    text->length = 0;
}

void log_file_flush(struct log_file *file)
{
    if (!file->error && file->stream && fflush(file->stream) != 0)
        note_fault(file);
}

int log_file_close(struct log_file *file, struct err *err)
{
    log_file_flush(file);
    if (file->stream && fclose(file->stream) != 0)
        note_fault(file);
    int failed = file->error ? err_add_code(err, 74, "%s: cannot be written: %s; it ends too early",
                                            file->path, strerror(file->error))
                             : 0;
    free(file->path);
    *file = (struct log_file){0};
    return failed;
}
