#include "exec/cpu/comm_mpi.h"

#include <assert.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "core/base.h"
#include "exec/cpu/stream.h"

struct comm_state {
    MPI_Comm comm[AXIS_COUNT];
    int32_t place[AXIS_COUNT]; /* this rank's in each communicator */
    pthread_mutex_t lock;      /* held around every call of MPI */
    int64_t messages;
};

/* A collective on its way through a stream. */
struct order {
    struct comm_state *state;
    enum axis axis;
    struct collective collective;
    float *data;
};

static struct comm_state *open_mpi(struct grid grid)
{
    int rank;
    struct comm_state *state = base_alloc(1, sizeof(*state));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pthread_mutex_init(&state->lock, NULL);
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        int32_t first = grid_axis_rank(grid, axis, rank, 0); /* names the group */
        state->place[axis] = grid_axis_index(grid, axis, rank);
        MPI_Comm_split(MPI_COMM_WORLD, first, state->place[axis], &state->comm[axis]);
    }
    return state;
}

static void close_mpi(struct comm_state *state)
{
    if (!state)
        return;
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++)
        MPI_Comm_free(&state->comm[axis]);
    pthread_mutex_destroy(&state->lock);
    free(state);
}

static void post(const struct order *order, struct exchange exchange, float *landing,
                 MPI_Request request[2])
{
    struct comm_state *state = order->state;
    assert(exchange.send.count <= INT_MAX && exchange.receive.count <= INT_MAX);
    pthread_mutex_lock(&state->lock);
    if (exchange.receive.peer >= 0)
        MPI_Irecv(landing, (int)exchange.receive.count, MPI_FLOAT, exchange.receive.peer, 0,
                  state->comm[order->axis], &request[0]);
    if (exchange.send.peer >= 0) {
        MPI_Isend(order->data + exchange.send.offset, (int)exchange.send.count, MPI_FLOAT,
                  exchange.send.peer, 0, state->comm[order->axis], &request[1]);
        state->messages++;
    }
    pthread_mutex_unlock(&state->lock);
}

/* MPI_Waitall() would spin and keep the lock: ranks share cores with each other and with the
 * thread that computes. */
static void complete(struct comm_state *state, MPI_Request request[2])
{
    const int patience = 100;
    const struct timespec nap = {.tv_nsec = 20000};
    for (int attempt = 0, done = 0; !done; attempt++) {
        pthread_mutex_lock(&state->lock);
        MPI_Testall(2, request, &done, MPI_STATUSES_IGNORE);
        pthread_mutex_unlock(&state->lock);
        if (!done && attempt < patience)
            sched_yield();
        else if (!done)
            nanosleep(&nap, NULL);
    }
}

static void run_round(const struct order *order, struct exchange exchange, float *scratch)
{
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    float *place = order->data + exchange.receive.offset;
    float *landing = exchange.receive.reduce ? scratch : place;
    post(order, exchange, landing, request);
    complete(order->state, request);
    if (exchange.receive.peer < 0 || !exchange.receive.reduce)
        return;
    for (int64_t i = 0; i < exchange.receive.count; i++)
        place[i] += scratch[i];
}

static void run_collective(void *argument)
{
    const struct order *order = argument;
    const struct collective *collective = &order->collective;
    int32_t place = order->state->place[order->axis];
    float *scratch = base_alloc(collective->elements, sizeof(*scratch));
    int32_t rounds = collective_rounds(collective);
    for (int32_t round = 0; round < rounds; round++)
        run_round(order, collective_exchange(collective, place, round), scratch);
    free(scratch);
}

static void issue(struct comm_state *state, struct stream *stream, enum axis axis,
                  const struct collective *collective, float *data)
{
    struct order order = {state, axis, *collective, data};
    cpu_stream_issue(stream, run_collective, &order, sizeof(order));
}

static int64_t messages(struct comm_state *state)
{
    pthread_mutex_lock(&state->lock);
    int64_t count = state->messages;
    pthread_mutex_unlock(&state->lock);
    return count;
}

const struct comm_ops comm_mpi_ops = {
    .name = "mpi", .open = open_mpi, .close = close_mpi, .issue = issue, .messages = messages};
