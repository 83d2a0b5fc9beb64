#include "core/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "core/base/claim.h"

int file_make_directory(const char *path, struct err *err)
{
    AUTOFREE char *part = base_copy(path);
    int failed = 0;
    for (char *c = part; !failed && *c; c++) {
        if (*c != '/' || c == part)
            continue;
        *c = '\0';
        failed = mkdir(part, 0777) != 0 && errno != EEXIST;
        *c = '/';
    }
    struct stat found;
    failed = failed || (mkdir(part, 0777) != 0 && errno != EEXIST);
    int reason = errno;
    if (!failed && stat(path, &found) == 0 && !S_ISDIR(found.st_mode)) {
        failed = 1;
        reason = ENOTDIR;
    }
    if (failed)
        return err_add_code(err, 73, "%s: cannot make this directory: %s", path, strerror(reason));
    return 0;
}

/* Up to @size bytes; fewer at the end of the file.  @return how many, or -1 with errno. */
static int64_t read_all(int fd, char *data, int64_t size)
{
    int64_t done = 0;
    while (done < size) {
        ssize_t part = pread(fd, data + done, (size_t)(size - done), done);
        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return -1;
        if (part == 0)
            break;
        done += part;
    }
    return done;
}

static int file_read_open(int fd, const char *path, struct text *content, struct err *err)
{
    struct stat found;
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode))
        return err_add_code(err, 66, "%s: not a regular file", path);
    struct text text = {.data = base_alloc(found.st_size + 1, 1), .capacity = found.st_size + 1};
    text.length = read_all(fd, text.data, found.st_size);
    if (text.length < 0) {
        err_add_code(err, 74, "%s: cannot be read: %s", path, strerror(errno));
        text_release(&text);
        return -1;
    }
    text.data[text.length] = '\0';
    *content = text;
    return 0;
}

int file_in_memory(const char *name, const struct text *content, struct err *err)
{
    int file = memfd_create(name, MFD_CLOEXEC);
    int64_t done = 0;
    for (ssize_t now = 0; file >= 0 && done < content->length && now >= 0; done += now)
        now = write(file, content->data + done, (size_t)(content->length - done));
    if (file >= 0 && done == content->length)
        return lseek(file, 0, SEEK_SET) ? -1 : file;
    err_add_code(err, file < 0 ? 71 : 74, "cannot store the %s: %s", name, strerror(errno));
    if (file >= 0)
        close(file);
    return -1;
}

int file_read(const char *path, struct text *content, struct err *err)
{
    if (claim_input(path, err))
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    if (fd < 0)
        return err_add_code(err, 66, "%s: %s", path, strerror(errno));
    int failed = file_read_open(fd, path, content, err);
    close(fd);
    return failed;
}

static void print_digits(XXH128_hash_t hash, char *digits)
{
    snprintf(digits, CHECKSUM_DIGITS + 1, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

void checksum_of(const void *data, size_t size, char *digits)
{
    print_digits(XXH3_128bits(data, size), digits);
}

struct file_sink file_sink_open(const char *directory, const char *name)
{
    struct file_sink sink = {.path = base_format("%s/%s", directory, name),
                             .checksum = XXH3_createState()};
    if (!sink.checksum)
        base_out_of_memory(0);
    XXH3_128bits_reset(sink.checksum);
    sink.fd = open(sink.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    sink.error = sink.fd < 0 ? errno : 0;
    return sink;
}

void file_sink_put(struct file_sink *sink, const void *data, int64_t size)
{
    const char *byte = data;
    XXH3_128bits_update(sink->checksum, data, (size_t)size);
    for (int64_t done = 0; !sink->error && done < size;) {
        ssize_t part = write(sink->fd, byte + done, (size_t)(size - done));
        if (part >= 0)
            done += part;
        else if (errno != EINTR)
            sink->error = errno;
    }
    sink->bytes += size;
}

int file_sink_close(struct file_sink *sink, char *digits, struct err *err)
{
    print_digits(XXH3_128bits_digest(sink->checksum), digits);
    XXH3_freeState(sink->checksum);
    if (!sink->error && fsync(sink->fd) != 0)
        sink->error = errno;
    if (sink->fd >= 0 && close(sink->fd) != 0 && !sink->error)
        sink->error = errno;
    int failed = sink->error ? err_add_code(err, 74, "%s: cannot be written: %s", sink->path,
                                            strerror(sink->error))
                             : 0;
    free(sink->path);
    *sink = (struct file_sink){.fd = -1};
    return failed;
}

static int fail(const char *path, int code, struct err *err)
{
    int reason = errno;
    err_add_code(err, code, "%s: cannot be written: %s", path, strerror(reason));
    errno = reason;
    return -1;
}

char *file_place(const char *path)
{
    char link[PATH_MAX], *place = realpath(path, NULL);
    if (place || errno != ENOENT || !*path)
        return place;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    AUTOFREE char *folder = base_format("%.*s", (int)(name - path), path);
    ssize_t length = readlink(path, link, sizeof(link));
    if (length > 0) {
        const char *from = *link == '/' ? "" : folder;
        AUTOFREE char *target = base_format("%s%.*s", from, (int)length, link);
        return file_place(target);
    }
    AUTOFREE char *real = realpath(*folder ? folder : ".", NULL);
    return real ? base_format("%s/%s", real, name) : NULL;
}

/* Where this process prints to the file @found; 0: nowhere. */
static int printed_by(const struct stat *found)
{
    struct stat own;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (S_ISREG(found->st_mode) && fstat(fd, &own) == 0 && own.st_ino == found->st_ino &&
            own.st_dev == found->st_dev)
            return fd;
    return 0;
}

static bool is_stream(const struct stat *found)
{
    return !S_ISREG(found->st_mode) || found->st_nlink == 0 || printed_by(found);
}

bool file_is_stream(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && !S_ISDIR(found.st_mode) && is_stream(&found);
}

bool file_is_directory(const char *path)
{
    struct stat found;
    size_t length = strlen(path);
    return (length && path[length - 1] == '/') || (!stat(path, &found) && S_ISDIR(found.st_mode));
}

/* What is printed later follows. */
static int open_stream(struct file_fresh *file, const struct stat *found)
{
    int printed = printed_by(found);
    file->fresh = base_copy(file->path);
    return printed ? fcntl(printed, F_DUPFD_CLOEXEC, 0)
                   : open(file->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
}

/* @old: what it will replace, or NULL. */
static int open_beside(struct file_fresh *file, const struct stat *old)
{
    uint64_t number;
    mode_t mode = old ? old->st_mode & 0777 : 0666;
    file->place = file_place(file->path);
    if (!file->place || getrandom(&number, sizeof(number), 0) != sizeof(number))
        return -1;
    file->fresh = base_format("%s.%016" PRIx64, file->place, number);
    AUTOFREE char *folder = base_copy(file->place);
    strrchr(folder, '/')[1] = '\0';
    int fd = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
    file->unnamed = fd >= 0;
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
        fd = open(file->fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0 && old)
        fchmod(fd, mode); /* more than the umask gives; less hurts nobody */
    return fd;
}

static void fresh_release(struct file_fresh *file)
{
    int reason = errno;
    free(file->path);
    free(file->place);
    free(file->fresh);
    *file = (struct file_fresh){0};
    errno = reason;
}

int file_fresh_open(struct file_fresh *file, const char *path, struct err *err)
{
    struct stat found;
    *file = (struct file_fresh){.path = base_copy(path)};
    bool there = stat(path, &found) == 0;
    int fd = -1;
    if (there && is_stream(&found))
        fd = open_stream(file, &found);
    else if (there || errno == ENOENT)
        fd = open_beside(file, there ? &found : NULL);
    file->stream = fd < 0 ? NULL : fdopen(fd, "w");
    if (file->stream)
        return 0;
    fail(path, 73, err);
    fresh_release(file);
    return -1;
}

/* @return 0, or -1 with errno. */
static int flush(FILE *stream)
{
    if (ferror(stream) || fflush(stream))
        return -1;
    return fsync(fileno(stream)) && errno != EINVAL ? -1 : 0; /* EINVAL: a pipe or terminal */
}

static int name_it(const struct file_fresh *file)
{
    AUTOFREE char *unnamed = base_format("/proc/self/fd/%d", fileno(file->stream));
    return linkat(AT_FDCWD, unnamed, AT_FDCWD, file->fresh, AT_SYMLINK_FOLLOW);
}

/* What is said of the file that is checked is said of the one that it will be. */
static void rename_in(char **messages, const struct file_fresh *file)
{
    struct text text = {0};
    for (const char *at = *messages, *next; at; at = next) {
        next = file->place ? strstr(at, file->fresh) : NULL;
        text_add(&text, "%.*s%s", next ? (int)(next - at) : (int)strlen(at), at,
                 next ? file->path : "");
        next = next ? next + strlen(file->fresh) : NULL;
    }
    free(*messages);
    *messages = text.data;
}

int file_fresh_close(struct file_fresh *file, bool failed,
                     int (*check)(const char *path, struct err *err), struct err *err)
{
    if (!failed && flush(file->stream))
        failed = fail(file->path, 74, err);
    if (!failed && file->unnamed && name_it(file))
        failed = fail(file->path, 73, err);
    if (fclose(file->stream) && !failed)
        failed = fail(file->path, 74, err);
    if (!failed && check) {
        failed = check(file->fresh, err);
        rename_in(&err->text, file);
        rename_in(&err->warning, file);
    }
    if (!failed && file->place && rename(file->fresh, file->place))
        failed = fail(file->path, 73, err);
    int reason = errno;
    if (failed && file->place)
        unlink(file->fresh);
    errno = reason;
    fresh_release(file);
    return failed ? -1 : 0;
}

int file_check_place(const char *path, struct err *err)
{
    struct file_fresh file;
    if (file_is_stream(path))
        return 0; /* a pipe would end with the first who closes it */
    if (file_fresh_open(&file, path, err))
        return -1;
    file_fresh_close(&file, true, NULL, err); /* leaves what stands there */
    return 0;
}

int file_write(const char *path, const struct text *text,
               int (*check)(const char *path, struct err *err), struct err *err)
{
    struct file_fresh file;
    if (file_fresh_open(&file, path, err))
        return -1;
    fwrite(text->data, 1, (size_t)text->length, file.stream); /* a fault stays with the stream */
    if (file_fresh_close(&file, false, check, err))
        return -1;
    claim_written(path);
    return 0;
}

int file_check_own(const char *path, const char *mark, struct err *err)
{
    struct stat found;
    if (stat(path, &found) != 0 || !S_ISREG(found.st_mode))
        return 0;
    AUTOFREE char *begin = base_alloc((int64_t)strlen(mark) + 1, 1);
    FILE *file = fopen(path, "re");
    bool own = file && fread(begin, 1, strlen(mark), file) == strlen(mark) && !strcmp(begin, mark);
    if (file)
        fclose(file);
    return own ? 0
               : err_add_code(err, 73,
                              "%s exists, and this command did not write it: name another file, or "
                              "replace it with --overwrite",
                              path);
}

int file_sync_directory(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0 || (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP);
    int reason = errno;
    if (fd >= 0)
        close(fd);
    if (failed)
        return err_add_code(err, 74, "%s: cannot be flushed to the disk: %s", path,
                            strerror(reason));
    return 0;
}
