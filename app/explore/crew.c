#include "app/explore/crew.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What all processes see. */
struct shared {
    atomic_llong next;    /* that nobody has */
    atomic_llong doing[]; /* (workers) -1: nothing */
};

/* A crew at work. */
struct shift {
    const struct crew *crew;
    int64_t count;
    struct shared *shared;
    pid_t *pid;        /* (workers) 0: none */
    int input;         /* where answers come from */
    struct text early; /* of a line whose end has not come */
    double ticked;
};

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    interrupted = 1;
}

/* ---- a worker ---- */

static void say(int output, const struct text *lines)
{
    for (int64_t at = 0; at < lines->length;) {
        const char *line = lines->data + at;
        size_t length = strcspn(line, "\n") + 1;
        if (write(output, line, length) != (ssize_t)length)
            _exit(74);
        at += (int64_t)length;
    }
}

/* Only the child returns from fork() to here and it never comes back. */
static _Noreturn void become(const struct shift *shift, int32_t worker, int output, pid_t parent)
{
    const struct crew *crew = shift->crew;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(71);
    signal(SIGINT, SIG_IGN); /* the parent ends workers */
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (!getenv("FORETRAIN_DEBUG"))
        dup2(nothing, STDERR_FILENO); /* simulations talk there, and several at a time */
    dup2(nothing, STDOUT_FILENO);
    close(shift->input);
    for (;;) {
        int64_t index = atomic_fetch_add(&shift->shared->next, 1);
        if (index >= shift->count)
            _exit(0);
        atomic_store(&shift->shared->doing[worker], index);
        AUTORELEASE(text) struct text lines = {0};
        crew->work(crew->context, index, &lines);
        say(output, &lines);
        atomic_store(&shift->shared->doing[worker], -1);
    }
}

/* ---- here ---- */

static int start(struct shift *shift, struct err *err)
{
    int ends[2];
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC))
        return err_add_code(err, 71, "cannot start a worker: %s", strerror(errno));
    shift->input = ends[0];
    fflush(NULL); /* a child must not print what this process has buffered */
    int failed = 0;
    for (int32_t i = 0; i < shift->crew->workers && !failed; i++) {
        atomic_store(&shift->shared->doing[i], -1);
        shift->pid[i] = fork();
        if (!shift->pid[i])
            become(shift, i, ends[1], parent);
        if (shift->pid[i] < 0) {
            shift->pid[i] = 0;
            failed = i ? 0 : err_add_code(err, 71, "cannot start a worker: %s", strerror(errno));
            break;
        }
    }
    close(ends[1]);
    return failed;
}

/* Give away the whole lines among what came. */
static int give(struct shift *shift, struct err *err)
{
    struct text *early = &shift->early;
    int64_t whole = early->length;
    while (whole > 0 && early->data[whole - 1] != '\n')
        whole--;
    if (whole == 0)
        return 0;
    int failed = shift->crew->take(shift->crew->context, early->data, whole, err);
    memmove(early->data, early->data + whole, (size_t)(early->length - whole) + 1);
    early->length -= whole;
    return failed;
}

static void tick(struct shift *shift)
{
    if (base_seconds(CLOCK_MONOTONIC) - shift->ticked < 1)
        return;
    shift->ticked = base_seconds(CLOCK_MONOTONIC);
    shift->crew->tick(shift->crew->context);
}

/* Until all workers have closed their end. */
static int listen_to_all(struct shift *shift, struct err *err)
{
    char buffer[65536];
    for (;;) {
        struct pollfd wait = {.fd = shift->input, .events = POLLIN};
        poll(&wait, 1, 1000);
        if (interrupted)
            return err_add_code(err, 128 + SIGINT, "interrupted");
        if (wait.revents) {
            ssize_t length = read(shift->input, buffer, sizeof(buffer));
            if (length == 0)
                return 0;
            text_append(&shift->early, buffer, length > 0 ? length : 0);
            if (give(shift, err))
                return -1;
        }
        tick(shift);
    }
}

static char *tell_end(int status)
{
    return WIFSIGNALED(status) ? base_format("it was ended by signal %d (%s)", WTERMSIG(status),
                                             strsignal(WTERMSIG(status)))
                               : base_format("it ended with exit code %d", WEXITSTATUS(status));
}

/* All workers to their end, by force if the shift has @failed. */
static int gather(struct shift *shift, bool failed, struct err *err)
{
    const struct crew *crew = shift->crew;
    for (int32_t i = 0; i < crew->workers; i++) {
        int status = 0;
        if (!shift->pid[i])
            continue;
        if (failed)
            kill(shift->pid[i], SIGKILL);
        while (waitpid(shift->pid[i], &status, 0) < 0 && errno == EINTR)
            ;
        shift->pid[i] = 0;
        int64_t lost = atomic_load(&shift->shared->doing[i]);
        if (failed || lost < 0)
            continue;
        AUTOFREE char *how = tell_end(status);
        failed = crew->lose(crew->context, lost, how, err);
    }
    return failed ? -1 : 0;
}

static int work(struct shift *shift, struct err *err)
{
    while (atomic_load(&shift->shared->next) < shift->count) {
        int failed = start(shift, err) || listen_to_all(shift, err);
        failed = gather(shift, failed, err);
        text_release(&shift->early); /* a torn line is its worker's, which is lost */
        if (shift->input >= 0)
            close(shift->input);
        shift->input = -1;
        if (failed)
            return -1;
    }
    return 0;
}

int crew_run(const struct crew *crew, int64_t count, struct err *err)
{
    size_t size = sizeof(struct shared) + (size_t)crew->workers * sizeof(atomic_llong);
    struct shift shift = {
        .crew = crew,
        .count = count,
        .input = -1,
        .pid = base_alloc(crew->workers, sizeof(pid_t)),
        .shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    if (shift.shared == MAP_FAILED) {
        free(shift.pid);
        return err_add_code(err, 71, "cannot start workers: %s", strerror(errno));
    }
    struct sigaction before, handle = {.sa_handler = interrupt};
    interrupted = 0;
    sigaction(SIGINT, NULL, &before);
    if (before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &handle, NULL);
    int failed = work(&shift, err);
    sigaction(SIGINT, &before, NULL);
    munmap(shift.shared, size);
    free(shift.pid);
    return failed;
}
