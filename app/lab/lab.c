#include "app/lab/lab.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/lab/lab_net.h"
#include "app/process/process.h"
#include "core/base/unit.h"

/* All hosts together may send this fraction of the machine's rate between two of them; beyond, the
 * machine and not the network is the bottleneck.  Measured with ring all-reduces against the closed
 * form: see tests/net. */
static const double ceiling_share = 0.2;

/* The report of the child that builds and runs the lab to its parent. */
struct shared {
    struct lab_result result;
    int32_t fault; /* exit code of the message; 0: there is none */
    char message[LAB_MESSAGE_LIMIT];
};

/* Everything that child needs. */
struct lab {
    const struct cabling *cabling;
    const struct launch *command;
    struct shared *shared;
    int gate[2];  /* a pipe: the parent's word to begin, or its end */
    pid_t parent; /* as the child sees it before the namespaces */
};

/* --- the child: first process of the lab --- */

static int mount_private(struct err *err)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return err_add_code(err, 69, "this machine does not allow private mounts: %s",
                            strerror(errno));
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
        return err_add_code(err, 69,
                            "this machine does not allow a private /proc: %s (in a container, "
                            "some of /proc is hidden: start it with --security-opt "
                            "systempaths=unconfined)",
                            strerror(errno));
    if (mount("lab", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755"))
        return err_add_code(err, 69, "this machine does not allow a private /run: %s",
                            strerror(errno));
    sethostname("head", 4);
    return 0;
}

static double total_rate(const struct cabling *cabling)
{
    return cabling->nic.bandwidth * lab_hosts(cabling);
}

static int refuse_rate(const struct cabling *cabling, double ceiling, struct err *err)
{
    err_add_code(err, 69,
                 "%s: error: its %d cards send %s together; this machine carries %s between two "
                 "hosts and decides itself beyond %.0f %% of that: lower network.nic.bandwidth, "
                 "have fewer nodes, or wait until nothing else runs",
                 cabling->file, lab_hosts(cabling),
                 unit_text(UNIT_BYTES_PER_SECOND, total_rate(cabling)),
                 unit_text(UNIT_BYTES_PER_SECOND, ceiling), 100.0 * ceiling_share);
    return -1;
}

/* On a busy machine, the two hosts may never run at the same time during one trial. */
static int measure_ceiling(const struct cabling *cabling, double *ceiling, struct err *err)
{
    enum { TRIALS = 5 };
    for (int32_t i = 0; i < TRIALS; i++) {
        double found;
        if (lab_measure_ceiling(cabling, &found, err))
            return -1;
        if (*ceiling < found)
            *ceiling = found;
        if (total_rate(cabling) <= ceiling_share * *ceiling)
            return 0;
    }
    return refuse_rate(cabling, *ceiling, err);
}

static int build(const struct lab *lab, struct err *err)
{
    if (mount_private(err) || lab_make_hosts(lab->cabling, err) ||
        lab_make_network(lab->cabling, err) ||
        measure_ceiling(lab->cabling, &lab->shared->result.ceiling, err))
        return -1;
    return lab_shape(lab->cabling, err);
}

static _Noreturn void become(const struct lab *lab)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    lab_set_environment(lab->cabling);
    launch_take_streams(lab->command);
    execvp(lab->command->argument[0], lab->command->argument);
    fprintf(stderr, "error: cannot start %s: %s\n", lab->command->argument[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* Processes without a parent become children of this process, which waits for them. */
static int32_t run_command(const struct lab *lab)
{
    pid_t command = fork();
    if (command == 0)
        become(lab);
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            fprintf(stderr, "error: the command's exit code is lost: %s\n", strerror(errno));
        if (pid == command || pid < 0)
            return pid < 0 ? 70 : process_code(status);
    }
}

static void tell(struct shared *shared, const struct err *err)
{
    shared->fault = err->exit_code;
    snprintf(shared->message, sizeof(shared->message), "%s", err->text ? err->text : "");
}

/* When it ends, the kernel ends all processes of the lab, and with them its namespaces. */
static _Noreturn void be_first(const struct lab *lab)
{
    char word;
    struct err err = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(lab->gate[1]);
    if (read(lab->gate[0], &word, 1) != 1)
        _exit(1); /* the parent is gone, or could not map users */
    if (build(lab, &err)) {
        tell(lab->shared, &err);
        _exit(0);
    }
    lab->shared->result.exit_code = run_command(lab);
    if (lab_count(lab->cabling, &lab->shared->result, &err))
        tell(lab->shared, &err);
    _exit(0);
}

/* --- the parent --- */

static int write_proc(pid_t pid, const char *name, const char *text)
{
    AUTOFREE char *path = base_format("/proc/%d/%s", pid, name);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    int failed = file < 0 || write(file, text, strlen(text)) < 0;
    if (file >= 0)
        close(file);
    return failed ? -1 : 0;
}

/* In its namespace the child is root, and every other user is "nobody". */
static int map_users(pid_t pid, struct err *err)
{
    AUTOFREE char *users = base_format("0 %u 1", geteuid()),
                  *groups = base_format("0 %u 1", getegid());
    int failed = write_proc(pid, "setgroups", "deny") || write_proc(pid, "uid_map", users) ||
                 write_proc(pid, "gid_map", groups);
    if (!failed)
        return 0;
    return err_add_code(err, 69, "this machine does not allow user namespaces: %s",
                        strerror(errno));
}

static int refuse_namespaces(struct err *err)
{
    return err_add_code(err, 69,
                        "this machine does not allow namespaces: %s; as root: sysctl -w "
                        "user.max_user_namespaces=15000 (and on some systems "
                        "kernel.unprivileged_userns_clone=1 or "
                        "kernel.apparmor_restrict_unprivileged_userns=0)",
                        strerror(errno));
}

/* Root needs no user namespace, and some machines do not have them.  @return the child, or -1. */
static pid_t start(struct lab *lab, struct err *err)
{
    const long kinds =
        CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | SIGCHLD;
    fflush(NULL);
    long pid = geteuid() ? -1 : syscall(SYS_clone, kinds, 0, 0, 0, 0);
    int users = pid < 0;
    if (users)
        pid = syscall(SYS_clone, kinds | CLONE_NEWUSER, 0, 0, 0, 0);
    if (pid == 0)
        be_first(lab);
    if (pid < 0)
        return refuse_namespaces(err);
    if (users && map_users((pid_t)pid, err)) {
        kill((pid_t)pid, SIGKILL);
        waitpid((pid_t)pid, NULL, 0);
        return -1;
    }
    if (write(lab->gate[1], "", 1) != 1)
        kill((pid_t)pid, SIGKILL);
    return (pid_t)pid;
}

/* Until the child ends; a signal that would end this process ends the child first.  @return its
 * exit code, 128 + N when signal N ended it, or -1: status lost. */
static int supervise(pid_t pid, const sigset_t *signals, const sigset_t *before)
{
    for (;;) {
        int status, signal = sigwaitinfo(signals, NULL);
        if (signal > 0 && signal != SIGCHLD)
            kill(pid, SIGKILL);
        pid_t ended = waitpid(pid, &status, signal == SIGCHLD ? WNOHANG : 0);
        if (ended == pid || (ended < 0 && errno != EINTR)) {
            if (signal > 0 && signal != SIGCHLD)
                raise(signal);
            sigprocmask(SIG_SETMASK, before, NULL);
            return ended < 0 ? -1 : process_code(status);
        }
    }
}

static int finish(const struct lab *lab, int code, struct lab_result *result, struct err *err)
{
    if (lab->shared->fault)
        return err_add_code(err, lab->shared->fault, "%.*s",
                            (int)strcspn(lab->shared->message, "\n"), lab->shared->message);
    if (code < 0)
        return err_add_code(err, 70, "the exit code of the lab's first process is lost");
    if (code)
        return err_add_code(err, 70, "the lab's first process ended with exit code %d", code);
    *result = lab->shared->result;
    return 0;
}

static int run_lab(struct lab *lab, struct lab_result *result, struct err *err)
{
    static const int caught[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t signals, before;
    sigemptyset(&signals);
    for (size_t i = 0; i < ARRAY_SIZE(caught); i++)
        sigaddset(&signals, caught[i]);
    sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t pid = start(lab, err);
    close(lab->gate[0]);
    int failed = pid < 0;
    if (!failed)
        failed = finish(lab, supervise(pid, &signals, &before), result, err);
    else
        sigprocmask(SIG_SETMASK, &before, NULL);
    close(lab->gate[1]);
    return failed ? -1 : 0;
}

static int check_programs(struct err *err)
{
    static const char *const need[][2] = {{"ip", "iproute2"}, {"tc", "iproute2"}};
    static const char *const folder[] = {"/usr/sbin", "/sbin", "/usr/bin", "/bin"};
    int failed = 0;
    for (size_t i = 0; i < ARRAY_SIZE(need); i++) {
        int found = 0;
        for (size_t k = 0; k < ARRAY_SIZE(folder); k++) {
            AUTOFREE char *path = base_format("%s/%s", folder[k], need[i][0]);
            found |= access(path, X_OK) == 0;
        }
        if (!found)
            failed = err_add_code(err, 69, "a lab needs the program %s (package %s)", need[i][0],
                                  need[i][1]);
    }
    return failed;
}

/* Also for the programs that build the lab. */
static void add_system_path(void)
{
    const char *path = getenv("PATH");
    AUTOFREE char *longer =
        base_format("%s:/usr/sbin:/sbin:/usr/bin:/bin", path ? path : "/usr/local/bin");
    setenv("PATH", longer, 1);
}

int lab_run(const struct cabling *cabling, const struct launch *command, struct lab_result *result,
            struct err *err)
{
    struct lab lab = {.cabling = cabling, .command = command};
    if (lab_check(cabling, err) || check_programs(err))
        return -1;
    lab.shared =
        mmap(NULL, sizeof(*lab.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lab.shared == MAP_FAILED || pipe2(lab.gate, O_CLOEXEC))
        return err_add_code(err, 69, "cannot start a lab: %s", strerror(errno));
    add_system_path();
    int failed = run_lab(&lab, result, err);
    munmap(lab.shared, sizeof(*lab.shared));
    return failed;
}
