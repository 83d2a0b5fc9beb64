/** @file
 * The transport nccl over NCCL and the CUDA runtime in software; one process per rank.
 *
 * Usage: test_comm_nccl calls COLUMNS ROWS ELEMENTS [MORE [CTAS]]
 *        test_comm_nccl exact COLUMNS ROWS
 *        test_comm_nccl blocking COLUMNS ROWS
 *        test_comm_nccl broken COLUMNS ROWS
 *        test_comm_nccl check
 *
 * calls: print what each rank calls for an all-reduce of all ranks, and for one on a torus, in one
 * bucket or two, of at most CTAS thread blocks.
 * exact: sums come out exactly, of every type, of sizes that rows do not divide, also from a graph.
 * blocking: the same where NCCL captures nothing else.
 * broken: rank 1's communicators fail in the background, and the job ends by itself.
 * check: which algorithms are taken, and what NCCL is told (one rank).
 */

#include "core/schedule/iteration.h"
#include "exec/cuda/nccl/comm_nccl.h"
#include "exec/cuda/runtime/check.h"
#include "exec/cuda/runtime/stream_cuda.h"
#include "exec/step/half.h"
#include "exec/world/world.h"
#include "tests/core/own.h"
#include "tests/cuda/fake/fake_nccl.h"
#include "tests/cuda/fake/fake_runtime.h"

enum { LARGEST = 5200 };

/* All that a rank has. */
struct rank {
    struct grid grid;
    struct comm_state *comm;
    struct stream *row, *column;
    struct event *scattered, *reduced;
    char *data; /* (LARGEST) of any type */
    enum dtype type;
};

static int64_t faults;

static void check(bool holds, const char *what, int64_t elements)
{
    if (!holds)
        printf("rank %d: does not hold: %s of %lld\n", world_self().rank, what,
               (long long)elements);
    faults += !holds;
}

static void open_rank(struct rank *rank, int32_t columns, int32_t rows, int32_t ctas)
{
    fake_devices(16);
    rank->grid = grid_of(columns, rows);
    rank->type = DTYPE_FP16;
    CUDA_CHECK(cudaMalloc((void **)&rank->data, LARGEST * sizeof(float)));
    fake_nccl_base(rank->data);
    rank->comm = comm_nccl_ops.open(rank->grid, ctas);
    rank->row = cuda_stream_ops.stream_new();
    rank->column = cuda_stream_ops.stream_new();
    rank->scattered = cuda_stream_ops.event_new();
    rank->reduced = cuda_stream_ops.event_new();
}

static void close_rank(struct rank *rank)
{
    cuda_stream_ops.stream_free(rank->row);
    cuda_stream_ops.stream_free(rank->column);
    cuda_stream_ops.event_free(rank->scattered);
    cuda_stream_ops.event_free(rank->reduced);
    comm_nccl_ops.close(rank->comm);
    CUDA_CHECK(cudaFree(rank->data));
    check(fake_nccl_alive() == 0, "communicators left over", fake_nccl_alive());
    check(fake_objects() == 0, "CUDA objects left over", fake_objects());
}

/* ---- collectives ---- */

static void issue(const struct rank *rank, struct stream *stream, enum axis axis,
                  enum collective_op op, int64_t offset, int64_t elements)
{
    struct collective c = {.op = op,
                           .algorithm = axis == AXIS_WORLD ? ALGORITHM_NCCL : ALGORITHM_RING,
                           .ranks = grid_axis_size(rank->grid, axis),
                           .elements = elements};
    comm_nccl_ops.issue(rank->comm, stream, axis, &c, rank->type,
                        rank->data + offset * dtype_size(rank->type));
}

/* One bucket of @elements, and one of @more unless that is 0.  On one rank there are none. */
static struct packing pack(const struct rank *rank, int64_t elements, int64_t more)
{
    OWN(schedule) *schedule = schedule_new(rank->grid);
    int64_t size = dtype_size(rank->type);
    schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 1, 0, elements * size, -1);
    if (more > 0)
        schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 1, 1, more * size, -1);
    return packing_build(schedule, 0, rank->type, comm_nccl_ops.alignment);
}

/* As exec/step/walk.c does it. */
static void issue_torus(const struct rank *rank, struct slice bucket)
{
    struct slice block = packing_block(bucket, rank->grid, AXIS_ROW, world_self().rank);
    issue(rank, rank->row, AXIS_ROW, COLLECTIVE_REDUCE_SCATTER, bucket.offset, bucket.elements);
    cuda_stream_ops.record(rank->row, rank->scattered);
    cuda_stream_ops.wait(rank->column, rank->scattered);
    issue(rank, rank->column, AXIS_COLUMN, COLLECTIVE_ALL_REDUCE, block.offset, block.elements);
    cuda_stream_ops.record(rank->column, rank->reduced);
    cuda_stream_ops.wait(rank->row, rank->reduced);
    issue(rank, rank->row, AXIS_ROW, COLLECTIVE_ALL_GATHER, bucket.offset, bucket.elements);
}

static void wait_for(const struct rank *rank)
{
    cuda_stream_ops.record(rank->row, rank->scattered);
    cuda_stream_ops.synchronize(rank->scattered);
}

/* ---- numbers ---- */

/* A multiple of the ranks, with whole means in rows and then in columns, that bf16 holds. */
static float number(int32_t rank, int64_t i)
{
    return (float)((7 * i + rank) % 5);
}

/* Padding is 0; 77 is nobody's. */
static float number_behind(int64_t padded, int64_t i)
{
    return i < padded ? 0 : 77;
}

static void fill(const struct rank *rank, int64_t elements, int64_t padded)
{
    AUTOFREE float *value = base_alloc(LARGEST, sizeof(*value));
    struct exec_world self = world_self();
    for (int64_t i = 0; i < LARGEST; i++)
        value[i] = i < elements ? number(self.rank, i) : number_behind(padded, i);
    half_from_float(rank->type, LARGEST, value, rank->data);
}

/* Everywhere the sum, and nothing beyond has changed. */
static void compare(const struct rank *rank, int64_t elements, int64_t padded, const char *what)
{
    AUTOFREE float *value = base_alloc(LARGEST, sizeof(*value));
    int32_t ranks = world_self().ranks;
    int64_t wrong = 0;
    half_to_float(rank->type, LARGEST, rank->data, value);
    for (int64_t i = 0; i < LARGEST; i++) {
        float sum = 0;
        for (int32_t r = 0; r < ranks; r++)
            sum += number(r, i);
        wrong += value[i] != (i < elements ? sum : number_behind(padded, i));
    }
    check(wrong == 0, what, elements);
}

static void check_size(struct rank *rank, int64_t elements)
{
    fill(rank, elements, 0);
    issue(rank, rank->row, AXIS_WORLD, COLLECTIVE_ALL_REDUCE, 0, elements);
    wait_for(rank);
    compare(rank, elements, 0, "the sum over the world");
    for (int64_t first = elements; first >= 0; first -= elements / 3 + 1) {
        HELD(packing) packing = pack(rank, first, elements - first);
        fill(rank, elements, packing.elements);
        for (int32_t i = 0; i < packing.buckets; i++)
            issue_torus(rank, packing.bucket[i]);
        wait_for(rank);
        compare(rank, elements, packing.elements, "the sum over the torus");
    }
}

/* ---- a graph ---- */

static cudaGraphExec_t capture(const struct rank *rank, const struct packing *packing)
{
    cudaStream_t stream = cuda_stream_handle(rank->row);
    cudaGraph_t graph;
    cudaGraphExec_t whole;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int32_t bucket = 0; bucket < packing->buckets; bucket++) {
        comm_nccl_ops.note(rank->row, 5, bucket);
        issue_torus(rank, packing->bucket[bucket]);
    }
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&whole, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return whole;
}

static void check_graph(struct rank *rank, int64_t elements)
{
    HELD(packing) packing = pack(rank, elements / 3, elements - elements / 3);
    comm_nccl_ops.attach(rank->comm, rank->data, packing.elements * dtype_size(rank->type));
    cudaGraphExec_t graph = capture(rank, &packing);
    for (int32_t step = 6; step < 9; step++) {
        fill(rank, elements, packing.elements);
        comm_nccl_ops.note(rank->row, step, -1);
        CUDA_CHECK(cudaGraphLaunch(graph, cuda_stream_handle(rank->row)));
        wait_for(rank);
        compare(rank, elements, packing.elements, "the sum from a graph");
    }
    /* The thread that reports progress may get no processor for long. */
    int32_t last = world_self().ranks > 1 ? 1 : -1;
    for (int32_t i = 0;
         i < 3000 && (world_last_progress().step < 8 || world_last_progress().bucket != last); i++)
        usleep(20000);
    check(world_last_progress().step == 8, "the step of a graph", 8);
    check(world_last_progress().bucket == last, "its bucket", 1);
    comm_nccl_ops.attach(rank->comm, NULL, 0);
    CUDA_CHECK(cudaGraphExecDestroy(graph));
}

static void check_exact(struct rank *rank)
{
    for (enum dtype type = 0; type < DTYPE_COUNT; type++) {
        rank->type = type;
        for (int64_t elements = 0; elements < 20; elements++)
            check_size(rank, elements);
        check_size(rank, 1000);
        check_size(rank, 4999);
    }
    check_graph(rank, 1001);
}

/* ---- what is called ---- */

/* Rank 0 prints for all. */
static void print_calls(void)
{
    void *all;
    AUTOFREE char *mine = base_format("rank %d\n%s", world_self().rank, fake_nccl_log());
    int64_t bytes = world_gather(mine, (int64_t)strlen(mine), &all);
    if (bytes > 0)
        fwrite(all, 1, (size_t)bytes, stdout);
    fflush(stdout);
    free(all);
}

static void call_all(struct rank *rank, int64_t elements, int64_t more)
{
    HELD(packing) packing = pack(rank, elements, more);
    comm_nccl_ops.attach(rank->comm, rank->data, LARGEST);
    issue(rank, rank->row, AXIS_WORLD, COLLECTIVE_ALL_REDUCE, 0, elements);
    for (int32_t i = 0; i < packing.buckets; i++)
        issue_torus(rank, packing.bucket[i]);
    wait_for(rank);
    check(comm_nccl_ops.messages(rank->comm) == 0, "messages are not counted", 0);
}

/* ---- failure ---- */

static void break_down(const struct rank *rank)
{
    comm_nccl_ops.note(rank->row, 7, 3);
    issue_torus(rank, (struct slice){0, 2 * comm_nccl_ops.alignment});
    wait_for(rank);
    usleep(300000); /* the thread has seen the place */
    if (world_self().rank == 1)
        fake_nccl_break(ncclRemoteError);
    sleep(20);
}

/* ---- algorithms ---- */

/* @told: what NCCL is; NULL: the algorithm is refused. */
static void check_algorithm(enum algorithm algorithm, const char *told)
{
    HELD(err) err = {0};
    unsetenv("NCCL_ALGO");
    OWN(schedule) *schedule = iteration_build_all_reduce(
        (struct all_reduce){.algorithm = algorithm}, grid_of(4, 2), 2, 1024, &err);
    check(schedule != NULL, "a schedule of algorithm", algorithm);
    int refused = comm_nccl_ops.check(schedule, &err);
    const char *found = getenv("NCCL_ALGO");
    check((refused != 0) == !told, algorithm_names[algorithm], 4);
    check(!refused || err.exit_code == 69, "the exit code of a refusal", err.exit_code);
    check(!told || strcmp(found ? found : "", told) == 0, "what NCCL is told", algorithm);
    if (refused)
        fputs(err.text, stdout);
}

static void check_algorithms(void)
{
    static const char *const told[ALGORITHM_COUNT] = {[ALGORITHM_NCCL] = "",
                                                      [ALGORITHM_TORUS2D] = "",
                                                      [ALGORITHM_RING] = "Ring",
                                                      [ALGORITHM_DOUBLE_TREE] = "Tree"};
    for (enum algorithm algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++)
        check_algorithm(algorithm, told[algorithm]);
    const char *order = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    check(order && !strcmp(order, "1"), "rows and columns have an order", 1);
    check(!getenv("NCCL_HOSTID"), "a GPU for each rank", 1);
    fake_devices(0); /* no GPU is told */
    check_algorithm(ALGORITHM_NCCL, NULL);
}

int main(int argc, char **argv)
{
    struct rank rank = {0};
    world_start(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "blocking"))
        fake_nccl_refuse_captures();
    if (argc > 3)
        open_rank(&rank, atoi(argv[2]), atoi(argv[3]), argc > 6 ? atoi(argv[6]) : 0);
    if (!strcmp(what, "check"))
        check_algorithms();
    if (!strcmp(what, "exact"))
        check_exact(&rank);
    if (!strcmp(what, "blocking"))
        check_graph(&rank, 1001);
    if (!strcmp(what, "calls"))
        call_all(&rank, atoi(argv[4]), argc > 5 ? atoi(argv[5]) : 0);
    if (!strcmp(what, "broken"))
        break_down(&rank);
    if (argc > 3)
        close_rank(&rank);
    if (!strcmp(what, "calls"))
        print_calls();
    fake_nccl_base(NULL);
    world_max(&faults, 1);
    world_stop();
    return faults > 0;
}
