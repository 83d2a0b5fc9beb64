#include "tests/cuda/fake/fake_nccl.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "exec/world/world.h"
#include "tests/cuda/fake/fake_nccl_inner.h"

enum { QUESTIONS = 2 };

static struct {
    struct text log;
    const char *base;
    ncclResult_t broken;
    int alive;
    bool no_captures, no_memory;
    const char *memory; /* of ncclMemAlloc(): one at a time */
    int registered;
    pthread_mutex_t lock; /* held inside a call */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

_Noreturn void fake_nccl_misuse(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("misuse of NCCL: ", stderr);
    vfprintf(stderr, format, list);
    fputs("\n", stderr);
    va_end(list);
    abort();
}

void fake_nccl_note(const char *format, ...)
{
    char line[256];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof(line), format, list);
    va_end(list);
    text_add(&fake.log, "%s\n", line);
}

/* NCCL lets one thread at a time use a communicator. */
void fake_nccl_enter(const char *call, ncclComm_t comm)
{
    if (pthread_mutex_trylock(&fake.lock))
        fake_nccl_misuse("%s while another thread is inside NCCL", call);
    if (comm && comm->busy > 0)
        fake_nccl_misuse("%s before what went before is done", call);
    if (comm && comm->finalized)
        fake_nccl_misuse("%s after ncclCommFinalize", call);
}

ncclResult_t fake_nccl_leave(ncclComm_t comm)
{
    bool goes_on = comm && !comm->blocking;
    if (goes_on)
        comm->busy = QUESTIONS;
    pthread_mutex_unlock(&fake.lock);
    return goes_on ? ncclInProgress : ncclSuccess;
}

const char *fake_nccl_members(const struct ncclComm *comm)
{
    static char text[8 * FAKE_NCCL_RANKS];
    size_t length = 0;
    for (int32_t i = 0; i < comm->size; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%d", i ? "," : "{",
                                   comm->member[i]);
    snprintf(text + length, sizeof(text) - length, "}");
    return text;
}

const char *fake_nccl_log(void)
{
    return fake.log.data ? fake.log.data : "";
}

void fake_nccl_base(const void *base)
{
    text_release(&fake.log);
    fake.base = base;
}

int64_t fake_nccl_offset(const void *place)
{
    return (const char *)place - fake.base;
}

void fake_nccl_break(ncclResult_t result)
{
    fake.broken = result;
}

void fake_nccl_refuse_memory(void)
{
    fake.no_memory = true;
}

void fake_nccl_refuse_captures(void)
{
    fake.no_captures = true;
}

bool fake_nccl_refuses(const struct ncclComm *comm, cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream, &status);
    return fake.no_captures && !comm->blocking && status != cudaStreamCaptureStatusNone;
}

int fake_nccl_alive(void)
{
    return fake.alive;
}

/* ---- communicators ---- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    fake_nccl_enter(__func__, NULL);
    memset(id, 42, sizeof(*id));
    fake_nccl_note("id");
    return fake_nccl_leave(NULL);
}

static struct fake_nccl_table *map_table(const char *name, int flags)
{
    int fd = shm_open(name, O_RDWR | flags, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct fake_nccl_table)))
        fake_nccl_misuse("no shared memory: %s", name);
    void *table =
        mmap(NULL, sizeof(struct fake_nccl_table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (table == MAP_FAILED)
        fake_nccl_misuse("no shared memory: %s", name);
    return table;
}

/* All ranks of the job, those without a @comm too. */
static void share_table(ncclComm_t comm)
{
    static int32_t count;
    static int64_t job;
    char name[64];
    job = job ? job : getpid();
    world_broadcast(&job, sizeof(job), 0);
    snprintf(name, sizeof(name), "/fake-nccl-%lld-%d-%d", (long long)job, count++,
             comm ? comm->member[0] : -1);
    if (comm && comm->place == 0) {
        pthread_barrierattr_t shared;
        pthread_barrierattr_init(&shared);
        pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        comm->table = map_table(name, O_CREAT | O_EXCL);
        pthread_barrier_init(&comm->table->barrier, &shared, (unsigned)comm->size);
        pthread_barrierattr_destroy(&shared);
    }
    world_barrier();
    if (comm && comm->place > 0)
        comm->table = map_table(name, 0);
    world_barrier();
    if (comm && comm->place == 0)
        shm_unlink(name);
}

static ncclComm_t new_comm(bool blocking)
{
    ncclComm_t comm = base_alloc(1, sizeof(*comm));
    comm->blocking = blocking;
    fake.alive++;
    return comm;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    ncclUniqueId same;
    fake_nccl_enter(__func__, NULL);
    memset(&same, 42, sizeof(same));
    if (memcmp(&id, &same, sizeof(id)) != 0)
        fake_nccl_misuse("%s: this is not rank 0's id", __func__);
    *comm = new_comm(config->blocking != 0);
    (*comm)->size = ranks;
    (*comm)->place = rank;
    for (int32_t i = 0; i < ranks; i++)
        (*comm)->member[i] = i;
    share_table(*comm);
    fake_nccl_note("init %d of %d%s", rank, ranks, config->blocking ? " blocking" : "");
    if (config->maxCTAs != NCCL_CONFIG_UNDEF_INT)
        fake_nccl_note("at most %d CTAs", config->maxCTAs);
    return fake_nccl_leave(*comm);
}

/* Where somebody is to stand in a part. */
struct wish {
    int32_t color, key, rank;
};

static int compare(const void *a, const void *b)
{
    const struct wish *x = a, *y = b;
    return x->key != y->key ? x->key - y->key : x->rank - y->rank;
}

static void join(ncclComm_t comm, struct wish *wish, int32_t count, struct wish own)
{
    qsort(wish, (size_t)count, sizeof(*wish), compare);
    for (int32_t i = 0; i < count; i++) {
        if (wish[i].color != own.color)
            continue;
        if (wish[i].rank == own.rank)
            comm->place = comm->size;
        comm->member[comm->size++] = wish[i].rank;
    }
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *comm,
                           ncclConfig_t *config)
{
    struct wish own = {color, key, world_self().rank}, wish[FAKE_NCCL_RANKS];
    void *all;
    fake_nccl_enter(__func__, parent);
    if (parent->size != world_self().ranks || config)
        fake_nccl_misuse("%s: only of the whole job, and as it is configured", __func__);
    int64_t bytes = world_gather(&own, sizeof(own), &all);
    if (bytes > 0)
        memcpy(wish, all, (size_t)bytes);
    world_broadcast(wish, world_self().ranks * (int64_t)sizeof(own), 0);
    free(all);
    *comm = NULL;
    if (color == NCCL_SPLIT_NOCOLOR) {
        share_table(NULL);
        fake_nccl_note("split: not in");
        return fake_nccl_leave(parent);
    }
    *comm = new_comm(parent->blocking);
    join(*comm, wish, world_self().ranks, own);
    share_table(*comm);
    fake_nccl_note("split %s", fake_nccl_members(*comm));
    (*comm)->busy = QUESTIONS;
    return fake_nccl_leave(parent);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
    if (pthread_mutex_trylock(&fake.lock))
        fake_nccl_misuse("%s while another thread is inside NCCL", __func__);
    *result = fake.broken;
    if (*result == ncclSuccess && comm->busy > 0) {
        comm->busy--;
        *result = ncclInProgress;
    }
    pthread_mutex_unlock(&fake.lock);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    fake_nccl_enter(__func__, comm);
    fake_nccl_note("finalize %s", fake_nccl_members(comm));
    comm->finalized = true;
    return fake_nccl_leave(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (pthread_mutex_trylock(&fake.lock))
        fake_nccl_misuse("%s while another thread is inside NCCL", __func__);
    if (!comm->finalized || comm->busy > 0)
        fake_nccl_misuse("%s before ncclCommFinalize is done", __func__);
    munmap(comm->table, sizeof(*comm->table));
    free(comm);
    fake.alive--;
    return fake_nccl_leave(NULL);
}

/* Whoever holds the lock: a failed communicator is aborted under the feet of others. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    fprintf(stderr, "NCCL in software: abort %s\n", fake_nccl_members(comm));
    fake.alive--;
    return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **memory, size_t size)
{
    fake_nccl_enter(__func__, NULL);
    if (fake.memory)
        fake_nccl_misuse("%s: a second time", __func__);
    bool fails = fake.no_memory || cudaMalloc(memory, size) != cudaSuccess;
    fake_nccl_note("allocate %zu%s", size, fails ? ": refused" : "");
    fake.memory = fails ? NULL : *memory;
    fake_nccl_leave(NULL);
    return fails ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclMemFree(void *memory)
{
    fake_nccl_enter(__func__, NULL);
    if (memory != fake.memory || fake.registered > 0)
        fake_nccl_misuse("%s: not of ncclMemAlloc, or registered", __func__);
    fake_nccl_note("free");
    fake.memory = NULL;
    cudaFree(memory);
    return fake_nccl_leave(NULL);
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *data, size_t size, void **handle)
{
    fake_nccl_enter(__func__, comm);
    fake_nccl_note("register %s %zu @%lld%s", fake_nccl_members(comm), size,
                   (long long)fake_nccl_offset(data), data == fake.memory ? " of its own" : "");
    fake.registered++;
    *handle = data;
    fake_nccl_leave(NULL);
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    fake_nccl_enter(__func__, comm);
    fake_nccl_note("deregister %s @%lld", fake_nccl_members(comm),
                   (long long)fake_nccl_offset(handle));
    fake.registered--;
    fake_nccl_leave(NULL);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclRemoteError ? "remote process exited or there was a network error"
                                     : "an error of NCCL in software";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "the cable was cut";
}
