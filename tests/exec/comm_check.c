/** @file
 * Every collective on whole numbers over MPI, compared with the naive sum by ==.
 *
 * Run it on any number of ranks.  Rows and columns work at the same time, as in training.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base.h"
#include "exec/cpu/comm_mpi.h"
#include "exec/cpu/stream.h"
#include "exec/exec.h"

enum { UNKNOWN = -77 }; /* what a rank does not contribute */

/* A collective along one axis of this rank. */
struct trial {
    struct collective collective;
    struct grid grid;
    enum axis axis;
    int32_t rank;
    float *data;
};

static float contribution(int32_t rank, int64_t element)
{
    return (float)((rank + 1) * 31 % 17 + (element * 7 + rank) % 23 - 11);
}

/* The place whose block holds @element: its neighbours' blocks are as long or one shorter. */
static int32_t block_owner(const struct collective *c, int64_t element)
{
    int64_t even = c->elements / c->ranks, longer = c->elements % c->ranks;
    int64_t boundary = longer * (even + 1);
    return (int32_t)(element < boundary ? element / (even + 1)
                                        : longer + (element - boundary) / even);
}

static float expected(const struct trial *trial, int64_t element)
{
    const struct collective *c = &trial->collective;
    int32_t owner = block_owner(c, element);
    if (c->op == COLLECTIVE_ALL_GATHER)
        return contribution(grid_axis_rank(trial->grid, trial->axis, trial->rank, owner), element);
    float sum = 0;
    for (int32_t i = 0; i < c->ranks; i++)
        sum += contribution(grid_axis_rank(trial->grid, trial->axis, trial->rank, i), element);
    return sum;
}

static void fill(struct trial *trial)
{
    const struct collective *c = &trial->collective;
    int32_t place = grid_axis_index(trial->grid, trial->axis, trial->rank);
    trial->data = base_alloc(c->elements, sizeof(float));
    for (int64_t i = 0; i < c->elements; i++) {
        bool mine = c->op != COLLECTIVE_ALL_GATHER || block_owner(c, i) == place;
        trial->data[i] = mine ? contribution(trial->rank, i) : UNKNOWN;
    }
}

static int64_t count_wrong(const struct trial *trial)
{
    const struct collective *c = &trial->collective;
    int32_t place = grid_axis_index(trial->grid, trial->axis, trial->rank);
    int64_t wrong = 0;
    for (int64_t i = 0; i < c->elements; i++)
        if (c->op != COLLECTIVE_REDUCE_SCATTER || block_owner(c, i) == place)
            wrong += trial->data[i] != expected(trial, i);
    if (wrong)
        printf("rank %d: %s %s of %" PRId64 " elements along the %s of %d x %d: %" PRId64
               " wrong\n",
               trial->rank, algorithm_names[c->algorithm], collective_op_name(c->op), c->elements,
               axis_name(trial->axis), trial->grid.columns, trial->grid.rows, wrong);
    return wrong;
}

/* The same collective along all axes at once, each on a stream of its own. */
static int64_t check_axes(struct comm_state *comm, struct collective collective, struct grid grid,
                          int32_t rank)
{
    struct trial trial[AXIS_COUNT];
    struct stream *stream[AXIS_COUNT];
    int64_t wrong = 0;
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        collective.ranks = grid_axis_size(grid, axis);
        collective.grid = grid_nearest_square(collective.ranks);
        collective.group = collective.ranks % 2 ? collective.ranks : 2;
        trial[axis] = (struct trial){collective, grid, axis, rank, NULL};
        fill(&trial[axis]);
        stream[axis] = cpu_stream_new();
        comm_mpi_ops.issue(comm, stream[axis], axis, &collective, trial[axis].data);
    }
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++)
        cpu_stream_free(stream[axis]);
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        wrong += count_wrong(&trial[axis]);
        free(trial[axis].data);
    }
    return wrong;
}

static int64_t check_grid(struct grid grid, int32_t rank)
{
    static const int64_t sizes[] = {0, 1, 5, 12, 1001};
    struct comm_state *comm = comm_mpi_ops.open(grid);
    int64_t wrong = 0;
    for (enum algorithm algorithm = 0; algorithm < ALGORITHM_NCCL; algorithm++)
        for (enum collective_op op = 0; op < COLLECTIVE_OP_COUNT; op++)
            for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
                struct collective collective = {
                    .op = op, .algorithm = algorithm, .elements = sizes[i]};
                if (algorithm_supports(algorithm, op))
                    wrong += check_axes(comm, collective, grid, rank);
            }
    comm_mpi_ops.close(comm);
    return wrong;
}

int main(int argc, char **argv)
{
    struct exec_world world = exec_start(&argc, &argv);
    int64_t wrong = 0;
    for (int32_t columns = 1; columns <= world.ranks; columns++)
        if (world.ranks % columns == 0)
            wrong += check_grid((struct grid){columns, world.ranks / columns}, world.rank);
    int32_t failed = exec_first_failure(wrong > 0);
    exec_stop();
    return failed >= 0;
}
