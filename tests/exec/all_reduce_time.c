/** @file
 * Times all-reduces of fp32 sums: the executor's own, as training runs them, and every algorithm
 * that Open MPI's tuned component has, on the same ranks and threads in turn.
 *
 * Usage: all_reduce_time COLUMNS ROWS REPEATS BYTES..., on COLUMNS * ROWS ranks and with
 * OMPI_MCA_coll_tuned_use_dynamic_rules=1.  Rank 0 prints one line "BYTES METHOD SECONDS" per
 * repeat: the time of the slowest rank.
 */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/cpu/mpi/comm_mpi.h"
#include "exec/cpu/stream.h"
#include "exec/world/world.h"

/* Of coll_tuned_allreduce_algorithm; 0 lets Open MPI choose. */
static const char *const tuned_names[] = {
    "mpi:default", "mpi:linear",         "mpi:nonoverlapping", "mpi:recursive-doubling",
    "mpi:ring",    "mpi:segmented-ring", "mpi:rabenseifner",
};

enum { TUNED_COUNT = sizeof(tuned_names) / sizeof(*tuned_names) };

/* Everything that is timed. */
struct bench {
    struct grid grid;
    MPI_Comm tuned[TUNED_COUNT];
    struct comm_state *comm;
    struct stream *row, *column;
    struct event *between, *end;
    float *data;
    int64_t elements;
};

static void set_tuned_algorithm(int algorithm)
{
    int index, count, provided;
    MPI_T_cvar_handle handle;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    if (MPI_T_cvar_get_index("coll_tuned_allreduce_algorithm", &index) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS) {
        fprintf(stderr, "this MPI has no coll_tuned_allreduce_algorithm: not Open MPI?\n");
        world_abort(77);
    }
    MPI_T_cvar_write(handle, &algorithm);
    MPI_T_cvar_handle_free(&handle);
    MPI_T_finalize();
}

/* A communicator keeps the algorithm that was set when it was made. */
static void open_tuned(struct bench *bench)
{
    for (int i = 0; i < TUNED_COUNT; i++) {
        set_tuned_algorithm(i);
        MPI_Comm_dup(MPI_COMM_WORLD, &bench->tuned[i]);
    }
}

static void run_torus(struct bench *bench, enum dtype payload)
{
    struct grid grid = bench->grid;
    int32_t column = grid_axis_index(grid, AXIS_ROW, world_self().rank);
    int64_t even = bench->elements / grid.columns;
    struct collective scatter = {.op = COLLECTIVE_REDUCE_SCATTER,
                                 .algorithm = ALGORITHM_RING,
                                 .ranks = grid.columns,
                                 .elements = even * grid.columns};
    struct collective gather = scatter, sum = scatter;
    gather.op = COLLECTIVE_ALL_GATHER;
    sum = (struct collective){.op = COLLECTIVE_ALL_REDUCE,
                              .algorithm = ALGORITHM_RING,
                              .ranks = grid.rows,
                              .elements = even};
    if (grid.columns > 1)
        comm_mpi_ops.issue(bench->comm, bench->row, AXIS_ROW, &scatter, payload, bench->data);
    if (grid.rows > 1) {
        cpu_stream_record(bench->row, bench->between);
        cpu_stream_wait(bench->column, bench->between);
        comm_mpi_ops.issue(bench->comm, bench->column, AXIS_COLUMN, &sum, payload,
                           bench->data + even * column);
        cpu_stream_record(bench->column, bench->between);
        cpu_stream_wait(bench->row, bench->between);
    }
    if (grid.columns > 1)
        comm_mpi_ops.issue(bench->comm, bench->row, AXIS_ROW, &gather, payload, bench->data);
    cpu_stream_record(bench->row, bench->end);
    cpu_event_synchronize(bench->end);
}

/* What a stream needs to know to call MPI's own. */
struct library_order {
    const struct bench *bench;
    MPI_Comm comm;
};

static void call_library(void *argument)
{
    const struct library_order *order = argument;
    world_lock();
    MPI_Allreduce(MPI_IN_PLACE, order->bench->data, (int)order->bench->elements, MPI_FLOAT, MPI_SUM,
                  order->comm);
    world_unlock();
}

/* On the same thread as ours: it has to fetch the data from the cache of the one that made them. */
static void run_library(struct bench *bench, MPI_Comm comm)
{
    struct library_order order = {bench, comm};
    cpu_stream_issue(bench->row, call_library, &order, sizeof(order));
    cpu_stream_record(bench->row, bench->end);
    cpu_event_synchronize(bench->end);
}

static void run_ring(struct bench *bench)
{
    struct collective ring = {.op = COLLECTIVE_ALL_REDUCE,
                              .algorithm = ALGORITHM_RING,
                              .ranks = world_self().ranks,
                              .elements = bench->elements};
    comm_mpi_ops.issue(bench->comm, bench->row, AXIS_WORLD, &ring, DTYPE_FP32, bench->data);
    cpu_stream_record(bench->row, bench->end);
    cpu_event_synchronize(bench->end);
}

static const char *const own_names[] = {"torus2d", "ring", "torus2d-fp16", "torus2d-bf16"};

enum { OWN_COUNT = sizeof(own_names) / sizeof(*own_names), METHODS = OWN_COUNT + TUNED_COUNT };

static const char *method_name(int method)
{
    return method < OWN_COUNT ? own_names[method] : tuned_names[method - OWN_COUNT];
}

static void run(struct bench *bench, int method)
{
    static const enum dtype payload[] = {DTYPE_FP32, DTYPE_FP32, DTYPE_FP16, DTYPE_BF16};
    if (method >= OWN_COUNT)
        run_library(bench, bench->tuned[method - OWN_COUNT]);
    else if (method == 1)
        run_ring(bench);
    else
        run_torus(bench, payload[method]);
}

/* Each method starts on ones: repeated sums would overflow.  @return whether the sums are right. */
static bool time_method(struct bench *bench, int method, bool print)
{
    float ranks = (float)world_self().ranks;
    int64_t wrong = 0;
    for (int64_t i = 0; i < bench->elements; i++)
        bench->data[i] = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime();
    run(bench, method);
    seconds = MPI_Wtime() - seconds;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (print && world_self().rank == 0)
        printf("%lld %s %.9f\n", (long long)bench->elements * 4, method_name(method), seconds);
    for (int64_t i = 0; i < bench->elements; i++)
        wrong += bench->data[i] != ranks;
    if (wrong)
        fprintf(stderr, "%s: %lld wrong sums\n", method_name(method), (long long)wrong);
    return wrong == 0;
}

int main(int argc, char **argv)
{
    struct exec_world world = world_start(&argc, &argv);
    if (argc < 5 || atoi(argv[1]) * atoi(argv[2]) != world.ranks) {
        fprintf(stderr, "usage: all_reduce_time COLUMNS ROWS REPEATS BYTES..., COLUMNS * ROWS = "
                        "ranks\n");
        world_abort(64);
    }
    struct bench bench = {.grid = {atoi(argv[1]), atoi(argv[2])}};
    bool right = true;
    open_tuned(&bench);
    bench.comm = comm_mpi_ops.open(bench.grid, 0);
    bench.row = cpu_stream_new();
    bench.column = cpu_stream_new();
    bench.between = cpu_event_new();
    bench.end = cpu_event_new();
    for (int i = 4; i < argc; i++) {
        bench.elements = atoll(argv[i]) / 4 / world.ranks * world.ranks;
        bench.data = base_alloc(bench.elements, sizeof(float));
        for (int repeat = -1; repeat < atoi(argv[3]); repeat++) /* the first warms up */
            for (int method = 0; method < METHODS; method++)
                right &= time_method(&bench, method, repeat >= 0);
        free(bench.data);
    }
    cpu_stream_free(bench.row);
    cpu_stream_free(bench.column);
    cpu_event_free(bench.between);
    cpu_event_free(bench.end);
    comm_mpi_ops.close(bench.comm);
    for (int i = 0; i < TUNED_COUNT; i++)
        MPI_Comm_free(&bench.tuned[i]);
    world_stop();
    return !right;
}
