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

/* Make the @call that begins a request, under the lock, and wait for the request. */
#define AWAIT(what, call, ...)                                                                     \
    do {                                                                                           \
        MPI_Request request;                                                                       \
        world_lock();                                                                              \
        call(__VA_ARGS__, plane.comm, &request);                                                   \
        world_unlock();                                                                            \
        world_wait(1, &request, what);                                                             \
    } while (0)

void world_sum(double *value, int32_t count)
{
    AWAIT("sum", MPI_Iallreduce, MPI_IN_PLACE, value, count, MPI_DOUBLE, MPI_SUM);
}

void world_max(int64_t *value, int32_t count)
{
    AWAIT("maximum", MPI_Iallreduce, MPI_IN_PLACE, value, count, MPI_INT64_T, MPI_MAX);
}

enum way { TO_ALL, TO_FIRST, FROM };

/* In pieces, since MPI counts in int; of TO_ALL, @rank is the root. */
static void move(enum way way, int32_t rank, char *data, int64_t bytes)
{
    const int64_t piece = 1 << 30;
    for (int64_t done = 0; done < bytes; done += piece) {
        int size = (int)(bytes - done < piece ? bytes - done : piece);
        if (way == TO_ALL)
            AWAIT("broadcast", MPI_Ibcast, data + done, size, MPI_BYTE, rank);
        else if (way == TO_FIRST)
            AWAIT("gather", MPI_Isend, data + done, size, MPI_BYTE, 0, PLANE_CALLS);
        else
            AWAIT("gather", MPI_Irecv, data + done, size, MPI_BYTE, rank, PLANE_CALLS);
    }
}

void world_broadcast(void *data, int64_t bytes, int32_t root)
{
    move(TO_ALL, root, data, bytes);
}

int64_t world_gather(const void *mine, int64_t bytes, void **all)
{
    AUTOFREE int64_t *size = base_alloc(plane.self.ranks, sizeof(*size));
    int64_t total = 0, offset = 0;
    AWAIT("gather", MPI_Igather, &bytes, 1, MPI_INT64_T, size, 1, MPI_INT64_T, 0);
    if (plane.self.rank != 0)
        move(TO_FIRST, 0, (char *)(size_t)mine, bytes);
    for (int32_t i = 0; plane.self.rank == 0 && i < plane.self.ranks; i++)
        total += size[i];
    char *to = plane.self.rank == 0 ? base_alloc(total, 1) : NULL;
    for (int32_t i = 0; to && i < plane.self.ranks; offset += size[i], i++) {
        if (i == 0 && bytes > 0)
            memcpy(to, mine, (size_t)bytes);
        else if (i > 0)
            move(FROM, i, to + offset, size[i]);
    }
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
