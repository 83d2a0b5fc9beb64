#include "app/start.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/base.h"

struct started {
    pid_t *pid; /* (ranks) 0: has ended */
    int32_t ranks, left;
    int code;        /* of the first that failed */
    double deadline; /* when the others are killed; 0: not yet */
    sigset_t before; /* signals as the ranks get them */
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Rank 0 inherits the socket, so that nobody else can take its port meanwhile.  @return it, and
 * its port, or -1. */
static int listen_here(int32_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, 1024) ||
        getsockname(fd, (struct sockaddr *)&address, &size))
        return -1;
    *port = ntohs(address.sin_port);
    return fd;
}

static void set_number(const char *name, int32_t value)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

static void set_environment(int32_t rank, int32_t ranks, int32_t port, int listener)
{
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%d", port);
    setenv("FORETRAIN_ADDRESS", address, 1);
    set_number("FORETRAIN_RANK", rank);
    set_number("FORETRAIN_RANKS", ranks);
    set_number("FORETRAIN_LOCAL_RANK", rank);
    set_number("FORETRAIN_LOCAL_RANKS", ranks);
    if (rank == 0)
        set_number("FORETRAIN_LISTENER", listener);
    else
        unsetenv("FORETRAIN_LISTENER");
}

static _Noreturn void become_rank(int32_t rank, int listener, const sigset_t *signals, pid_t parent,
                                  char **argument)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(71);
    if (rank > 0) {
        int nothing = open("/dev/null", O_RDONLY);
        dup2(nothing, STDIN_FILENO);
        close(nothing);
        close(listener);
    }
    sigprocmask(SIG_SETMASK, signals, NULL);
    execvp(argument[0], argument);
    fprintf(stderr, "cannot start %s: %s\n", argument[0], strerror(errno));
    _exit(71);
}

static void signal_all(const struct started *started, int number)
{
    for (int32_t rank = 0; rank < started->ranks; rank++)
        if (started->pid[rank] > 0)
            kill(started->pid[rank], number);
}

static void fail(struct started *started, int code)
{
    const double grace = 1; /* [s] in which the others hear of it and end */
    if (started->code)
        return;
    started->code = code;
    started->deadline = now() + grace;
}

static void start_all(struct started *started, int listener, int32_t port, char **argument)
{
    pid_t parent = getpid();
    for (int32_t rank = 0; rank < started->ranks; rank++) {
        set_environment(rank, started->ranks, port, listener);
        pid_t pid = fork();
        if (pid == 0)
            become_rank(rank, listener, &started->before, parent, argument);
        if (pid < 0) {
            fprintf(stderr, "cannot start a process: %s\n", strerror(errno));
            fail(started, 71);
            return;
        }
        started->pid[rank] = pid;
        started->left++;
    }
}

static void note_end(struct started *started, pid_t pid, int status)
{
    for (int32_t rank = 0; rank < started->ranks; rank++) {
        if (started->pid[rank] != pid)
            continue;
        started->pid[rank] = 0;
        started->left--;
        if (WIFSIGNALED(status) && !started->code)
            fprintf(stderr, "foretrain-exec: rank %d (pid %lld) was killed by signal %d: %s\n",
                    rank, (long long)pid, WTERMSIG(status), strsignal(WTERMSIG(status)));
        int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (code)
            fail(started, code);
    }
}

static void wait_for_all(struct started *started, const sigset_t *signals)
{
    const struct timespec soon = {.tv_nsec = 50000000}, late = {.tv_sec = 3600};
    while (started->left > 0) {
        int status, number = sigtimedwait(signals, NULL, started->deadline > 0 ? &soon : &late);
        if (number > 0 && number != SIGCHLD)
            signal_all(started, number);
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
            note_end(started, pid, status);
        if (started->deadline > 0 && now() > started->deadline)
            signal_all(started, SIGKILL);
    }
}

int start_ranks(int32_t ranks, char **argument)
{
    struct started started = {.ranks = ranks, .pid = base_alloc(ranks, sizeof(pid_t))};
    sigset_t signals;
    int32_t port = 0;
    int listener = listen_here(&port);
    if (listener < 0) {
        fprintf(stderr, "cannot listen at 127.0.0.1: %s\n", strerror(errno));
        free(started.pid);
        return 71;
    }
    sigemptyset(&signals);
    for (const int *number = (const int[]){SIGCHLD, SIGTERM, SIGINT, SIGUSR1, 0}; *number; number++)
        sigaddset(&signals, *number);
    sigprocmask(SIG_BLOCK, &signals, &started.before);
    start_all(&started, listener, port, argument);
    close(listener);
    wait_for_all(&started, &signals);
    free(started.pid);
    return started.code;
}
