#include "exec/cuda/nccl/comm_nccl.h"

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "exec/cuda/runtime/check.h"
#include "exec/cuda/runtime/gpu.h"
#include "exec/cuda/runtime/stream_cuda.h"
#include "exec/world/plane.h"
#include "exec/world/world.h"

/* Communicators of NCCL, the thread that watches them, and messages when one fails.
 *
 * A process has one set of communicators.  A call of NCCL may continue in the background:
 * nccl_settle() waits for its end.  A thread checks each communicator for failures ten times a
 * second, and reports the GPU's current bucket (world_at()). */

enum {
    NCCL_WATCHED = 4,
    NCCL_PATIENCE_S = 300, /* for ranks to connect [s]; our choice */
    NCCL_BUCKETS = 4096    /* messages distinguish this many buckets */
};

static struct {
    pthread_mutex_t lock; /* around every call of NCCL */
    ncclComm_t comm[NCCL_WATCHED];
    int32_t count;
    int32_t *number; /* (NCCL_BUCKETS) 0, 1, ... in the GPU's memory, to be copied from there */
    int32_t *place;  /* in pinned memory: the bucket that the GPU has reached, or -1 */
    int32_t bucket, told; /* of note(); the one whose copy was issued last */
    atomic_llong step;
    pthread_t thread;
    atomic_bool running;
    atomic_flag speaking;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .speaking = ATOMIC_FLAG_INIT};

/* ---- failing ---- */

static void *abort_all(void *unused)
{
    for (int32_t i = 0; i < watch.count; i++)
        ncclCommAbort(watch.comm[i]);
    return unused;
}

/* The kernels of a failed communicator spin until it is aborted.  That may take for ever, too: the
 * process ends all the same. */
static void abort_soon(void)
{
    pthread_t thread;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 2;
    if (pthread_create(&thread, NULL, abort_all, NULL) == 0)
        pthread_timedjoin_np(thread, NULL, &end);
}

/* The first thread that finds a failure reports it, others wait for the end. */
static _Noreturn void fail(ncclResult_t result, ncclComm_t comm, const char *call)
{
    struct exec_world self = world_self();
    struct liveness last = world_last_progress();
    const char *more = comm ? ncclGetLastError(comm) : NULL;
    char host[64] = "", bucket[32] = "";
    while (atomic_flag_test_and_set(&watch.speaking))
        pause();
    gethostname(host, sizeof(host) - 1);
    if (last.bucket >= 0)
        snprintf(bucket, sizeof(bucket), " bucket %d", last.bucket);
    fprintf(stderr,
            "foretrain-exec: rank %d of %d (host %s, pid %lld), step %lld%s: NCCL: %s: %s%s%s\n",
            self.rank, self.ranks, host, (long long)getpid(), (long long)last.step, bucket, call,
            ncclGetErrorString(result), more && *more ? ": " : "", more ? more : "");
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec++;
    (void)pthread_mutex_timedlock(&watch.lock, &soon); /* keeps other threads out of NCCL */
    abort_soon();
    world_abort(71);
}

/* ---- calling ---- */

/* Begin a call of NCCL. Every call is between nccl_enter() and nccl_settle(), so that the watching
 * thread does not call NCCL at the same time. */
static void nccl_enter(void)
{
    pthread_mutex_lock(&watch.lock);
}

static ncclResult_t ask(ncclComm_t comm)
{
    ncclResult_t result = ncclSuccess, asked = ncclCommGetAsyncError(comm, &result);
    return asked == ncclSuccess ? result : asked;
}

/* Like nccl_settle(), and @return what came of it instead of ending the job. */
static ncclResult_t nccl_try(ncclResult_t result, ncclComm_t comm)
{
    struct patience patience = {0};
    double end = world_now() + NCCL_PATIENCE_S;
    if (comm && (result == ncclSuccess || result == ncclInProgress))
        result = ask(comm);
    pthread_mutex_unlock(&watch.lock);
    bool waits = result == ncclInProgress;
    if (waits)
        world_waiting(1);
    while (result == ncclInProgress && (atomic_load(&watch.running) || world_now() < end)) {
        world_pause(&patience);
        pthread_mutex_lock(&watch.lock);
        result = ask(comm);
        pthread_mutex_unlock(&watch.lock);
    }
    if (waits)
        world_waiting(-1);
    return result;
}

/* End the call @call ("ncclAllReduce") with @result on @comm (or NULL), and wait until its work in
 * the background is done.  Ends the job if it failed, or if it takes more than NCCL_PATIENCE_S
 * while nothing is watched, since heartbeats do not run yet. */
static void nccl_settle(ncclResult_t result, ncclComm_t comm, const char *call)
{
    result = nccl_try(result, comm);
    if (result != ncclSuccess)
        fail(result, comm, call);
}

/* A whole call of @function, on @comm or NULL, which it may set. */
#define NCCL_CALL(comm, function, ...)                                                             \
    do {                                                                                           \
        nccl_enter();                                                                              \
        ncclResult_t called = function(__VA_ARGS__);                                               \
        nccl_settle(called, comm, #function);                                                      \
    } while (0)

/* ---- watching ---- */

/* A step or a bucket that is new is a sign of life. */
static void pass_on_place(long long *step, int32_t *bucket)
{
    int32_t place = __atomic_load_n(watch.place, __ATOMIC_RELAXED);
    long long now = atomic_load(&watch.step);
    if (now == *step && place == *bucket)
        return;
    *step = now;
    *bucket = place;
    world_at(now, place);
}

static void *watch_all(void *unused)
{
    const struct timespec period = {.tv_nsec = 100000000};
    long long step = 0;
    int32_t bucket = -1;
    while (atomic_load(&watch.running)) {
        pass_on_place(&step, &bucket);
        for (int32_t i = 0; i < watch.count && pthread_mutex_trylock(&watch.lock) == 0; i++) {
            ncclResult_t result = ask(watch.comm[i]);
            pthread_mutex_unlock(&watch.lock);
            if (result != ncclSuccess && result != ncclInProgress)
                fail(result, watch.comm[i], "while the GPU worked");
        }
        nanosleep(&period, NULL);
    }
    return unused;
}

static void allocate_places(void)
{
    AUTOFREE int32_t *number = base_alloc(NCCL_BUCKETS, sizeof(*number));
    size_t bytes = NCCL_BUCKETS * sizeof(*number);
    for (int32_t i = 0; i < NCCL_BUCKETS; i++)
        number[i] = i;
    CUDA_CHECK(cudaMalloc((void **)&watch.number, bytes));
    CUDA_CHECK(cudaMemcpy(watch.number, number, bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaStreamSynchronize(NULL)); /* small copies of pageable memory may go on */
    CUDA_CHECK(cudaMallocHost((void **)&watch.place, sizeof(*watch.place)));
    *watch.place = -1;
}

/* Watch @comm (@count, at most NCCL_WATCHED) from now on. */
static void nccl_watch_start(const ncclComm_t *comm, int32_t count)
{
    allocate_places();
    memcpy(watch.comm, comm, (size_t)count * sizeof(*comm));
    watch.count = count;
    watch.bucket = watch.told = -1;
    atomic_store(&watch.running, true);
    int status = pthread_create(&watch.thread, NULL, watch_all, NULL);
    if (status) {
        fprintf(stderr, "foretrain-exec: cannot start a thread: %s\n", strerror(status));
        world_abort(71);
    }
}

/* Stop watching; does nothing if nothing was started. */
static void nccl_watch_stop(void)
{
    if (!atomic_load(&watch.running))
        return;
    atomic_store(&watch.running, false);
    pthread_join(watch.thread, NULL);
    watch.count = 0;
    CUDA_CHECK(cudaFree(watch.number));
    CUDA_CHECK(cudaFreeHost(watch.place));
}

/* Issue a report on @stream that the GPU has reached the bucket of note(), if it differs from the
 * last reported one.  A copy of four bytes delays the stream less than a host function. */
static void nccl_note_place(cudaStream_t stream)
{
    if (watch.bucket == watch.told || watch.bucket < 0 || watch.bucket >= NCCL_BUCKETS)
        return;
    watch.told = watch.bucket;
    CUDA_CHECK(cudaMemcpyAsync(watch.place, watch.number + watch.bucket, sizeof(*watch.place),
                               cudaMemcpyDeviceToHost, stream));
}

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 1), "ncclCommRegister()");

struct comm_state {
    int32_t size[AXIS_COUNT], place[AXIS_COUNT]; /* of the groups; this rank's in each */
    ncclComm_t comm[AXIS_COUNT];  /* NULL: no other rank along this axis, or a rank beyond the
                                     grid */
    ncclComm_t own[NCCL_WATCHED]; /* (owned) each once, the job's first */
    int32_t owned;
    void *handle[NCCL_WATCHED]; /* (owned) of the registered gradients */
    bool registered;
};

/* ---- before it is opened ---- */

static int refuse(enum algorithm algorithm, struct err *err)
{
    return err_add_code(err, 69,
                        "NCCL cannot be told to exchange by algorithm %s: it has rings and double "
                        "binary trees; use --set allreduce.algorithm=torus2d, nccl, ring or "
                        "double-tree",
                        algorithm_names[algorithm]);
}

/* NCCL's algorithm for the collectives of all ranks; NULL: its own choice. */
static int choose_algorithm(const struct schedule *schedule, const char **word, struct err *err)
{
    for (int32_t i = 0; i < schedule->step_count; i++) {
        const struct step *step = &schedule->step[i];
        if (step->kind != STEP_COLLECTIVE || step->collective.axis != AXIS_WORLD ||
            step->collective.content == CONTENT_NORMS) /* small: as NCCL likes */
            continue;
        if (step->collective.channels > 1)
            return err_add_code(err, 69,
                                "NCCL chooses how many rings it runs side by side: use --set "
                                "allreduce.channels=1 (NCCL_MIN_NCHANNELS in the environment asks "
                                "NCCL for more)");
        if (step->collective.algorithm == ALGORITHM_RING)
            *word = "Ring";
        else if (step->collective.algorithm == ALGORITHM_DOUBLE_TREE)
            *word = "Tree";
        else if (step->collective.algorithm != ALGORITHM_NCCL)
            return refuse(step->collective.algorithm, err);
    }
    return 0;
}

/* For tests: ranks that share a GPU use it in turns. */
static void let_ranks_share(void)
{
    struct exec_world self = world_self();
    int count = 0;
    char name[64];
    if (cudaGetDeviceCount(&count) != cudaSuccess || self.local_ranks <= count ||
        getenv("NCCL_HOSTID"))
        return;
    snprintf(name, sizeof(name), "foretrain-rank-%d", self.rank);
    setenv("NCCL_HOSTID", name, 1);
    if (self.rank == 0)
        fprintf(stderr,
                "foretrain-exec: %d ranks share the %d GPU%s of a machine: good for tests, slow\n",
                self.local_ranks, count, count > 1 ? "s" : "");
}

/* NCCL reads its variables when its first communicator is made. */
static int check(const struct schedule *schedule, struct err *err)
{
    struct grid grid = schedule->grid;
    const char *word = NULL;
    if (cuda_choose_device(err) || choose_algorithm(schedule, &word, err))
        return -1;
    if (grid_ranks(grid) == 1)
        return 0;
    if (word)
        setenv("NCCL_ALGO", word, 0);
    if (grid.columns > 1 && grid.rows > 1)
        setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
    let_ranks_share();
    return 0;
}

/* ---- communicators ---- */

static ncclComm_t keep(struct comm_state *state, ncclComm_t comm)
{
    if (comm)
        state->own[state->owned++] = comm;
    return comm;
}

static ncclComm_t connect_job(struct exec_world self, int32_t ctas, bool blocking)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    ncclUniqueId id = {0};
    config.blocking = blocking;
    if (ctas > 0)
        config.maxCTAs = ctas;
    if (self.rank == 0)
        NCCL_CALL(NULL, ncclGetUniqueId, &id);
    world_broadcast(&id, sizeof(id), 0);
    NCCL_CALL(comm, ncclCommInitRankConfig, &comm, self.ranks, id, self.rank, &config);
    return comm;
}

/* Whether collectives of @comm can be captured.  The graph is never launched. */
static bool captures(ncclComm_t comm)
{
    struct stream *stream = cuda_stream_ops.stream_new();
    cudaStream_t handle = cuda_stream_handle(stream);
    cudaGraph_t graph = NULL;
    float *data;
    CUDA_CHECK(cudaMalloc((void **)&data, sizeof(*data)));
    CUDA_CHECK(cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal));
    nccl_enter();
    bool ran = nccl_try(ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, comm, handle), comm) ==
               ncclSuccess;
    bool ended = cudaStreamEndCapture(handle, &graph) == cudaSuccess;
    if (graph)
        CUDA_CHECK(cudaGraphDestroy(graph));
    cudaGetLastError(); /* clear it: a refusal is an answer */
    CUDA_CHECK(cudaFree(data));
    cuda_stream_ops.stream_free(stream);
    return ran && ended;
}

/* All ranks have communicators of one kind: those that block where one cannot capture others. */
static ncclComm_t connect_world(struct exec_world self, int32_t ctas)
{
    ncclComm_t comm = connect_job(self, ctas, false);
    int64_t refuses = self.ranks > 1 && !captures(comm);
    world_max(&refuses, 1);
    if (!refuses)
        return comm;
    if (self.rank == 0)
        fputs("foretrain-exec: NCCL cannot be captured with communicators that do not block: they "
              "block from now on\n",
              stderr);
    NCCL_CALL(NULL, ncclCommAbort, comm);
    return connect_job(self, ctas, true);
}

/* The part of @parent's ranks with the same @color, or NULL without one. */
static ncclComm_t split(ncclComm_t parent, int32_t color, int32_t key)
{
    ncclComm_t comm = NULL;
    NCCL_CALL(parent, ncclCommSplit, parent, color, key, &comm, NULL);
    if (!comm)
        return NULL;
    nccl_enter();
    nccl_settle(ncclInProgress, comm, "ncclCommSplit");
    return comm;
}

static void advise_on_rows(struct grid grid)
{
    struct exec_world self = world_self();
    if (self.rank > 0 || grid.columns == 1 || self.local_ranks % grid.columns == 0)
        return;
    fprintf(stderr,
            "foretrain-exec: rows of %d ranks span machines with %d: NVLink will not carry them; "
            "choose allreduce.grid.columns so that it divides the GPUs of a machine\n",
            grid.columns, self.local_ranks);
}

/* An axis with all ranks of the grid is the world's. */
static ncclComm_t connect_axis(struct comm_state *state, struct grid grid, enum axis axis)
{
    struct exec_world self = world_self();
    bool inside = self.rank < grid_ranks(grid);
    if (axis == AXIS_WORLD && grid_ranks(grid) == self.ranks)
        return state->own[0];
    if (axis != AXIS_WORLD && grid_axis_size(grid, axis) == 1)
        return NULL;
    if (axis != AXIS_WORLD && grid_axis_size(grid, axis) == grid_ranks(grid))
        return state->comm[AXIS_WORLD];
    int32_t first = inside ? grid_axis_rank(grid, axis, self.rank, 0) : NCCL_SPLIT_NOCOLOR;
    return keep(state, split(state->own[0], first, grid_axis_index(grid, axis, self.rank)));
}

static struct comm_state *open_nccl(struct grid grid, int32_t ctas)
{
    struct exec_world self = world_self();
    struct comm_state *state = base_alloc(1, sizeof(*state));
    advise_on_rows(grid);
    keep(state, connect_world(self, ctas));
    for (const enum axis *axis = (const enum axis[]){AXIS_WORLD, AXIS_ROW, AXIS_COLUMN, AXIS_COUNT};
         *axis != AXIS_COUNT; axis++) {
        state->size[*axis] = grid_axis_size(grid, *axis);
        state->place[*axis] = grid_axis_index(grid, *axis, self.rank);
        state->comm[*axis] = connect_axis(state, grid, *axis);
    }
    nccl_watch_start(state->own, state->owned);
    return state;
}

static void release(struct comm_state *state, void *data)
{
    (void)state;
    NCCL_CALL(NULL, ncclMemFree, data);
}

static void *allocate(struct comm_state *state, int64_t bytes)
{
    void *data = NULL;
    nccl_enter();
    int64_t refuses = nccl_try(ncclMemAlloc(&data, (size_t)bytes), NULL) != ncclSuccess;
    bool has = !refuses;
    world_max(&refuses, 1);
    if (!refuses)
        return data;
    if (has)
        release(state, data);
    cudaGetLastError(); /* clear it: the device tries another way */
    if (world_self().rank == 0)
        fprintf(stderr,
                "foretrain-exec: NCCL has no memory for %.1f MB of gradients (ncclMemAlloc): they "
                "lie in that of cudaMalloc, which it may have to copy\n",
                1e-6 * (double)bytes);
    return NULL;
}

static void release_gradients(struct comm_state *state)
{
    for (int32_t i = 0; state->registered && i < state->owned; i++)
        NCCL_CALL(state->own[i], ncclCommDeregister, state->own[i], state->handle[i]);
    state->registered = false;
}

static void attach(struct comm_state *state, void *data, int64_t bytes)
{
    release_gradients(state);
    for (int32_t i = 0; data && i < state->owned; i++)
        NCCL_CALL(state->own[i], ncclCommRegister, state->own[i], data, (size_t)bytes,
                  &state->handle[i]);
    state->registered = data != NULL;
}

/* NCCL does not report the progress of a communicator's destruction. */
static void destroy(ncclComm_t comm)
{
    NCCL_CALL(comm, ncclCommFinalize, comm);
    nccl_enter();
    ncclResult_t result = ncclCommDestroy(comm);
    nccl_settle(result == ncclInProgress ? ncclSuccess : result, NULL, "ncclCommDestroy");
}

static void close_nccl(struct comm_state *state)
{
    if (!state)
        return;
    release_gradients(state);
    nccl_watch_stop();
    world_barrier();
    for (int32_t i = state->owned - 1; i >= 0; i--)
        destroy(state->own[i]);
    free(state);
}

/* ---- collectives ---- */

static const ncclDataType_t types[DTYPE_COUNT] = {
    [DTYPE_FP32] = ncclFloat32, [DTYPE_FP16] = ncclFloat16, [DTYPE_BF16] = ncclBfloat16};

static ncclResult_t run(const struct comm_state *state, cudaStream_t stream, enum axis axis,
                        const struct collective *collective, enum dtype payload, char *data)
{
    ncclComm_t comm = state->comm[axis];
    if (collective->op == COLLECTIVE_ALL_REDUCE)
        return ncclAllReduce(data, data, (size_t)collective->elements, types[payload], ncclSum,
                             comm, stream);
    assert(collective->elements % (state->size[axis] * comm_nccl_ops.alignment) == 0);
    int64_t block = collective->elements / state->size[axis];
    char *own = data + state->place[axis] * block * dtype_size(payload);
    if (collective->op == COLLECTIVE_REDUCE_SCATTER)
        return ncclReduceScatter(data, own, (size_t)block, types[payload], ncclSum, comm, stream);
    return ncclAllGather(own, data, (size_t)block, types[payload], comm, stream);
}

static void issue(struct comm_state *state, struct stream *stream, enum axis axis,
                  const struct collective *collective, enum dtype payload, void *data)
{
    if (!state->comm[axis] || state->size[axis] == 1 || collective->elements == 0)
        return;
    cudaStream_t handle = cuda_stream_handle(stream);
    nccl_note_place(handle);
    nccl_enter();
    nccl_settle(run(state, handle, axis, collective, payload, data), state->comm[axis],
                collective_op_names[collective->op]);
}

/* The next calls belong to @bucket of @step; bucket -1: the launch of @step, which was captured
 * before.  Messages name the last issued step, whose bucket may not have begun. */
static void note(struct stream *stream, int64_t step, int32_t bucket)
{
    (void)stream;
    atomic_store(&watch.step, step);
    if (bucket >= 0)
        watch.bucket = bucket;
}

/* NCCL does not report it. */
static int64_t messages(struct comm_state *state)
{
    (void)state;
    return 0;
}

const struct comm_ops comm_nccl_ops = {.name = "nccl",
                                       .alignment = 64, /* 128 bytes of fp16 */
                                       .check = check,
                                       .open = open_nccl,
                                       .close = close_nccl,
                                       .allocate = allocate,
                                       .release = release,
                                       .attach = attach,
                                       .issue = issue,
                                       .note = note,
                                       .messages = messages};
