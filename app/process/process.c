#include "app/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void open_streams(void)
{
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++) {
        if (fcntl(file, F_GETFD) >= 0 || open("/dev/null", O_RDONLY) == file)
            continue;
        fprintf(stderr, "error: descriptor %d is closed and /dev/null cannot be opened: %s\n", file,
                strerror(errno));
        exit(71);
    }
}

void process_start(void)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN); /* a file over its size limit is an error to report */
    sigprocmask(SIG_UNBLOCK, &child, NULL);
    open_streams();
}

int process_documented(int code)
{
    struct rlimit memory;
    if (code == 0 || (code >= 64 && code <= 77) || code > 128)
        return code;
    if (getrlimit(RLIMIT_AS, &memory) == 0 && memory.rlim_cur != RLIM_INFINITY)
        return 71;
    return code == 126 || code == 127 ? 69 : 70;
}
