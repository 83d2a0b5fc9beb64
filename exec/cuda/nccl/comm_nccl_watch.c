#include "exec/cuda/nccl/comm_nccl_watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/base.h"
#include "exec/cuda/runtime/check.h"
#include "exec/world/plane.h"
#include "exec/world/world.h"

static struct {
    pthread_mutex_t lock; /* around every call of NCCL */
    ncclComm_t comm[NCCL_WATCHED];
    int32_t count;
    int32_t *number; /* (NCCL_BUCKETS) 0, 1, ... in the GPU's memory, to be copied from there */
    int32_t *place;  /* in pinned memory: the bucket that the GPU has reached, or -1 */
    int32_t bucket, told; /* of nccl_note(); the one whose copy was issued last */
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

void nccl_enter(void)
{
    pthread_mutex_lock(&watch.lock);
}

static ncclResult_t ask(ncclComm_t comm)
{
    ncclResult_t result = ncclSuccess, asked = ncclCommGetAsyncError(comm, &result);
    return asked == ncclSuccess ? result : asked;
}

ncclResult_t nccl_try(ncclResult_t result, ncclComm_t comm)
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

void nccl_settle(ncclResult_t result, ncclComm_t comm, const char *call)
{
    result = nccl_try(result, comm);
    if (result != ncclSuccess)
        fail(result, comm, call);
}

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

static void *run(void *unused)
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

static void allocate(void)
{
    int32_t *number = base_alloc(NCCL_BUCKETS, sizeof(*number));
    size_t bytes = NCCL_BUCKETS * sizeof(*number);
    for (int32_t i = 0; i < NCCL_BUCKETS; i++)
        number[i] = i;
    CUDA_CHECK(cudaMalloc((void **)&watch.number, bytes));
    CUDA_CHECK(cudaMemcpy(watch.number, number, bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaStreamSynchronize(NULL)); /* small copies of pageable memory may go on */
    CUDA_CHECK(cudaMallocHost((void **)&watch.place, sizeof(*watch.place)));
    *watch.place = -1;
    free(number);
}

void nccl_watch_start(const ncclComm_t *comm, int32_t count)
{
    allocate();
    memcpy(watch.comm, comm, (size_t)count * sizeof(*comm));
    watch.count = count;
    watch.bucket = watch.told = -1;
    atomic_store(&watch.running, true);
    int status = pthread_create(&watch.thread, NULL, run, NULL);
    if (status) {
        fprintf(stderr, "foretrain-exec: cannot start a thread: %s\n", strerror(status));
        world_abort(71);
    }
}

void nccl_watch_stop(void)
{
    if (!atomic_load(&watch.running))
        return;
    atomic_store(&watch.running, false);
    pthread_join(watch.thread, NULL);
    watch.count = 0;
    CUDA_CHECK(cudaFree(watch.number));
    CUDA_CHECK(cudaFreeHost(watch.place));
}

void nccl_note(int64_t step, int32_t bucket)
{
    atomic_store(&watch.step, step);
    if (bucket >= 0)
        watch.bucket = bucket;
}

/* A copy of four bytes delays the stream less than a host function. */
void nccl_note_place(cudaStream_t stream)
{
    if (watch.bucket == watch.told || watch.bucket < 0 || watch.bucket >= NCCL_BUCKETS)
        return;
    watch.told = watch.bucket;
    CUDA_CHECK(cudaMemcpyAsync(watch.place, watch.number + watch.bucket, sizeof(*watch.place),
                               cudaMemcpyDeviceToHost, stream));
}
