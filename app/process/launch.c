#include "app/process/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "app/process/child.h"
#include "app/process/cores.h"
#include "app/process/process.h"
#include "config.h"

/* Signals of the user to a run. */
struct interrupt {
    int number;    /* the last signal to end; 0: none */
    double first;  /* when SIGINT or SIGTERM first came; 0: not yet */
    bool at_once;  /* no step is waited for */
    double passed; /* when it was forwarded to mpirun; 0: not yet */
};

/* Our choices. */
static const double again = 0.2, /* [s] between one telling and the next */
    twin = 0.5,     /* within this time two signals are one: timeout(1) sends two, to process and
                       group */
    patience = 5.0; /* until mpirun must have ended its ranks */

/* ---- the child ---- */

static void take_streams(const struct launch *launch)
{
    if (launch->input)
        dup2(launch->input, STDIN_FILENO);
    if (launch->output)
        dup2(launch->output, STDOUT_FILENO);
    if (launch->talk)
        dup2(launch->talk, STDERR_FILENO);
}

/* In its own group, the child gets no signals of the terminal: they come here, and are forwarded.
 * So it must not read the terminal, but may write there. */
static _Noreturn void become(const struct launch *launch, pid_t parent, const sigset_t *mask)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(71);
    signal(SIGTTOU, SIG_IGN);
    signal(SIGUSR1, SIG_IGN); /* ignored until the program handles it: an early signal must not
                                 kill */
    setenv("OMPI_MCA_ess_base_forward_signals", "SIGURG", 1);
    setenv("PRTE_MCA_ess_base_forward_signals", "SIGURG", 1); /* of Open MPI 5 */
    if (!launch->hosts)
        setenv("OMPI_MCA_orte_execute_quiet", "1", 1);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    take_streams(launch);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(launch->words.item[0], (char *const *)(size_t)launch->words.item);
    fprintf(stderr, "cannot start %s: %s\n", launch->words.item[0], strerror(errno));
    _exit(71);
}

/* ---- the parent ---- */

/* Signals are handled one by one, and none is lost.  A program under nohup ignores SIGHUP, and a
 * shell without job control ignores SIGTSTP; both stay ignored. */
static sigset_t watched(void)
{
    static const int always[] = {SIGCHLD, SIGINT, SIGTERM, SIGUSR1}, usual[] = {SIGHUP, SIGTSTP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(always); i++)
        sigaddset(&set, always[i]);
    for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
        struct sigaction now;
        if (sigaction(usual[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, usual[i]);
    }
    return set;
}

/* The first signal requests an end with a checkpoint; a second SIGINT or SIGTERM ends at once. */
static void take_interrupt(struct interrupt *interrupt, int number, const struct launch *launch)
{
    bool end = number == SIGINT || number == SIGTERM;
    double now = base_seconds(CLOCK_MONOTONIC);
    if (!interrupt->number && launch->saves)
        fputs("the ranks end after the step at hand; Ctrl-C or SIGTERM once more ends them at "
              "once\n",
              stderr);
    interrupt->at_once |=
        !launch->saves || (end && interrupt->first > 0.0 && now > interrupt->first + twin);
    if (end && !(interrupt->first > 0.0))
        interrupt->first = now;
    interrupt->number = number;
}

/* Ranks that do not handle a signal yet miss it, so it is sent repeatedly. mpirun catches the usual
 * signals itself and would kill its ranks; it forwards SIGURG, whose default is to do nothing. */
static void press(struct interrupt *interrupt, pid_t pid, const struct launch *launch)
{
    bool mpirun = !strcmp(launch->words.item[0], "mpirun");
    if (!interrupt->at_once) {
        kill(pid, mpirun ? SIGURG : SIGUSR1);
    } else if (mpirun && !(interrupt->passed > 0.0)) {
        interrupt->passed = base_seconds(CLOCK_MONOTONIC);
        kill(pid, SIGTERM);
    } else if (!mpirun || base_seconds(CLOCK_MONOTONIC) > interrupt->passed + patience) {
        kill(pid, SIGKILL);
        kill(-pid, SIGTERM); /* MPI's daemon of a single rank tidies up */
    }
}

/* Ctrl-Z: the ranks stop as long as this process does. */
static void rest(pid_t pid)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    kill(pid, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL); /* this process stops here, and later continues here */
    sigprocmask(SIG_BLOCK, &stop, NULL);
    kill(pid, SIGCONT);
}

/* mpirun of Open MPI 4, asked to be quiet, says nothing about a rank that was killed. */
static int finish(const struct launch *launch, const struct interrupt *interrupt, int status,
                  struct err *err)
{
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    int known = process_documented(code);
    if (interrupt->at_once) {
        signal(interrupt->number, SIG_IGN); /* one more must not end the telling of it */
        return err_add_code(err, 128 + interrupt->number, "ended by a signal: %s",
                            strsignal(interrupt->number));
    }
    if (known != code && !launch->talk)
        return err_add_code(err, known, "%s ended with exit code %d: %s", launch->words.item[0],
                            code,
                            known == 71   ? "it may need more memory than ulimit -v allows"
                            : known == 69 ? "it could not be loaded, for the reason above"
                                          : "the reason may stand above");
    if (code <= 128 || launch->talk)
        return code;
    return err_add_code(
        err, code, "a rank was killed by signal %d (%s)%s", code - 128, strsignal(code - 128),
        code == 128 + SIGKILL ? ": Linux does so when memory runs out; a smaller batch takes less"
                              : "");
}

static int supervise(const struct launch *launch, pid_t pid, const sigset_t *signals,
                     struct err *err)
{
    const struct timespec soon = {.tv_nsec = (long)(1e9 * again)};
    struct interrupt interrupt = {0};
    for (;;) {
        int status;
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended < 0)
            return err_add_code(err, 71, "%s: its exit code is lost: %s", launch->words.item[0],
                                strerror(errno));
        if (ended == pid)
            return finish(launch, &interrupt, status, err);
        int number = sigtimedwait(signals, NULL, interrupt.number ? &soon : NULL);
        if (number == SIGTSTP)
            rest(pid);
        else if (number > 0 && number != SIGCHLD)
            take_interrupt(&interrupt, number, launch);
        if (interrupt.number)
            press(&interrupt, pid, launch);
    }
}

/* The answer will be printed: better fail before it is computed. */
static int check_output(struct err *err)
{
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY)
        return 0;
    return err_add_code(err, 74, "cannot write to standard output");
}

int launch_run(const struct launch *launch, struct err *err)
{
    sigset_t signals = watched(), before;
    if (check_output(err))
        return -1;
    sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(launch, parent, &before);
    int code = -1;
    if (pid < 0) {
        err_add_code(err, 71, "cannot start a process: %s", strerror(errno));
    } else {
        setpgid(pid, pid); /* the child does the same: the first one wins */
        code = supervise(launch, pid, &signals, err);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}

#ifdef HAVE_MPI
const bool launch_has_mpi = true;
#else
const bool launch_has_mpi = false;
#endif

bool launch_finds(const char *name)
{
    AUTOFREE char *path = base_copy(getenv("PATH"));
    bool found = false;
    for (char *save, *part = path ? strtok_r(path, ":", &save) : NULL; part && !found;
         part = strtok_r(NULL, ":", &save)) {
        AUTOFREE char *full = base_format("%s/%s", part, name);
        found = access(full, X_OK) == 0;
    }
    return found;
}

static void add_words(struct launch *launch, const char *const *words)
{
    for (; *words; words++)
        texts_add(&launch->words, "%s", *words);
}

static void add_places(struct launch *launch, int32_t ranks)
{
    static const char *const here[] = {"--bind-to", "none", NULL};
    static const char *const yield[] = {"--mca", "mpi_yield_when_idle", "1", NULL};
    const char *const lab[] = {"--map-by", "seq", "--host", launch->hosts, NULL};
    if (launch->hosts) { /* the lab's environment sets everything else */
        add_words(launch, lab);
        return;
    }
    add_words(launch, here);
    if (launch->yields)
        add_words(launch, yield);
    if (ranks > cores_available())
        texts_add(&launch->words, "--oversubscribe");
    if (geteuid() == 0)
        texts_add(&launch->words, "--allow-run-as-root");
}

static int add_mpirun(struct launch *launch, int32_t ranks, struct err *err)
{
    if (!launch_has_mpi)
        return err_add_code(err, 69,
                            "this foretrain-exec was built without MPI (libopenmpi-dev), so it has "
                            "one rank: use -n 1");
    if (!launch_finds("mpirun"))
        return err_add_code(err, 69, "mpirun was not found: install openmpi-bin");
    texts_add(&launch->words, "mpirun");
    add_places(launch, ranks);
    texts_add(&launch->words, "-n");
    texts_add(&launch->words, "%d", ranks);
    return 0;
}

/* With too few descriptors MPI complains about its plugins, or waits for ever.  Measured with Open
 * MPI 4.1.4: one rank needs 30, 2 to 32 ranks under mpirun 40 to 192; at least doubled here. */
static int ask_descriptors(int32_t ranks, struct err *err)
{
    rlim_t need = 64 + 10 * (rlim_t)ranks;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= need)
        return 0;
    limit.rlim_cur = limit.rlim_max < need ? limit.rlim_max : need;
    if (limit.rlim_cur >= need && setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return 0;
    return err_add_code(
        err, 71,
        "%d rank%s need%s %llu open files, but this process may have only %llu (ulimit -n)", ranks,
        ranks == 1 ? "" : "s", ranks == 1 ? "s" : "", (unsigned long long)need,
        (unsigned long long)limit.rlim_max);
}

int launch_begin(struct launch *launch, int32_t ranks, struct err *err)
{
    if (ask_descriptors(ranks, err))
        return -1;
    AUTOFREE char *program = child_program("foretrain-exec");
    if (!program)
        return err_add_code(err, 69, "foretrain-exec was not found; 'foretrain env' shows why");
    if ((ranks > 1 || launch->hosts) && add_mpirun(launch, ranks, err))
        return -1;
    texts_add(&launch->words, "%s", program);
    return 0;
}

char *launch_line(const struct launch *launch)
{
    struct text line = {0};
    for (int32_t i = 0; i < launch->words.count; i++) {
        text_append(&line, " ", i > 0);
        text_add_word(&line, launch->words.item[i]);
    }
    return line.data;
}

int launch_file(struct err *err)
{
    int file = memfd_create("foretrain", MFD_CLOEXEC);
    return file < 0 ? err_add_code(err, 71, "cannot make a file in memory: %s", strerror(errno))
                    : file;
}

int launch_keep(struct launch *launch, bool talk, struct err *err)
{
    launch->output = launch_file(err);
    launch->talk = talk && launch->output >= 0 ? launch_file(err) : 0;
    return launch->output < 0 || launch->talk < 0 ? -1 : 0;
}

struct text launch_read(int file)
{
    struct text text = {0};
    char part[4096];
    lseek(file, 0, SEEK_SET);
    for (ssize_t got; (got = read(file, part, sizeof(part))) > 0;)
        text_append(&text, part, got);
    return text;
}

struct json *launch_read_json(const struct launch *launch, struct err *err)
{
    AUTORELEASE(text) struct text text = launch_read(launch->output);
    return text.data ? json_read("foretrain-exec", text.data, text.length, err) : NULL;
}

void launch_release(struct launch *launch)
{
    texts_release(&launch->words);
    if (launch->output > 0)
        close(launch->output);
    if (launch->talk > 0)
        close(launch->talk);
    *launch = (struct launch){0};
}
