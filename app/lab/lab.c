#include "app/lab/lab.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "app/lab/lab_net.h"
#include "app/lab/lab_on.h"
#include "app/process/process.h"
#include "core/base/base.h"
#include "core/base/unit.h"

/* Maximum latency that software adds to a message without any delay of links; in a lab it is
 * already present. */
static const double between_limit = 200e-6; /* [s] */

/* Cables inside a node are not shaped, so they must never be the bottleneck. */
static const double inside_factor = 10.0;

static const double efficiency_tolerance = 1e-3;

int32_t lab_hosts(const struct cabling *cabling)
{
    return cabling->nodes * cabling->nics;
}

void lab_host_name(const struct cabling *cabling, int32_t host, char *name)
{
    int32_t node = host / cabling->nics, nic = host % cabling->nics;
    if (cabling->nics == 1)
        snprintf(name, LAB_NAME_LIMIT, "h%d", node);
    else
        snprintf(name, LAB_NAME_LIMIT, "h%dn%d", node, nic);
}

int32_t lab_slots(const struct cabling *cabling, int32_t nic)
{
    int32_t slots = 0;
    for (int32_t i = 0; i < cabling->devices; i++)
        slots += cabling->nic_of[i] == nic;
    return slots;
}

static int refuse_latency(const struct cabling *cabling, const char *path, double latency,
                          double limit, struct err *err)
{
    if (latency <= limit)
        return 0;
    err_add_code(err, 69,
                 "%s: error: %s is %s: the lab shapes rates and cannot delay; %s, or leave this "
                 "platform to the simulator",
                 cabling->file, path, unit_text(UNIT_SECONDS, latency),
                 limit > 0 ? "at most 200 us are its own" : "write 0 us");
    return -1;
}

static int refuse_efficiency(const struct cabling *cabling, const char *path, double efficiency,
                             struct err *err)
{
    const double own = (double)LAB_PAYLOAD / LAB_FRAME;
    if (fabs(efficiency - own) <= efficiency_tolerance)
        return 0;
    return err_add_code(err, 69,
                        "%s: error: %s is %.4g %%: the lab's frames carry %.5g %% (%d of %d "
                        "bytes); write that and put the difference into the bandwidth",
                        cabling->file, path, 100.0 * efficiency, 100.0 * own, LAB_PAYLOAD,
                        LAB_FRAME);
}

static int check_cable(const struct cabling *cabling, const char *prefix,
                       const struct lab_cable *cable, struct err *err)
{
    AUTOFREE char *latency = base_format("%s.latency", prefix);
    AUTOFREE char *efficiency = base_format("%s.efficiency", prefix);
    int failed = refuse_latency(cabling, latency, cable->latency, 0.0, err);
    failed |= refuse_efficiency(cabling, efficiency, cable->efficiency, err);
    return failed;
}

static int check_inside(const struct cabling *cabling, struct err *err)
{
    double card = cabling->nic.bandwidth * cabling->nic.efficiency;
    int failed =
        refuse_latency(cabling, "the latency in node.links", cabling->inside_latency, 0.0, err);
    if (cabling->inside < inside_factor * card)
        failed = err_add_code(err, 69,
                              "%s: error: node.links has a cable of less than %g times a card: the "
                              "lab does not shape the inside of nodes, so it must be too fast to "
                              "decide",
                              cabling->file, inside_factor);
    return failed;
}

/* MPI fills a host before the next, so the devices of a card must be neighbours. */
static int check_cards(const struct cabling *cabling, struct err *err)
{
    for (int32_t i = 1; i < cabling->devices; i++)
        if (cabling->nic_of[i] < cabling->nic_of[i - 1])
            return err_add_code(err, 69,
                                "%s: error: gpu%d uses nic%d and gpu%d nic%d: in a lab the devices "
                                "of a card stand side by side, in the order of cards; renumber "
                                "them in node.edges",
                                cabling->file, i - 1, cabling->nic_of[i - 1], i,
                                cabling->nic_of[i]);
    for (int32_t nic = 0; nic < cabling->nics; nic++)
        if (!lab_slots(cabling, nic))
            return err_add_code(err, 69, "%s: error: no device uses nic%d: leave it out",
                                cabling->file, nic);
    return 0;
}

int lab_check(const struct cabling *cabling, struct err *err)
{
    int64_t hosts = (int64_t)cabling->nodes * cabling->nics;
    int failed = 0;
    if (hosts > LAB_HOST_LIMIT)
        failed = err_add_code(err, 69,
                              "%s: error: %lld network cards; a lab has at most %d hosts: describe "
                              "a miniature, such as platforms/lab/abci-mini.yaml",
                              cabling->file, (long long)hosts, LAB_HOST_LIMIT);
    failed |= check_cable(cabling, "network.nic", &cabling->nic, err);
    for (int32_t i = 0; i < cabling->tier_count; i++) {
        AUTOFREE char *prefix = base_format("network.tiers.%d", i);
        failed |= check_cable(cabling, prefix, &cabling->tier[i].cable, err);
    }
    failed |= refuse_latency(cabling, "transport.between", cabling->between, between_limit, err);
    failed |= check_inside(cabling, err);
    failed |= check_cards(cabling, err);
    return failed ? -1 : 0;
}

enum {
    PORT = 7777,
    PIECE = 65536,      /* of one write [bytes] */
    RECEIVER = 1,       /* the second host; the first one sends */
    PATIENCE_MS = 5000, /* for a receiver to appear */
};

static const double duration = 0.2;    /* [s] */
static const double window = 0.002;    /* [s] */
static const double unlimited = 125e9; /* [bytes/s], far beyond any machine of today */

/* Data shared by the two processes and the waiting one.  The result is the best of several short
 * windows, because other processes can only reduce the rate. */
struct trial {
    atomic_int listening;
    double best; /* [bytes/s] of the best window */
};

static struct sockaddr_in receiver_address(void)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(PORT),
        .sin_addr.s_addr = htonl((10u << 24) | (77u << 16) | (RECEIVER + 1)),
    };
}

static int receive(void *argument)
{
    static char piece[PIECE];
    struct trial *trial = argument;
    struct sockaddr_in address = receiver_address();
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(door, (struct sockaddr *)&address, sizeof(address)) || listen(door, 1))
        return 1;
    atomic_store(&trial->listening, 1);
    int wire = accept(door, NULL, NULL);
    double begin = base_seconds(CLOCK_MONOTONIC), bytes = 0.0;
    for (ssize_t got; wire >= 0 && (got = read(wire, piece, sizeof(piece))) > 0;) {
        double passed = base_seconds(CLOCK_MONOTONIC) - begin;
        bytes += (double)got;
        if (passed < window)
            continue;
        trial->best = fmax(trial->best, bytes / passed);
        begin += passed;
        bytes = 0.0;
    }
    return wire < 0;
}

static int send_pieces(void *argument)
{
    static const char piece[PIECE];
    struct trial *trial = argument;
    struct sockaddr_in address = receiver_address();
    int wire = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < PATIENCE_MS && !atomic_load(&trial->listening); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (connect(wire, (struct sockaddr *)&address, sizeof(address)))
        return 1;
    for (double end = base_seconds(CLOCK_MONOTONIC) + duration;
         base_seconds(CLOCK_MONOTONIC) < end;)
        if (write(wire, piece, sizeof(piece)) < 0)
            return 1;
    close(wire);
    return 0;
}

static int run_trial(const struct cabling *cabling, struct trial *trial, struct err *err)
{
    int32_t to = lab_start_in_host(cabling, RECEIVER, receive, trial, err);
    if (to < 0)
        return -1;
    int from = lab_in_host(cabling, 0, send_pieces, trial, err);
    if (from != 0)
        return err_add_code(err, 70, "the lab's hosts cannot reach each other: %s",
                            "the first one cannot send to the second");
    if (process_wait(to) != 0 || trial->best <= 0.0)
        return err_add_code(err, 70, "the lab's second host cannot receive from the first");
    return 0;
}

/* Send for a moment from the first host to the second and set @ceiling [bytes/s], with the same
 * packets as later, over one card of each without limits. */
static int lab_measure_ceiling(const struct cabling *cabling, double *ceiling, struct err *err)
{
    struct trial *trial =
        mmap(NULL, sizeof(*trial), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trial == MAP_FAILED)
        return err_add_code(err, 70, "the lab has no memory: %s", strerror(errno));
    int failed = lab_set_rate(cabling, 0, unlimited, err) ||
                 lab_set_rate(cabling, RECEIVER, unlimited, err) || run_trial(cabling, trial, err);
    if (!failed)
        *ceiling = trial->best;
    munmap(trial, sizeof(*trial));
    return failed ? -1 : 0;
}

/* Of Open MPI 4 and 5, as the environment of mpirun: hosts are entered, not logged in to; its own
 * messages take the second network; data use one TCP connection per pair of ranks, over the shaped
 * network, each message at once (a rendezvous would wait behind data in the queues); waiting ranks
 * yield.  What starts the ranks of version 5 is PRRTE, which has its own names. */
static const char *const parameters[][2] = {
    {"OMPI_MCA_plm", "rsh"},
    {"OMPI_MCA_plm_rsh_agent", LAB_PROGRAMS "/" LAB_AGENT},
    {"OMPI_MCA_plm_rsh_no_tree_spawn", "1"},
    {"OMPI_MCA_plm_rsh_num_concurrent", "128"},
    {"OMPI_MCA_oob", "tcp"},
    {"OMPI_MCA_oob_tcp_if_include", "10.78.0.0/16"},
    {"OMPI_MCA_routed", "direct"},
    {"OMPI_MCA_orte_default_hostfile", "/run/lab/hostfile"},
    {"OMPI_MCA_orte_tmpdir_base", "/run/lab/tmp"},
    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
    {"OMPI_MCA_rmaps_base_mapping_policy", "slot"},
    {"OMPI_MCA_pml", "ob1"},
    {"OMPI_MCA_btl", "tcp,self"},
    {"OMPI_MCA_btl_tcp_if_include", "10.77.0.0/16"},
    {"OMPI_MCA_btl_tcp_links", "1"},
    {"OMPI_MCA_btl_tcp_eager_limit", "4194304"},
    {"OMPI_MCA_mpi_yield_when_idle", "1"},
    {"PRTE_MCA_plm_ssh_agent", LAB_PROGRAMS "/" LAB_AGENT},
    {"PRTE_MCA_plm_ssh_no_tree_spawn", "1"},
    {"PRTE_MCA_prte_if_include", "10.78.0.0/16"},
    {"PRTE_MCA_prte_default_hostfile", "/run/lab/hostfile"},
    {"PRTE_MCA_prte_tmpdir_base", "/run/lab/tmp"},
    {"PRTE_MCA_hwloc_default_binding_policy", "none"},
    {"PRTE_MCA_rmaps_default_mapping_policy", "slot"},
};

/* Set the environment for a command: path, folder for temporary files, Open MPI's parameters. */
static void lab_set_environment(const struct cabling *cabling)
{
    for (size_t i = 0; i < ARRAY_SIZE(parameters); i++)
        setenv(parameters[i][0], parameters[i][1], 1);
    AUTOFREE char *path = base_format("%s:%s", LAB_PROGRAMS, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("TMPDIR", "/run/lab/tmp", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("FORETRAIN_LAB", cabling->name, 1);
}

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
        double found = 0;
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
