#include "app/process/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/process/child.h"
#include "app/process/cores.h"
#include "config.h"
#include "core/base/base.h"

#ifdef HAVE_MPI
static const bool has_mpi = true;
#else
static const bool has_mpi = false;
#endif

static volatile sig_atomic_t running; /* process id, for the handler */

void launch_add(struct launch *launch, const char *format, ...)
{
    va_list list;
    char *word = NULL;
    va_start(list, format);
    if (vasprintf(&word, format, list) < 0)
        word = base_copy("");
    va_end(list);
    launch->argument = base_grow(launch->argument, launch->count + 2, &launch->capacity,
                                 sizeof(*launch->argument));
    launch->argument[launch->count++] = word;
    launch->argument[launch->count] = NULL;
}

/* Whether $PATH has @name. */
static bool is_installed(const char *name)
{
    char *path = base_copy(getenv("PATH"));
    bool found = false;
    for (char *save, *part = path ? strtok_r(path, ":", &save) : NULL; part && !found;
         part = strtok_r(NULL, ":", &save)) {
        char *full = base_format("%s/%s", part, name);
        found = access(full, X_OK) == 0;
        free(full);
    }
    free(path);
    return found;
}

static int add_mpirun(struct launch *launch, int32_t ranks, struct err *err)
{
    if (!is_installed("mpirun"))
        return err_add_code(err, 69, "mpirun was not found: install openmpi-bin");
    launch_add(launch, "mpirun");
    launch_add(launch, "-q");
    launch_add(launch, "-n");
    launch_add(launch, "%d", ranks);
    launch_add(launch, "--bind-to");
    launch_add(launch, "none");
    if (ranks > cores_available())
        launch_add(launch, "--oversubscribe");
    if (geteuid() == 0)
        launch_add(launch, "--allow-run-as-root");
    return 0;
}

int launch_begin(struct launch *launch, int32_t ranks, struct err *err)
{
    char *program = child_program("foretrain-exec");
    if (!program)
        return err_add_code(err, 69, "foretrain-exec was not found; 'foretrain env' says why");
    if (ranks > 1 && has_mpi && add_mpirun(launch, ranks, err)) {
        free(program);
        return -1;
    }
    launch_add(launch, "%s", program);
    if (ranks > 1 && !has_mpi) {
        launch_add(launch, "start");
        launch_add(launch, "%d", ranks);
    }
    free(program);
    return 0;
}

char *launch_line(const struct launch *launch)
{
    struct text line = {0};
    for (int32_t i = 0; i < launch->count; i++) {
        const char *word = launch->argument[i];
        bool plain = *word && !strpbrk(word, " \t\n'\"$&|;<>*?(){}[]#!\\~`");
        text_add(&line, plain ? "%s%s" : "%s'%s'", i ? " " : "", word);
    }
    return line.data;
}

static void pass_on(int number)
{
    (void)number;
    if (running > 0)
        kill((pid_t)running, SIGUSR1);
}

static int wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    running = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int launch_run(const struct launch *launch, struct err *err)
{
    struct sigaction action = {.sa_handler = pass_on}, ignore = {.sa_handler = SIG_IGN};
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(71);
        if (launch->output)
            dup2(launch->output, STDOUT_FILENO);
        execvp(launch->argument[0], launch->argument);
        fprintf(stderr, "cannot start %s: %s\n", launch->argument[0], strerror(errno));
        _exit(71);
    }
    if (pid < 0)
        return err_add_code(err, 71, "cannot start a process: %s", strerror(errno));
    running = pid;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGINT, &ignore, NULL);
    return wait_for(pid);
}

void launch_release(struct launch *launch)
{
    for (int32_t i = 0; i < launch->count; i++)
        free(launch->argument[i]);
    free(launch->argument);
    *launch = (struct launch){0};
}
