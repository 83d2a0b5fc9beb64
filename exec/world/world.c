#include "exec/world/world.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "exec/world/plane.h"

static struct {
    struct exec_world self;
    pthread_mutex_t lock;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
    _Atomic(const char *) what;
    atomic_llong count, step;
    atomic_int bucket, waiting;
    _Atomic(double) when;
} sign = {.what = "nothing yet", .bucket = -1};

double world_now(void)
{
    return base_seconds(CLOCK_MONOTONIC);
}

/* The number of ranks according to the launcher; 1 if unknown. */
static int ranks_meant(void)
{
    const char *ranks = getenv("OMPI_COMM_WORLD_SIZE");
    if (!ranks)
        ranks = getenv("SLURM_STEP_NUM_TASKS");
    if (!ranks && getenv("MASTER_ADDR"))
        ranks = getenv("WORLD_SIZE");
    return ranks ? atoi(ranks) : 1;
}

static void check_company(void)
{
    if (world.self.ranks > 1 || ranks_meant() < 2)
        return;
    fprintf(stderr,
            "foretrain-exec: this is one of %d ranks that do not find each other: start it with "
            "mpirun or srun --mpi=pmix; a build without MPI trains on one rank\n",
            ranks_meant());
    world_abort(64);
}

struct exec_world world_start(int *argc, char ***argv)
{
    world.self = plane_start(argc, argv);
    check_company();
    world_progress("start");
    return world.self;
}

void world_stop(void)
{
    world_barrier();
    plane_stop();
}

struct exec_world world_self(void)
{
    return world.self;
}

_Noreturn void world_abort(int code)
{
    fflush(NULL);
    plane_abort(code);
    _exit(code);
}

void world_lock(void)
{
    pthread_mutex_lock(&world.lock);
}

bool world_try_lock(double seconds)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    int64_t ns = deadline.tv_nsec + (int64_t)(seconds * 1e9);
    deadline.tv_sec += ns / 1000000000;
    deadline.tv_nsec = ns % 1000000000;
    return pthread_mutex_timedlock(&world.lock, &deadline) == 0;
}

void world_unlock(void)
{
    pthread_mutex_unlock(&world.lock);
}

/* At first the thread only yields the core; after a wait longer than that for usual messages it
 * sleeps, longer and longer. */
void world_pause(struct patience *patience)
{
    const double soon = 100e-6;                       /* [seconds] */
    const int64_t shortest = 20000, longest = 500000; /* [ns] */
    if (patience->nap == 0) {
        double now = patience->polls % 8 == 0 ? world_now() : 0;
        if (patience->polls++ == 0)
            patience->since = now;
        if (now - patience->since > soon)
            patience->nap = shortest;
        sched_yield();
        return;
    }
    struct timespec time = {.tv_nsec = patience->nap};
    nanosleep(&time, NULL);
    patience->nap += patience->nap / 8;
    if (patience->nap > longest)
        patience->nap = longest;
}

void world_waiting(int change)
{
    atomic_fetch_add(&sign.waiting, change);
}

void world_progress(const char *what)
{
    atomic_store_explicit(&sign.what, what, memory_order_relaxed);
    atomic_store_explicit(&sign.when, world_now(), memory_order_relaxed);
    atomic_fetch_add_explicit(&sign.count, 1, memory_order_relaxed);
}

void world_at(int64_t step, int32_t bucket)
{
    atomic_store(&sign.step, step);
    atomic_store(&sign.bucket, bucket);
    world_progress(bucket < 0 ? "step" : "all-reduce");
}

struct liveness world_last_progress(void)
{
    return (struct liveness){
        .what = atomic_load(&sign.what),
        .count = atomic_load(&sign.count),
        .step = atomic_load(&sign.step),
        .bucket = atomic_load(&sign.bucket),
        .age_s = world_now() - atomic_load(&sign.when),
        .waiting = atomic_load(&sign.waiting) > 0,
    };
}

int world_agree(int failed, struct err *err)
{
    int64_t code = failed ? err->exit_code : 0;
    world_max(&code, 1);
    if (code && !failed)
        return err_exit(err, (int32_t)code);
    return code ? -1 : 0;
}
