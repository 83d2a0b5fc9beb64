#include "core/backend/backend.h"

#include "core/backend/cost.h"

const char *const backend_words[] = {"analytic", "sim", NULL};
static_assert(ARRAY_SIZE(backend_words) == BACKEND_CHOICE_COUNT + 1, "a word per back end");

const char *const grain_names[] = {"auto", "folded", "full", "smoothed", "coarse", NULL};
static_assert(ARRAY_SIZE(grain_names) == GRAIN_COUNT + 1, "a name each");

bool memory_find(const struct memory *memory, uint64_t what, double *value)
{
    size_t place = what % ARRAY_SIZE(memory->item);
    if (!memory || memory->item[place].what != what)
        return false;
    *value = memory->item[place].value;
    return true;
}

void memory_keep(struct memory *memory, uint64_t what, double value)
{
    size_t place = what % ARRAY_SIZE(memory->item);
    if (!memory)
        return;
    memory->item[place].what = what;
    memory->item[place].value = value;
}

double run_local_seconds(const struct run *run, const struct step *step)
{
    assert(step->kind != STEP_COLLECTIVE);
    if (step->kind == STEP_REPEAT)
        return 0;
    return step->kind == STEP_COMPUTE ? (1 + run->contention) * cost_compute(run->device, step)
                                      : cost_input(step, run->input_workers, run->input_rate);
}

struct collective backend_collective(const struct fabric *fabric, const struct schedule *schedule,
                                     int32_t step)
{
    struct collective c = schedule_collective(schedule, step);
    enum axis axis = schedule->step[step].collective.axis;
    int32_t all = fabric->row_rings + fabric->column_rings;
    if (c.algorithm != ALGORITHM_RING || axis == AXIS_PIPELINE ||
        (!fabric->mesh && (!all || axis > AXIS_COLUMN)))
        return c;
    int32_t own = axis == AXIS_ROW ? fabric->row_rings : fabric->column_rings;
    int32_t rings = fabric->mesh ? fabric_rings(fabric, schedule->grid, axis)
                    : schedule_sharded(schedule) == AXIS_COUNT ? all
                                                               : own;
    if (rings > 1 && c.op == COLLECTIVE_ALL_TO_ALL)
        rings = c.ranks - 1;
    c.elements = (c.elements + rings - 1) / (rings > 1 ? rings : 1);
    return c;
}

struct nccl_choice run_nccl(const struct run *run, const struct step *step)
{
    assert(step->kind == STEP_COLLECTIVE && step->collective.algorithm == ALGORITHM_NCCL);
    assert(run->fabric->nccl.version && run->fabric->nccl.ranks == run->fabric->ranks);
    struct nccl_world world = run->fabric->nccl;
    struct grid_nodes part =
        grid_axis_nodes(run->grid, step->collective.axis, world.ranks / world.nodes);
    if (run->grid.columns && part.each * part.nodes < world.ranks)
        world = nccl_part(&world, part);
    return nccl_choose(&world, step->collective.op, step->collective.bytes);
}

/* --iterations and --traced-ranks ask for them. */
static int check_spans(const struct run *run, const struct schedule *schedule, struct err *err)
{
    int32_t ranks = grid_ranks(schedule->grid);
    int32_t traced = run->traced_ranks && run->traced_ranks < ranks ? run->traced_ranks : ranks;
    double each = (double)traced * schedule->step_count, spans = each * run->iterations;
    if (spans <= RUN_SPANS_MOST)
        return 0;
    return err_usage(err,
                     "%d iterations of %d steps on %d traced ranks are %.3g records, %.3g GB; at "
                     "most %d are kept: --iterations=%.0f, or fewer --traced-ranks",
                     run->iterations, schedule->step_count, traced, spans,
                     spans * sizeof(struct span) / 1e9, RUN_SPANS_MOST,
                     fmax(1, floor(RUN_SPANS_MOST / each)));
}

int backend_check(const struct run *run, const struct schedule *schedule, struct err *err)
{
    if (check_spans(run, schedule, err))
        return -1;
    if (schedule->mpi)
        return err_add_code(
            err, 69,
            "algorithm mpi cannot be predicted: only the MPI library knows its messages, which "
            "depend on its version; the nearest algorithm is ring, which Open MPI uses for "
            "large messages: allreduce.algorithm=ring (or --algorithm=ring)");
    return 0;
}
