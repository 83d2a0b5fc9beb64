#include "exec/cpu/mpi/comm_mpi.h"

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "exec/cpu/mpi/comm_mpi_library.h"
#include "exec/cpu/mpi/comm_mpi_rounds.h"
#include "exec/cpu/stream.h"
#include "exec/world/world.h"

struct comm_state {
    MPI_Comm comm[AXIS_COUNT];
    int32_t place[AXIS_COUNT]; /* this rank's in each communicator */
    struct rounds_memory memory[AXIS_COUNT];
    struct library_memory library[AXIS_COUNT];
    atomic_llong messages;
};

/* A collective on its way through a stream. */
struct call {
    struct comm_state *state;
    enum axis axis;
    struct collective collective;
    enum dtype payload;
    float *data;
};

/* Splitting blocks under the lock: a barrier first keeps the wait short. */
static struct comm_state *open_mpi(struct grid grid, int32_t ctas)
{
    int32_t rank = world_self().rank;
    bool inside = rank < grid_ranks(grid);
    struct comm_state *state = base_alloc(1, sizeof(*state));
    world_barrier();
    world_lock();
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        int32_t first = grid_axis_rank(grid, axis, rank, 0); /* names the group */
        state->place[axis] = grid_axis_index(grid, axis, rank);
        MPI_Comm_split(MPI_COMM_WORLD, inside ? first : MPI_UNDEFINED, state->place[axis],
                       &state->comm[axis]);
        library_init(&state->library[axis]);
    }
    world_unlock();
    return state;
}

static void close_mpi(struct comm_state *state)
{
    if (!state)
        return;
    world_barrier();
    world_lock();
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        if (state->comm[axis] != MPI_COMM_NULL)
            MPI_Comm_free(&state->comm[axis]);
        library_release(&state->library[axis]);
    }
    world_unlock();
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++)
        rounds_release(&state->memory[axis]);
    free(state);
}

static void run_collective(void *argument)
{
    const struct call *call = argument;
    struct comm_state *state = call->state;
    enum axis axis = call->axis;
    if (call->collective.algorithm == ALGORITHM_MPI) {
        library_all_reduce(&state->library[axis], state->comm[axis], call->collective.elements,
                           call->payload, call->data);
        return;
    }
    atomic_fetch_add(&state->messages,
                     rounds_run(&state->memory[axis], state->comm[axis], state->place[axis],
                                &call->collective, call->payload, call->data));
}

static void issue(struct comm_state *state, struct stream *stream, enum axis axis,
                  const struct collective *collective, enum dtype payload, void *data)
{
    struct call call = {state, axis, *collective, payload, data};
    cpu_stream_issue(stream, run_collective, &call, sizeof(call));
}

/* Where a stream has come to. */
struct note {
    int64_t step;
    int32_t bucket;
};

static void run_note(void *argument)
{
    const struct note *note = argument;
    world_at(note->step, note->bucket);
}

static void note(struct stream *stream, int64_t step, int32_t bucket)
{
    struct note argument = {step, bucket};
    cpu_stream_issue(stream, run_note, &argument, sizeof(argument));
}

static int64_t messages(struct comm_state *state)
{
    return atomic_load(&state->messages);
}

const struct comm_ops comm_mpi_ops = {.name = "mpi",
                                      .open = open_mpi,
                                      .close = close_mpi,
                                      .issue = issue,
                                      .note = note,
                                      .messages = messages};
