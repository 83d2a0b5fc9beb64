#include "exec/input/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "core/base/base.h"

void catalog_close(struct catalog *catalog)
{
    if (catalog->listing)
        catalog->ops->close(catalog->listing);
    *catalog = (struct catalog){0};
}

int file_open(struct file *file, const char *path, struct err *err)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a named pipe would block */
    if (fd < 0 || fstat(fd, &status)) {
        err_add_code(err, 66, "%s: cannot be read: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (!S_ISREG(status.st_mode)) {
        close(fd);
        return err_add_code(err, 66, "%s: not a regular file", path);
    }
    *file = (struct file){base_copy(path), fd, status.st_size};
    return 0;
}

int file_load(const struct file *file, int64_t offset, int64_t size, void *data, struct err *err)
{
    for (int64_t done = 0; done < size;) {
        ssize_t got = pread(file->fd, (char *)data + done, (size_t)(size - done), offset + done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return err_add(err, "%s: cannot be read at %" PRId64 ": %s", file->path, offset + done,
                           got ? strerror(errno) : "the file ends early");
        done += got;
    }
    return 0;
}

int64_t file_slurp(const char *path, struct buffer *bytes, struct err *err)
{
    const int64_t limit = (int64_t)1 << 30;
    struct file file;
    if (file_open(&file, path, err))
        return -1;
    int64_t size = file.size;
    if (size > limit)
        size = err_add(err, "%s: %" PRId64 " bytes are too many for one image", path, size);
    else if (file_load(&file, 0, size, buffer_reserve(bytes, size), err))
        size = -1;
    file_close(&file);
    return size;
}

void file_close(struct file *file)
{
    if (file->path)
        close(file->fd);
    free(file->path);
    *file = (struct file){.fd = -1};
}
