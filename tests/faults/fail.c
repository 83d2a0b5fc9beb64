/* Loaded before libc.  In the program FAIL_PROGRAM, the FAIL_CALL-th call of class FAIL_CLASS fails
 * with FAIL_ERROR (a number of errno; KILL: the process dies there; SHORT: a write takes half), and
 * with FAIL_ON=1 all later ones do, too.  With FAIL_CALL=0 none fails.  A line at the end counts
 * them. FAIL_RANK: of the ranks of a job only this one.  FAIL_BELOW: only files below this
 * directory.
 *
 * Requests for memory, processes and threads are calls of libc.  All others are system calls, also
 * those that libc makes for itself, as stdio does: a seccomp filter traps those that come from
 * libc's text, and the handler makes them from here.  Children inherit the filter, but their libc
 * lies elsewhere (address space layout randomization). */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

enum { CALLS = 16, KILL = -1, SHORT = -2 };

struct class
{
    const char *name;
    int error;       /* unless said */
    int call[CALLS]; /* ends with 0, which is read(2) */
};

static const struct class classes[] = {
    {"malloc", ENOMEM, {0}},
    {"fork", EAGAIN, {0}},
    {"thread", EAGAIN, {0}},
    {"write", ENOSPC, {SYS_write, SYS_pwrite64, SYS_writev}},
    {"fsync", EIO, {SYS_fsync, SYS_fdatasync}},
    {"rename", EROFS, {SYS_rename, SYS_renameat, SYS_renameat2, SYS_linkat}},
    {"close", EIO, {SYS_close}},
    {"create", EROFS, {SYS_open, SYS_openat, SYS_mkdir}},
    {"pipe", EMFILE, {SYS_pipe, SYS_pipe2, SYS_memfd_create}},
    {"mmap", ENOMEM, {SYS_mmap}},
    {"disk",
     EIO,
     {SYS_write, SYS_pwrite64, SYS_writev, SYS_fsync, SYS_fdatasync, SYS_rename, SYS_renameat2,
      SYS_linkat, SYS_open, SYS_openat, SYS_mkdir, SYS_unlink, SYS_unlinkat, SYS_rmdir}},
};

static const struct class *class; /* NULL: another program */
static const char *below;
static long fatal, count;
static int error;
static bool on;

static long raw(long number, const greg_t *reg)
{
    long result;
    register long r10 __asm__("r10") = reg[REG_R10], r8 __asm__("r8") = reg[REG_R8],
                      r9 __asm__("r9") = reg[REG_R9];
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(reg[REG_RDI]), "S"(reg[REG_RSI]), "d"(reg[REG_RDX]),
                       "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static bool fails(void)
{
    long number = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    return fatal > 0 && (number == fatal || (on && number > fatal));
}

static bool makes(greg_t flags)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

static bool is_below(int fd)
{
    char link[64], path[PATH_MAX] = "";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    return length > 0 && strncmp(path, below, strlen(below)) == 0;
}

/* Whether it is one of those that are counted: of a file, or of the answer. */
static bool counts(long number, const greg_t *reg)
{
    const char *path = NULL;
    struct stat found;
    switch (number) {
    case SYS_write:
    case SYS_pwrite64:
    case SYS_writev:
    case SYS_close:
        if (reg[REG_RDI] == STDOUT_FILENO && number != SYS_close)
            return !below;
        return fstat((int)reg[REG_RDI], &found) == 0 && S_ISREG(found.st_mode) &&
               (!below || is_below((int)reg[REG_RDI]));
    case SYS_fsync:
    case SYS_fdatasync:
        return !below || is_below((int)reg[REG_RDI]);
    case SYS_open:
        if (!makes(reg[REG_RSI]))
            return false;
        path = (const char *)reg[REG_RDI];
        break;
    case SYS_openat:
        if (!makes(reg[REG_RDX]))
            return false;
        path = (const char *)reg[REG_RSI];
        break;
    case SYS_linkat:
        path = (const char *)reg[REG_R10];
        break;
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_unlinkat:
        path = (const char *)reg[REG_RSI];
        break;
    case SYS_rename:
    case SYS_mkdir:
    case SYS_unlink:
    case SYS_rmdir:
        path = (const char *)reg[REG_RDI];
        break;
    default:
        break;
    }
    if (path && strcmp(path, "/dev/null") == 0)
        return false;
    return !below || (path && strncmp(path, below, strlen(below)) == 0);
}

static long refuse(long number, greg_t *reg)
{
    if (error == KILL)
        raw(SYS_kill, (const greg_t[NGREG]){[REG_RDI] = getpid(), [REG_RSI] = SIGKILL});
    if (error == SHORT && reg[REG_RDX] > 1)
        reg[REG_RDX] /= 2;
    if (error == SHORT || number == SYS_close) /* which closes all the same */
        raw(number, reg);
    return error == SHORT ? reg[REG_RDX] : -error;
}

static void trapped(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    int before = errno;
    greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;
    long number = info->si_syscall;
    bool refused = counts(number, reg) && fails();
    reg[REG_RAX] = refused ? refuse(number, reg) : raw(number, reg);
    errno = before;
}

static int find_libc(struct dl_phdr_info *info, size_t size, void *range)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (!strstr(info->dlpi_name, "/libc.so") || part->p_type != PT_LOAD ||
            !(part->p_flags & PF_X))
            continue;
        ((uint64_t *)range)[0] = info->dlpi_addr + part->p_vaddr;
        ((uint64_t *)range)[1] = info->dlpi_addr + part->p_vaddr + part->p_memsz;
    }
    return 0;
}

#define FIELD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define HIGH(member)                                                                               \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member) + sizeof(uint32_t))
#define IF(test, value, yes, no)                                                                   \
    BPF_JUMP(BPF_JMP | test | BPF_K, (uint32_t)(value), (uint8_t)(yes), (uint8_t)(no))

static void trap(void)
{
    uint64_t range[2] = {0};
    struct sock_filter code[8 + CALLS + 2];
    int length = 0, calls = 0;
    dl_iterate_phdr(find_libc, range);
    while (class->call[calls])
        calls++;
    code[length++] = (struct sock_filter)HIGH(instruction_pointer);
    code[length++] = (struct sock_filter)IF(BPF_JEQ, range[0] >> 32, 0, calls + 4);
    code[length++] = (struct sock_filter)FIELD(instruction_pointer);
    code[length++] = (struct sock_filter)IF(BPF_JGE, range[0], 0, calls + 2);
    code[length++] = (struct sock_filter)IF(BPF_JGE, range[1], calls + 1, 0);
    code[length++] = (struct sock_filter)FIELD(nr);
    for (int i = 0; i < calls; i++)
        code[length++] = (struct sock_filter)IF(BPF_JEQ, class->call[i], calls - i, 0);
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    struct sock_fprog program = {(unsigned short)length, code};
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSYS, &action, NULL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)) {
        perror("fail: seccomp");
        _exit(99);
    }
}

static bool is_meant(void)
{
    const char *program = getenv("FAIL_PROGRAM"), *rank = getenv("FAIL_RANK"),
               *own = getenv("OMPI_COMM_WORLD_RANK");
    return program && !strcmp(program, program_invocation_short_name) &&
           (!rank || !own || !strcmp(rank, own));
}

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("FAIL_CLASS"), *number = getenv("FAIL_CALL"),
               *kind = getenv("FAIL_ERROR");
    if (!name || !number || !is_meant())
        return;
    for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
        if (!strcmp(classes[i].name, name))
            class = &classes[i];
    fatal = atol(number);
    error = !kind                    ? class->error
            : !strcmp(kind, "KILL")  ? KILL
            : !strcmp(kind, "SHORT") ? SHORT
                                     : atoi(kind);
    on = getenv("FAIL_ON") != NULL;
    below = getenv("FAIL_BELOW");
    if (class->call[0])
        trap();
}

__attribute__((destructor)) static void end(void)
{
    if (class && fatal == 0)
        fprintf(stderr, "calls: %ld\n", count);
}

/* ---- what is a call of libc ---- */

static bool refused(const char *name)
{
    if (!class || strcmp(class->name, name) != 0 || !fails())
        return false;
    if (error == KILL)
        raise(SIGKILL);
    errno = error;
    return true;
}

void *malloc(size_t size)
{
    return refused("malloc") ? NULL : __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    return refused("malloc") ? NULL : __libc_calloc(number, size);
}

void *realloc(void *old, size_t size)
{
    return refused("malloc") ? NULL : __libc_realloc(old, size);
}

pid_t fork(void)
{
    pid_t (*real)(void);
    *(void **)&real = dlsym(RTLD_NEXT, "fork");
    return refused("fork") ? -1 : real();
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *with)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return refused("thread") ? error : real(thread, how, run, with);
}
