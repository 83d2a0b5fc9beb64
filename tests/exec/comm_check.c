/** @file
 * Every collective over MPI against the naive sum: whole numbers with ==, and any numbers for equal
 * bits on all ranks.
 *
 * Usage: comm_check FIRST LAST, on LAST ranks: checks grids of FIRST to LAST ranks.  Rows, columns
 * and the world work at the same time, as in training.
 */

#include "exec/cpu/mpi/comm_mpi.h"
#include "exec/cpu/mpi/comm_mpi_rounds.h"
#include "exec/cpu/stream.h"
#include "exec/world/world.h"

enum { UNKNOWN = -77 }; /* what a rank does not contribute */

/* A collective along one axis of this rank. */
struct trial {
    struct collective collective;
    struct grid grid;
    enum axis axis;
    enum dtype payload;
    int32_t rank;
    float *data;
};

/* Sums of 16 of them are at most 128, which even bf16 holds exactly. */
static float contribution(int32_t rank, int64_t element)
{
    return (float)((rank * 31 + element * 7 + element / 64) % 17 - 8);
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
        printf("rank %d: %s %s of %" PRId64 " elements in %s along the %s of %d x %d: %" PRId64
               " wrong\n",
               trial->rank, algorithm_names[c->algorithm], collective_op_names[c->op], c->elements,
               dtype_names[trial->payload], axis_names[trial->axis], trial->grid.columns,
               trial->grid.rows, wrong);
    return wrong;
}

static struct collective along(struct collective collective, struct grid grid, enum axis axis)
{
    collective.ranks = grid_axis_size(grid, axis);
    collective.grid = grid_nearest_square(collective.ranks);
    collective.group = collective.ranks % 2 ? collective.ranks : 2;
    return collective;
}

/* The same collective along all axes at once, each on a stream of its own. */
static int64_t check_axes(struct comm_state *comm, struct collective collective, struct grid grid,
                          enum dtype payload)
{
    struct trial trial[AXIS_TENSOR];
    struct stream *stream[AXIS_TENSOR];
    int64_t wrong = 0;
    for (enum axis axis = 0; axis < AXIS_TENSOR; axis++) {
        trial[axis] = (struct trial){
            along(collective, grid, axis), grid, axis, payload, world_self().rank, NULL};
        fill(&trial[axis]);
        stream[axis] = cpu_stream_ops.stream_new();
        comm_mpi_ops.issue(comm, stream[axis], axis, &trial[axis].collective, payload,
                           trial[axis].data);
    }
    for (enum axis axis = 0; axis < AXIS_TENSOR; axis++)
        cpu_stream_ops.stream_free(stream[axis]);
    for (enum axis axis = 0; axis < AXIS_TENSOR; axis++) {
        wrong += count_wrong(&trial[axis]);
        free(trial[axis].data);
    }
    return wrong;
}

/* On rank 0: how many ranks hold other bytes than it. */
static int64_t count_unequal(const void *data, int64_t bytes)
{
    void *all;
    int64_t unequal = 0, total = world_gather(data, bytes, &all);
    for (int64_t at = 0; at < total; at += bytes)
        unequal += memcmp((const char *)all + at, data, (size_t)bytes) != 0;
    free(all);
    return unequal;
}

/* Random numbers, whose sums depend on the order: all ranks must hold the same bits all the same,
 * and each sum must be as near as one rounding for each message on its way allows. */
static int64_t check_equality(struct comm_state *comm, int32_t ranks, enum algorithm algorithm,
                              enum dtype payload)
{
    static const double unit[] = {0x1p-24, 0x1p-11, 0x1p-8}; /* of rounding, by payload */
    enum { COUNT = 513 };
    float data[COUNT];
    bool inside = world_self().rank < ranks;
    int64_t wrong = 0, unequal;
    struct collective c = {.op = COLLECTIVE_ALL_REDUCE, .algorithm = algorithm, .elements = COUNT};
    struct stream *stream = cpu_stream_ops.stream_new();
    for (int64_t i = 0; i < COUNT; i++)
        data[i] = (float)base_normal(1, (uint64_t)i, (uint64_t)world_self().rank, 0);
    c = along(c, (struct grid){.columns = ranks, .rows = 1}, AXIS_WORLD);
    if (inside)
        comm_mpi_ops.issue(comm, stream, AXIS_WORLD, &c, payload, data);
    cpu_stream_ops.stream_free(stream);
    for (int64_t i = 0; inside && i < COUNT; i++) {
        double sum = 0, size = 0;
        for (int32_t rank = 0; rank < ranks; rank++) {
            double one = (float)base_normal(1, (uint64_t)i, (uint64_t)rank, 0);
            sum += one;
            size += fabs(one);
        }
        wrong += !(fabs((double)data[i] - sum) <= (ranks + 1) * unit[payload] * size);
    }
    unequal = count_unequal(data, inside ? sizeof(data) : 0);
    if (wrong || unequal)
        printf("rank %d of %d: %s in %s: %" PRId64 " of %d random sums are too far off, %" PRId64
               " ranks hold other ones\n",
               world_self().rank, ranks, algorithm_names[algorithm], dtype_names[payload], wrong,
               COUNT, unequal);
    return wrong + unequal;
}

/* The last of a ring adds its own number in fp32: one more than what 16 bits hold. */
static int64_t check_precision(struct comm_state *comm, int32_t ranks, enum dtype payload,
                               float large)
{
    enum { COUNT = 100 };
    float data[COUNT];
    int32_t rank = world_self().rank;
    int64_t wrong = 0;
    struct collective c = {.op = COLLECTIVE_REDUCE_SCATTER, .ranks = ranks, .elements = COUNT};
    struct stream *stream = cpu_stream_ops.stream_new();
    for (int64_t i = 0; i < COUNT; i++) {
        int32_t owner = block_owner(&c, i), next = (owner + 1) % ranks;
        data[i] = (float)(rank == owner) + (rank == next ? large : 0);
    }
    comm_mpi_ops.issue(comm, stream, AXIS_WORLD, &c, payload, data);
    cpu_stream_ops.stream_free(stream);
    for (int64_t i = 0; i < COUNT; i++)
        wrong += block_owner(&c, i) == rank && data[i] != large + 1;
    if (wrong)
        printf("rank %d: %s is not summed in fp32\n", rank, dtype_names[payload]);
    return wrong;
}

static int64_t check_sizes(struct comm_state *comm, struct grid grid, const int64_t *sizes,
                           int32_t count, enum dtype payload)
{
    int64_t wrong = 0;
    for (enum algorithm algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++)
        for (enum collective_op op = 0; op < COLLECTIVE_SEND; op++)
            for (int32_t i = 0; i < count; i++) {
                struct collective collective = {
                    .op = op, .algorithm = algorithm, .elements = sizes[i]};
                if (algorithm != ALGORITHM_NCCL && algorithm_supports(algorithm, op))
                    wrong += check_axes(comm, collective, grid, payload);
                collective.chunks = 3;
                if (algorithm == ALGORITHM_TREE)
                    wrong += check_axes(comm, collective, grid, payload);
            }
    return wrong;
}

/* What is left on this rank of a bucket at @offset after the reduce-scatter of its row. */
static struct collective block_of(struct grid grid, int64_t elements, int64_t *offset)
{
    int64_t place = grid_axis_index(grid, AXIS_ROW, world_self().rank);
    int64_t even = elements / grid.columns, longer = elements % grid.columns;
    *offset += place * even + (place < longer ? place : longer);
    return (struct collective){.op = COLLECTIVE_ALL_REDUCE,
                               .algorithm = ALGORITHM_RING,
                               .ranks = grid.rows,
                               .elements = even + (place < longer)};
}

enum { BUCKETS = 3, BUCKET = 40001 };

/* All that the row lane does for a bucket. */
static void issue_row(struct comm_state *comm, struct stream *row, struct grid grid,
                      enum collective_op op, float *data)
{
    struct collective c = {
        .op = op, .algorithm = ALGORITHM_RING, .ranks = grid.columns, .elements = BUCKET};
    comm_mpi_ops.issue(comm, row, AXIS_ROW, &c, DTYPE_FP32, data);
}

/* Torus all-reduces of several buckets: rows scatter the next while columns sum the one before. */
static void issue_buckets(struct comm_state *comm, struct grid grid, struct stream *row,
                          struct stream *column, struct event *event[2 * BUCKETS], float *data)
{
    for (int32_t b = 0; b < BUCKETS; b++) {
        int64_t offset = (int64_t)b * BUCKET;
        issue_row(comm, row, grid, COLLECTIVE_REDUCE_SCATTER, data + offset);
        cpu_stream_ops.record(row, event[2 * b]);
        cpu_stream_ops.wait(column, event[2 * b]);
        struct collective block = block_of(grid, BUCKET, &offset);
        comm_mpi_ops.note(column, 7, b);
        comm_mpi_ops.issue(comm, column, AXIS_COLUMN, &block, DTYPE_FP32, data + offset);
        cpu_stream_ops.record(column, event[2 * b + 1]);
    }
    for (int32_t b = 0; b < BUCKETS; b++) {
        cpu_stream_ops.wait(row, event[2 * b + 1]);
        issue_row(comm, row, grid, COLLECTIVE_ALL_GATHER, data + (int64_t)b * BUCKET);
    }
}

static int64_t check_buckets(struct comm_state *comm, struct grid grid)
{
    struct trial trial = {
        .collective = {.op = COLLECTIVE_ALL_REDUCE,
                       .algorithm = ALGORITHM_TORUS2D,
                       .ranks = grid_ranks(grid),
                       .elements = (int64_t)BUCKETS * BUCKET},
        .grid = grid,
        .axis = AXIS_WORLD,
        .rank = world_self().rank,
    };
    struct stream *row = cpu_stream_ops.stream_new(), *column = cpu_stream_ops.stream_new();
    struct event *event[2 * BUCKETS];
    for (int32_t i = 0; i < 2 * BUCKETS; i++)
        event[i] = cpu_stream_ops.event_new();
    fill(&trial);
    issue_buckets(comm, grid, row, column, event, trial.data);
    cpu_stream_ops.stream_free(row);
    cpu_stream_ops.stream_free(column);
    struct liveness last = world_last_progress();
    int64_t wrong = count_wrong(&trial) + (last.step != 7 || last.bucket != BUCKETS - 1);
    for (int32_t i = 0; i < 2 * BUCKETS; i++)
        cpu_stream_ops.event_free(event[i]);
    free(trial.data);
    return wrong;
}

static int64_t check_sums(struct comm_state *comm, struct grid grid)
{
    static const int64_t size[] = {1001, 5, 0, 1, 12}, large[] = {3 * ROUNDS_PIECE / 4 + 5};
    static const int32_t piece[] = {ROUNDS_PIECE, 20}; /* the windows hold 80 to 320 bytes */
    bool square = grid.columns >= grid.rows && grid.columns <= 2 * grid.rows;
    bool few = grid_ranks(grid) <= 8;
    int64_t wrong = check_buckets(comm, grid);
    for (enum dtype payload = 0; payload < (square ? DTYPE_COUNT : 1); payload++)
        for (int32_t i = 0; i < (square && few ? 2 : 1); i++) {
            rounds_set_piece(piece[i]);
            wrong += check_sizes(comm, grid, size, few && i == 0 ? 5 : 1, payload);
        }
    rounds_set_piece(ROUNDS_PIECE);
    if (square && grid_ranks(grid) <= 4)
        wrong += check_sizes(comm, grid, large, 1, DTYPE_FP32);
    if (grid.rows == 1)
        wrong += check_precision(comm, grid.columns, DTYPE_FP16, 2048) +
                 check_precision(comm, grid.columns, DTYPE_BF16, 256);
    return wrong;
}

static int64_t check_grid(struct grid grid)
{
    struct comm_state *comm = comm_mpi_ops.open(grid, 0);
    int64_t wrong = world_self().rank < grid_ranks(grid) ? check_sums(comm, grid) : 0;
    for (enum algorithm a = 0; grid.rows == 1 && a < ALGORITHM_COUNT; a++)
        for (enum dtype payload = 0; a != ALGORITHM_NCCL && payload < DTYPE_COUNT; payload++)
            wrong += check_equality(comm, grid.columns, a, payload);
    comm_mpi_ops.close(comm);
    return wrong;
}

int main(int argc, char **argv)
{
    struct exec_world world = world_start(&argc, &argv);
    int32_t first = argc > 1 ? atoi(argv[1]) : 1, last = argc > 2 ? atoi(argv[2]) : world.ranks;
    int64_t wrong = last > world.ranks;
    for (int32_t ranks = first; ranks <= last; ranks++)
        for (int32_t columns = 1; columns <= ranks && last <= world.ranks; columns++)
            if (ranks % columns == 0)
                wrong += check_grid((struct grid){.columns = columns, .rows = ranks / columns});
    world_max(&wrong, 1);
    world_stop();
    return wrong > 0;
}
