#include "exec/world/world_mpi.h"

/* Asked by the address sanitizer, where there is one.  Open MPI leaks, from plugins that are
 * unloaded when it looks up their names: so no list of exceptions can name them. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static struct {
    struct exec_world self;
    MPI_Comm comm;
} plane;

struct exec_world plane_start(int *argc, char ***argv)
{
    int provided;
    MPI_Comm local;
    MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &plane.self.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &plane.self.ranks);
    if (provided < MPI_THREAD_SERIALIZED) {
        fprintf(stderr, "foretrain-exec: this MPI was built without support for threads\n");
        world_abort(69);
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, plane.self.rank, MPI_INFO_NULL,
                        &local);
    MPI_Comm_rank(local, &plane.self.local_rank);
    MPI_Comm_size(local, &plane.self.local_ranks);
    MPI_Comm_free(&local);
    MPI_Comm_dup(MPI_COMM_WORLD, &plane.comm);
    return plane.self;
}

void plane_stop(void)
{
    world_lock();
    MPI_Comm_free(&plane.comm);
    MPI_Finalize();
    world_unlock();
}

/* The thread that holds the lock, perhaps the caller, may be stuck in MPI: the job must end
 * anyway. */
void plane_abort(int code)
{
    int started = 0;
    MPI_Initialized(&started);
    if (started && world_try_lock(1))
        MPI_Abort(MPI_COMM_WORLD, code);
}

/* ---- messages ---- */

struct parcel {
    MPI_Request request;
};

struct parcel *plane_send(enum plane_channel channel, int32_t rank, const void *data, int64_t bytes)
{
    struct parcel *parcel = base_alloc(1, sizeof(*parcel));
    MPI_Isend(data, (int)bytes, MPI_BYTE, rank, channel, plane.comm, &parcel->request);
    return parcel;
}

struct parcel *plane_receive(enum plane_channel channel, int32_t rank, void *data, int64_t bytes)
{
    struct parcel *parcel = base_alloc(1, sizeof(*parcel));
    MPI_Irecv(data, (int)bytes, MPI_BYTE, rank, channel, plane.comm, &parcel->request);
    return parcel;
}

bool plane_done(struct parcel **parcel)
{
    int done = 1;
    if (*parcel)
        MPI_Test(&(*parcel)->request, &done, MPI_STATUS_IGNORE);
    if (!done)
        return false;
    free(*parcel);
    *parcel = NULL;
    return true;
}

void plane_wait(struct parcel **parcel, const char *what)
{
    world_wait(1, &(*parcel)->request, what);
    free(*parcel);
    *parcel = NULL;
}

/* ---- what all ranks do together ---- */

void world_wait(int32_t count, MPI_Request *request, const char *what)
{
    struct patience patience = {0};
    world_waiting(1);
    for (;;) {
        int done;
        world_lock();
        MPI_Testall(count, request, &done, MPI_STATUSES_IGNORE);
        world_unlock();
        if (done)
            break;
        world_pause(&patience);
    }
    world_waiting(-1);
    world_progress(what);
}

void world_sum(double *value, int32_t count)
{
    MPI_Request request;
    world_lock();
    MPI_Iallreduce(MPI_IN_PLACE, value, count, MPI_DOUBLE, MPI_SUM, plane.comm, &request);
    world_unlock();
    world_wait(1, &request, "sum");
}

void world_max(int64_t *value, int32_t count)
{
    MPI_Request request;
    world_lock();
    MPI_Iallreduce(MPI_IN_PLACE, value, count, MPI_INT64_T, MPI_MAX, plane.comm, &request);
    world_unlock();
    world_wait(1, &request, "maximum");
}

enum { PIECE = 1 << 30 }; /* MPI counts in int [bytes] */

static int piece_at(int64_t offset, int64_t bytes)
{
    return (int)(bytes - offset < PIECE ? bytes - offset : PIECE);
}

void world_broadcast(void *data, int64_t bytes, int32_t root)
{
    char *at = data;
    for (int64_t offset = 0; offset < bytes; offset += PIECE) {
        MPI_Request request;
        world_lock();
        MPI_Ibcast(at + offset, piece_at(offset, bytes), MPI_BYTE, root, plane.comm, &request);
        world_unlock();
        world_wait(1, &request, "broadcast");
    }
}

static void send_to_first(const char *data, int64_t bytes)
{
    for (int64_t offset = 0; offset < bytes; offset += PIECE) {
        MPI_Request request;
        world_lock();
        MPI_Isend(data + offset, piece_at(offset, bytes), MPI_BYTE, 0, PLANE_CALLS, plane.comm,
                  &request);
        world_unlock();
        world_wait(1, &request, "gather");
    }
}

static void receive_from(int32_t rank, char *data, int64_t bytes)
{
    for (int64_t offset = 0; offset < bytes; offset += PIECE) {
        MPI_Request request;
        world_lock();
        MPI_Irecv(data + offset, piece_at(offset, bytes), MPI_BYTE, rank, PLANE_CALLS, plane.comm,
                  &request);
        world_unlock();
        world_wait(1, &request, "gather");
    }
}

int64_t world_gather(const void *mine, int64_t bytes, void **all)
{
    MPI_Request request;
    int64_t *size = base_alloc(plane.self.ranks, sizeof(*size)), total = 0, offset = 0;
    *all = NULL;
    world_lock();
    MPI_Igather(&bytes, 1, MPI_INT64_T, size, 1, MPI_INT64_T, 0, plane.comm, &request);
    world_unlock();
    world_wait(1, &request, "gather");
    if (plane.self.rank != 0)
        send_to_first(mine, bytes);
    for (int32_t i = 0; plane.self.rank == 0 && i < plane.self.ranks; i++)
        total += size[i];
    char *to = plane.self.rank == 0 ? base_alloc(total, 1) : NULL;
    for (int32_t i = 0; to && i < plane.self.ranks; offset += size[i], i++) {
        if (i == 0 && bytes > 0)
            memcpy(to, mine, (size_t)bytes);
        else if (i > 0)
            receive_from(i, to + offset, size[i]);
    }
    free(size);
    *all = to;
    return total;
}

void world_barrier(void)
{
    MPI_Request request;
    world_lock();
    MPI_Ibarrier(plane.comm, &request);
    world_unlock();
    world_wait(1, &request, "barrier");
}
