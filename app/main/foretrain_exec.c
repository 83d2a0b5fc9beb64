/** @file
 * foretrain-exec: trains for real, one process per rank.  mpirun or srun starts it, or without MPI
 * "foretrain-exec start", torchrun, or a user who sets the variables of exec/socket_place.h;
 * without them it is a job of one rank.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/cli/command.h"
#include "app/start.h"
#include "app/train/exec_command.h"
#include "config.h"
#include "exec/world/world.h"

#ifdef HAVE_MPI
static const bool has_mpi = true;
#else
static const bool has_mpi = false;
#endif

/* Its work is done in main(), before there are ranks. */
static int explain_start(const struct request *request, struct text *out, struct err *err)
{
    (void)request;
    (void)out;
    return err_add_code(err, 64, "usage: foretrain-exec start N COMMAND ...");
}

static const struct option *const start_options[] = {&option_help_row, NULL};

static const struct command exec_start = {
    .name = "start",
    .synopsis = "N COMMAND ...",
    .help = "run a command on N ranks of this machine, without mpirun",
    .examples = "foretrain-exec start 4 train job.yaml --device cuda --out run1",
    .options = start_options,
    .minimum = 0,
    .maximum = 1000,
    .run = explain_start,
};

/* Where there is MPI, mpirun starts ranks: the last one is left out. */
static const struct command *const exec_commands[] = {
    &exec_train,   &exec_evaluate,  &exec_collective,
    &exec_measure, &exec_workspace, has_mpi ? NULL : &exec_start,
    NULL};

/* OpenMP's threads spin while they wait, which is poison where ranks share cores.  The library
 * reads the variable when it is loaded, so the program starts itself once more. */
static void wait_politely(char **argv)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    local = local ? local : getenv("FORETRAIN_LOCAL_RANKS");
    local = local ? local : getenv("LOCAL_WORLD_SIZE");
    if (!local || atoi(local) < 2 || getenv("OMP_WAIT_POLICY"))
        return;
    setenv("OMP_WAIT_POLICY", "passive", 1);
    execv("/proc/self/exe", argv);
}

/* "start N COMMAND ...": @return N, or 0 where the words are not these. */
static int32_t ranks_to_start(int argc, char **argv)
{
    char *end;
    if (has_mpi || argc < 4 || strcmp(argv[1], exec_start.name) != 0)
        return 0;
    long ranks = strtol(argv[2], &end, 10);
    return *end == '\0' && ranks > 0 && ranks <= 4096 ? (int32_t)ranks : 0;
}

int main(int argc, char **argv)
{
    int32_t ranks = ranks_to_start(argc, argv);
    if (ranks > 0) {
        argv[2] = argv[0];
        return start_ranks(ranks, argv + 2);
    }
    wait_politely(argv);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error to report */
    struct exec_world world = world_start(&argc, &argv);
    struct text out = {0};
    struct err err = {0};
    command_answer("foretrain-exec", exec_commands, argc - 1, argv + 1, &out, &err);

    /* Ranks mostly find the same faults: the first that has one speaks. */
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
