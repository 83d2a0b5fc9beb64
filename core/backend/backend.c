#include "core/backend/backend.h"

#include <assert.h>

#include "core/backend/cost.h"

const char *const grain_names[] = {"auto", "folded", "full", "smoothed", "coarse", NULL};
static_assert(sizeof(grain_names) / sizeof(*grain_names) == GRAIN_COUNT + 1, "a name each");

double run_local_seconds(const struct run *run, const struct step *step)
{
    assert(step->kind != STEP_COLLECTIVE);
    return step->kind == STEP_COMPUTE ? (1 + run->contention) * cost_compute(run->device, step)
                                      : cost_input(step, run->input_workers, run->input_rate);
}

struct nccl_choice run_nccl(const struct run *run, const struct step *step)
{
    assert(step->kind == STEP_COLLECTIVE && step->collective.algorithm == ALGORITHM_NCCL);
    assert(run->fabric->nccl.version && run->fabric->nccl.ranks == run->fabric->ranks);
    struct nccl_world world = run->fabric->nccl;
    if (step->collective.axis == AXIS_COLUMN)
        world = nccl_column(&world);
    return nccl_choose(&world, step->collective.op, step->collective.bytes);
}

int backend_check(const struct schedule *schedule, struct err *err)
{
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind == STEP_COLLECTIVE && step->collective.algorithm == ALGORITHM_MPI)
            return err_add_code(
                err, 69,
                "algorithm mpi cannot be predicted: only the MPI library knows its messages, which "
                "depend on its version; the nearest algorithm is ring, which Open MPI uses for "
                "large messages: allreduce.algorithm=ring (or --algorithm=ring)");
    }
    return 0;
}
