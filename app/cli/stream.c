#include "app/cli/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base.h"

enum { STREAM_LIMIT = 64 << 20 /* [bytes] */ };

/* Standard input, or what cannot be read twice; -1: an ordinary file, or none. */
static int open_once(const char *path)
{
    struct stat status;
    if (!strcmp(path, "-"))
        return dup(STDIN_FILENO);
    if (stat(path, &status) ||
        !(S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || S_ISCHR(status.st_mode)))
        return -1;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || !S_ISCHR(status.st_mode) || isatty(file))
        return file;
    close(file); /* /dev/null and the like */
    return -1;
}

/* @return whether all of @from fitted into @to; errno is 0 if it was too long. */
static bool copy_all(int from, int to)
{
    char part[1 << 16];
    int64_t total = 0;
    ssize_t got;
    while ((got = read(from, part, sizeof(part))) > 0) {
        total += got;
        errno = 0;
        if (total > STREAM_LIMIT || write(to, part, (size_t)got) != got)
            return false;
    }
    return got == 0;
}

char *stream_keep(const char *path, struct err *err)
{
    int from = open_once(path);
    if (from < 0)
        return NULL;
    AUTOFREE char *name = base_format("%.200s", strcmp(path, "-") ? path : "stdin");
    int memory = memfd_create(name, MFD_CLOEXEC);
    bool whole = memory >= 0 && copy_all(from, memory);
    if (!whole)
        err_add_code(err, errno ? 66 : 65, "cannot read '%s': %s", name,
                     errno ? strerror(errno) : "it has more than 64 MiB");
    close(from);
    return whole ? base_format("/proc/%d/fd/%d", (int)getpid(), memory) : NULL;
}
