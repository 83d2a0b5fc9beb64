#include "exec/input/pack/output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"

static int fail(const struct output *output, int32_t code, const char *what, struct err *err)
{
    return err_add_code(err, code, "%s: cannot be written: %s", output->path, what);
}

static void release(struct output *output)
{
    if (output->fd >= 0)
        close(output->fd);
    free(output->path);
    free(output->part);
    *output = (struct output){.fd = -1, .size = output->size};
}

/* Whether the open file still has that name: another program may have finished it meanwhile. */
static bool is_current(const struct output *output)
{
    struct stat mine, there;
    return fstat(output->fd, &mine) == 0 && stat(output->part, &there) == 0 &&
           mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

int output_open(struct output *output, const char *path, struct err *err)
{
    *output = (struct output){base_copy(path), base_format("%s.part", path), -1, 0};
    output->fd = open(output->part, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (output->fd < 0)
        fail(output, 73, strerror(errno), err);
    else if (flock(output->fd, LOCK_EX | LOCK_NB) || !is_current(output))
        fail(output, 73, "another program is writing it", err);
    else if (ftruncate(output->fd, 0))
        fail(output, 73, strerror(errno), err);
    else
        return 0;
    release(output);
    return -1;
}

static int write_at(struct output *output, int64_t offset, const void *data, int64_t size,
                    struct err *err)
{
    for (int64_t done = 0; done < size;) {
        ssize_t put =
            pwrite(output->fd, (const char *)data + done, (size_t)(size - done), offset + done);
        if (put < 0 && errno != EINTR)
            return fail(output, 74, strerror(errno), err);
        done += put > 0 ? put : 0;
    }
    return 0;
}

int output_write(struct output *output, const void *data, int64_t size, struct err *err)
{
    if (write_at(output, output->size, data, size, err))
        return -1;
    output->size += size;
    return 0;
}

int output_pad(struct output *output, int64_t unit, struct err *err)
{
    static const char zero[64];
    int64_t left = (unit - output->size % unit) % unit;
    if (output->size == 0)
        left = unit; /* room for a header */
    while (left > 0) {
        int64_t part = left < (int64_t)sizeof(zero) ? left : (int64_t)sizeof(zero);
        if (output_write(output, zero, part, err))
            return -1;
        left -= part;
    }
    return 0;
}

/* The name is on the disk only after the folder is flushed. */
static int sync_folder(const char *path, struct err *err)
{
    AUTOFREE char *copy = base_copy(path);
    return file_sync_directory(dirname(copy), err);
}

int output_finish(struct output *output, const void *header, int64_t size, struct err *err)
{
    if (write_at(output, 0, header, size, err))
        return -1;
    if (fsync(output->fd) || rename(output->part, output->path))
        return fail(output, 74, strerror(errno), err);
    int failed = sync_folder(output->path, err);
    release(output);
    return failed;
}

void output_discard(struct output *output)
{
    if (output->part)
        unlink(output->part);
    release(output);
}
