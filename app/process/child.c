#include "app/process/child.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "app/process/launch.h"
#include "app/process/process.h"
#include "core/base/file.h"
#include "core/traffic/workload.h"

/* ---- how far simulations are: what `foretrain-sim --progress` writes ---- */

/* One simulation.  Start from {0}. */
struct progress {
    int64_t done, total; /**< messages; total is 0 until it has begun */
    double seconds;      /**< processor time since it began [s] */
    double begun;        /**< base_seconds(CLOCK_MONOTONIC) when that was first read [s] */
};

static const char mark[] = "progress ";

/* Update @progress by the last line "progress DONE TOTAL SECONDS" of @talk, whose offset stays. */
static void progress_read(struct progress *progress, int talk)
{
    struct stat status;
    char end[256];
    if (fstat(talk, &status))
        return;
    off_t from = status.st_size < (off_t)sizeof(end) ? 0 : status.st_size - (off_t)sizeof(end) + 1;
    ssize_t got = pread(talk, end, sizeof(end) - 1, from);
    end[got > 0 ? got : 0] = '\0';
    for (char *line = strstr(end, mark), *stop; line; line = strstr(line + 1, mark)) {
        struct progress found = *progress;
        stop = strchr(line, '\n');
        if (!stop || sscanf(line + strlen(mark), "%" SCNd64 "%" SCNd64 "%lf", &found.done,
                            &found.total, &found.seconds) != 3)
            continue;
        found.begun = progress->total ? progress->begun : base_seconds(CLOCK_MONOTONIC);
        *progress = found;
    }
}

/* What follows such lines at the beginning of @talk. */
static const char *progress_skip(const char *talk)
{
    while (!strncmp(talk, mark, strlen(mark))) {
        talk += strcspn(talk, "\n");
        talk += *talk == '\n';
    }
    return talk;
}

/* Processor time of the whole simulation, if the rest goes as fast as what is done [s]; 0: not
 * known, as in the first second. */
static double progress_estimate(const struct progress *progress)
{
    if (progress->done <= 0 || progress->seconds < 1.0)
        return 0.0;
    return progress->seconds * (double)progress->total / (double)progress->done;
}

/* Time that is left by the same rule [s]; 0: not known. */
static double progress_left(const struct progress *progress)
{
    if (progress->done <= 0)
        return 0.0;
    double rest = (double)(progress->total - progress->done) / (double)progress->done;
    return rest * (base_seconds(CLOCK_MONOTONIC) - progress->begun);
}

/* ---- children ---- */

enum {
    CHILD_PARALLEL = 2,
    CHILD_LONG = 10, /* [s] of processor time, from which a simulation is announced */
    EXIT_CANNOT_START = 127,
};

struct memory child_memory;

/* A process that runs a simulation. */
struct child {
    const struct simulation *simulation;
    int32_t pid;    /* 0: ended, -1: status lost */
    int32_t status; /* as waitpid() has it */
    int document, answer, talk;
    struct progress progress;
    bool told; /* its estimate was printed */
};

char *child_program(const char *name)
{
    const char *given = getenv("FORETRAIN_LIBEXEC");
    char own[4096] = "";
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
    char *slash = length > 0 ? strrchr(own, '/') : NULL;
    if (slash)
        *slash = '\0';
    char *path[] = {
        base_format("%s/%s", given ? given : own, name),
        given ? NULL : base_format("%s/../libexec/foretrain/%s", own, name),
    };
    char *found = NULL;
    for (int i = 0; i < 2; i++) {
        if (!found && path[i] && !access(path[i], X_OK))
            found = path[i];
        else
            free(path[i]);
    }
    return found;
}

/* Only the child returns from fork() to here and it never comes back. */
static _Noreturn void become(const struct child *child, const char *program, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_CANNOT_START);
    dup2(child->document, STDIN_FILENO);
    dup2(child->answer, STDOUT_FILENO);
    dup2(child->talk, STDERR_FILENO);
    /* SimGrid allocates and frees millions of small blocks: this makes glibc keep them, in pages of
     * 2 MiB.  A value set by the user stays. */
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=65535:glibc.malloc.hugetlb=1", 0);
    execl(program, program, "--raw", (char *)NULL);
    fprintf(stderr, "cannot start %s: %s\n", program, strerror(errno));
    _exit(EXIT_CANNOT_START);
}

static int start(struct child *child, const char *program, struct err *err)
{
    AUTORELEASE(text) struct text document = {0};
    const struct simulation *simulation = child->simulation;
    child->document = child->answer = child->talk = -1;
    if (workload_describe(&document, simulation->run, simulation->schedule, err))
        return -1;
    child->document = file_in_memory("workload", &document, err);
    if (child->document < 0)
        return -1;
    child->answer = memfd_create("trace", MFD_CLOEXEC);
    child->talk = memfd_create("talk", MFD_CLOEXEC);
    pid_t parent = getpid();
    fflush(NULL); /* the child must not print what the parent has buffered */
    child->pid = child->answer < 0 || child->talk < 0 ? -1 : fork();
    if (child->pid < 0)
        return err_add_code(err, 71, "cannot start %s: %s", program, strerror(errno));
    if (!child->pid)
        become(child, program, parent);
    return 0;
}

/* All children: those before @started run or have ended. */
struct crowd {
    struct child *child;
    int32_t count, started, ended;
    double begin; /* by base_seconds(CLOCK_MONOTONIC) [s] */
    double shown; /* when the terminal's line was last written; 0: there is none */
};

static void clear_line(struct crowd *crowd)
{
    if (crowd->shown > 0.0)
        fputs("\r\033[K", stderr);
    crowd->shown = 0.0;
}

/* One line that is rewritten. */
static void show_line(struct crowd *crowd, const struct progress *slowest)
{
    double now = base_seconds(CLOCK_MONOTONIC);
    if (now - crowd->begin < 2.0 || now - crowd->shown < 1.0 || !isatty(STDERR_FILENO))
        return;
    clear_line(crowd);
    crowd->shown = now;
    fprintf(stderr, "simulating (%d running, %d to come): %.0f s", crowd->started - crowd->ended,
            crowd->count - crowd->started, now - crowd->begin);
    if (slowest)
        fprintf(stderr, ", %.0f %%, about %.0f s left",
                100.0 * (double)slowest->done / (double)slowest->total, progress_left(slowest));
}

static void show_progress(struct crowd *crowd)
{
    const struct progress *slowest = NULL;
    for (int32_t i = 0; i < crowd->started; i++) {
        struct progress *progress = &crowd->child[i].progress;
        if (crowd->child[i].pid <= 0)
            continue;
        progress_read(progress, crowd->child[i].talk);
        if (!crowd->child[i].told && progress_estimate(progress) > CHILD_LONG) {
            crowd->child[i].told = true;
            clear_line(crowd);
            fprintf(stderr, "simulating %s: about %.0f s by %lld messages\n",
                    crowd->child[i].simulation->what, progress_estimate(progress),
                    (long long)progress->total);
        }
        if (progress_left(progress) > (slowest ? progress_left(slowest) : 0.0))
            slowest = progress;
    }
    show_line(crowd, slowest);
}

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    interrupted = 1;
}

/* Polls, because waiting for one child with a timeout needs too much machinery: 2 ms are negligible
 * beside a simulation. */
static void wait_for_one(struct crowd *crowd)
{
    struct child *child = crowd->child;
    for (int32_t round = 1;; round++) {
        for (int32_t i = 0; i < crowd->started; i++) {
            if (interrupted && child[i].pid > 0)
                kill(child[i].pid, SIGKILL);
            pid_t pid = child[i].pid > 0 ? waitpid(child[i].pid, &child[i].status, WNOHANG) : 0;
            if (pid) { /* or it is lost how this one ended */
                child[i].pid = pid < 0 ? -1 : 0;
                crowd->ended++;
                return;
            }
        }
        if (round % 100 == 0)
            show_progress(crowd);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

/* The last useful line: SimGrid appends a backtrace to its reason. */
static char *last_line(const char *talk)
{
    const char *found = "";
    for (const char *line = talk; *line; line += strspn(line, "\n")) {
        size_t length = strcspn(line, "\n");
        AUTOFREE char *copy = base_format("%.*s", (int)length, line);
        if (!strstr(copy, "->  #") && strncmp(copy, "Backtrace", 9))
            found = line;
        line += length;
    }
    return base_format("%.*s", (int)strcspn(found, "\n"), found);
}

static int report_stop(const struct child *child, const char *how, const char *said,
                       struct err *err)
{
    err_add_code(err, 70, "foretrain-sim stopped: %s while simulating %s%s%s", how,
                 child->simulation->what, *said ? ": " : "", said);
    return -1;
}

static int report_exit(const struct child *child, const char *talk, struct err *err)
{
    AUTOFREE char *how = WIFSIGNALED(child->status)
                             ? base_format("killed by signal %d (%s)", WTERMSIG(child->status),
                                           strsignal(WTERMSIG(child->status)))
                             : base_format("exit code %d", WEXITSTATUS(child->status));
    AUTOFREE char *said = last_line(talk);
    report_stop(child, how, said, err);
    return -1;
}

static int read_answer(struct child *child, struct err *err)
{
    AUTORELEASE(err) struct err garbage = {0};
    FILE *file = fdopen(child->answer, "r");
    if (!file)
        return err_add_code(err, 71, "cannot read foretrain-sim's answer: %s", strerror(errno));
    child->answer = -1; /* the stream's */
    rewind(file);
    int failed = trace_read(file, "trace", child->simulation->trace, &garbage);
    fclose(file);
    if (failed) {
        trace_release(child->simulation->trace);
        report_stop(child, "its answer is not a trace", "", err);
    }
    return failed;
}

static int finish(struct child *child, struct err *err)
{
    if (child->pid < 0)
        return report_stop(child, "how it ended is lost", "", err);
    AUTORELEASE(text) struct text said = launch_read(child->talk);
    const char *talk = progress_skip(said.data ? said.data : "");
    if (getenv("FORETRAIN_DEBUG"))
        fputs(talk, stderr);
    int code = WIFEXITED(child->status) ? process_documented(WEXITSTATUS(child->status)) : -1;
    int failed = -1;
    if (!code)
        failed = read_answer(child, err);
    else if (code == 71 || code == 74)
        err_add_code(err, code, "%.*s", (int)strcspn(talk, "\n"), talk);
    else if (code >= 64 && code < 70 && *talk)
        err_add_code(err, code, "%.*s", (int)strlen(talk) - 1, talk); /* ends in newline */
    else
        report_exit(child, talk, err);
    return failed;
}

static void close_files(struct child *child)
{
    if (child->document >= 0)
        close(child->document);
    if (child->answer >= 0)
        close(child->answer);
    if (child->talk >= 0)
        close(child->talk);
}

/* Start and wait until all have ended, or all that ran when something failed or SIGINT came. */
static int run_all(struct crowd *crowd, const char *program, struct err *err)
{
    int failed = 0;
    while (crowd->ended < crowd->started || (crowd->started < crowd->count && !failed)) {
        if (crowd->started < crowd->count && crowd->started - crowd->ended < CHILD_PARALLEL &&
            !failed) {
            struct child *next = &crowd->child[crowd->started];
            failed = start(next, program, err);
            if (failed)
                close_files(next);
            else
                crowd->started++;
        } else {
            wait_for_one(crowd);
        }
        if (interrupted && !failed)
            failed = err_add_code(err, 128 + SIGINT, "interrupted while simulating %s",
                                  crowd->child->simulation->what);
    }
    clear_line(crowd);
    return failed;
}

static int run(const struct simulator *simulator, const struct simulation *simulation,
               int32_t count, struct err *err)
{
    AUTOFREE struct child *child = base_alloc(count, sizeof(*child));
    for (int32_t i = 0; i < count; i++)
        child[i].simulation = &simulation[i];
    struct crowd crowd = {.child = child, .count = count, .begin = base_seconds(CLOCK_MONOTONIC)};
    struct sigaction before, handle = {.sa_handler = interrupt};
    AUTOFREE char *program = child_program("foretrain-sim");
    if (!program)
        return err_add_code(err, 69, "foretrain-sim was not found; 'foretrain env' shows why");
    interrupted = 0;
    sigaction(SIGINT, NULL, &before);
    if (before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &handle, NULL);
    int failed = run_all(&crowd, program, err);
    sigaction(SIGINT, &before, NULL);
    for (int32_t i = 0; i < crowd.started; i++) {
        failed = failed || finish(&child[i], err);
        close_files(&child[i]);
    }
    return failed ? -1 : 0;
}

static bool is_there(const struct simulator *simulator)
{
    AUTOFREE char *program = child_program("foretrain-sim");
    return program != NULL;
}

const struct simulator child_simulator = {is_there, run};
