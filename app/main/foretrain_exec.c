/** @file
 * foretrain-exec: trains for real, one process per rank, which mpirun or srun starts; started by
 * itself it is a job of one rank.
 */

#include <signal.h>

#include "app/cli/command.h"
#include "app/process/process.h"
#include "app/process/processors.h"
#include "exec/world/world.h"

static const struct command *const exec_commands[] = {
    &exec_train, &exec_evaluate, &exec_collective, &exec_measure, &exec_workspace, NULL};
static const struct command exec = {.sub = exec_commands};

/* OpenMP's threads spin while they wait, which is very slow where ranks share cores.  The library
 * reads the variable when it is loaded, so the program executes itself again. */
static void wait_politely(char **argv)
{
    if (processors_ranks() < 2 || getenv("OMP_WAIT_POLICY"))
        return;
    setenv("OMP_WAIT_POLICY", "passive", 1);
    execv("/proc/self/exe", argv);
}

static void give_up(int number)
{
    static const char text[] = "foretrain-exec: not all ranks have started: one was stopped, or a "
                               "host does not answer; a larger --timeout waits longer\n";
    _exit(write(STDERR_FILENO, text, sizeof(text) - 1) < 0 ? 74 : 71);
}

/* The heartbeat needs ranks that have met.  Until then they have five times its timeout, and at
 * least a minute: MPI starts thousands of ranks in less. */
static struct exec_world meet(int *argc, char ***argv)
{
    int32_t timeout = REQUEST_TIMEOUT;
    for (int i = 1; i < *argc; i++) {
        const char *word = (*argv)[i], *value = word + strlen("--timeout");
        if (strncmp(word, "--timeout", strlen("--timeout")) != 0 || (*value && *value != '='))
            continue;
        value = *value ? value + 1 : i + 1 < *argc ? (*argv)[i + 1] : "";
        timeout = atoi(value);
    }
    signal(SIGALRM, give_up);
    if (timeout > 0)
        alarm(timeout < 12 ? 60 : (unsigned)timeout * 5);
    struct exec_world world = world_start(argc, argv);
    alarm(0);
    return world;
}

int main(int argc, char **argv)
{
    process_start();
    wait_politely(argv);
    struct exec_world world = meet(&argc, &argv);
    struct text out = {0};
    struct err err = {0};
    command_answer("foretrain-exec", &exec, argc - 1, argv + 1, &out, &err);

    /* Ranks mostly find the same faults: only the first rank with one reports it. */
    int64_t first[] = {err.count ? -world.rank : -world.ranks, err.exit_code};
    world_max(first, 2);
    int32_t speaker = -first[0] < world.ranks ? (int32_t)-first[0] : 0;
    int code = (int)first[1];
    if (world.rank == speaker) {
        int finished = command_finish(&out, &err);
        code = code ? code : finished;
    } else {
        text_release(&out);
        err_release(&err);
    }
    world_stop();
    return code;
}
