#include "exec/cpu/mpi/comm_mpi.h"

#include <stdatomic.h>

#include "exec/cpu/mpi/comm_mpi_rounds.h"
#include "exec/cpu/stream.h"
#include "exec/step/half.h"
#include "exec/world/world.h"
#include "exec/world/world_mpi.h"

/* ---- all-reduce by the MPI library ---- */

/* Memory that successive calls reuse.  Start from {0}. */
struct library_memory {
    uint16_t *wire;
    int64_t capacity; /**< of wire */
};

enum { AT_ONCE = 1 << 28 }; /* numbers: MPI counts in int */

/* MPI has no type for numbers of 16 bits: our own operation on integers adds them. */
static void add(enum dtype dtype, int64_t count, const uint16_t *from, uint16_t *to)
{
    enum { PART = 512 };
    float sum[PART];
    for (int64_t i = 0; i < count; i += PART) {
        int64_t part = count - i < PART ? count - i : PART;
        half_to_float(dtype, part, to + i, sum);
        half_add(dtype, part, from + i, sum);
        half_from_float(dtype, part, sum, to + i);
    }
}

static void add_fp16(void *from, void *to, int *count, MPI_Datatype *type)
{
    add(DTYPE_FP16, *count, from, to);
}

static void add_bf16(void *from, void *to, int *count, MPI_Datatype *type)
{
    add(DTYPE_BF16, *count, from, to);
}

static void sum_in_place(MPI_Comm comm, int64_t count, MPI_Datatype type, size_t size, MPI_Op sum,
                         char *data)
{
    for (int64_t offset = 0; offset < count; offset += AT_ONCE) {
        int64_t part = count - offset < AT_ONCE ? count - offset : AT_ONCE;
        MPI_Request request;
        world_lock();
        MPI_Iallreduce(MPI_IN_PLACE, data + (size_t)offset * size, (int)part, type, sum, comm,
                       &request);
        world_unlock();
        world_wait(1, &request, "all-reduce of MPI");
    }
}

/* Replace @count numbers of @data by their sums over the ranks of @comm, with MPI_Iallreduce();
 * blocks until this rank is done.  With a @payload of 16 bits the library adds such numbers, so it
 * rounds each of its partial sums. */
static void library_all_reduce(struct library_memory *memory, MPI_Comm comm, MPI_Op sum,
                               int64_t count, enum dtype payload, float *data)
{
    if (payload == DTYPE_FP32) {
        sum_in_place(comm, count, MPI_FLOAT, sizeof(*data), sum, (char *)data);
        return;
    }
    memory->wire = base_grow(memory->wire, count, &memory->capacity, sizeof(*memory->wire));
    half_from_float(payload, count, data, memory->wire);
    sum_in_place(comm, count, MPI_UINT16_T, sizeof(*memory->wire), sum, (char *)memory->wire);
    half_to_float(payload, count, memory->wire, data);
}

/* ---- the communicator ---- */

/* Axes from AXIS_CONTEXT on are for predictions. */
struct comm_state {
    MPI_Comm comm[AXIS_CONTEXT];
    int32_t place[AXIS_CONTEXT]; /* this rank's in each communicator */
    struct rounds_memory memory[AXIS_CONTEXT];
    struct library_memory library[AXIS_CONTEXT];
    MPI_Op sum[DTYPE_COUNT]; /* of the library */
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
    for (enum axis axis = 0; axis < AXIS_CONTEXT; axis++) {
        int32_t first = grid_axis_rank(grid, axis, rank, 0); /* names the group */
        state->place[axis] = grid_axis_index(grid, axis, rank);
        MPI_Comm_split(MPI_COMM_WORLD, inside ? first : MPI_UNDEFINED, state->place[axis],
                       &state->comm[axis]);
    }
    state->sum[DTYPE_FP32] = MPI_SUM;
    MPI_Op_create(add_fp16, 1, &state->sum[DTYPE_FP16]);
    MPI_Op_create(add_bf16, 1, &state->sum[DTYPE_BF16]);
    world_unlock();
    return state;
}

static void close_mpi(struct comm_state *state)
{
    if (!state)
        return;
    world_barrier();
    world_lock();
    MPI_Op_free(&state->sum[DTYPE_FP16]);
    MPI_Op_free(&state->sum[DTYPE_BF16]);
    for (enum axis axis = 0; axis < AXIS_CONTEXT; axis++) {
        if (state->comm[axis] != MPI_COMM_NULL)
            MPI_Comm_free(&state->comm[axis]);
        rounds_release(&state->memory[axis]);
        free(state->library[axis].wire);
    }
    world_unlock();
    free(state);
}

static void run_collective(void *argument)
{
    const struct call *call = argument;
    struct comm_state *state = call->state;
    enum axis axis = call->axis;
    if (call->collective.algorithm == ALGORITHM_MPI) {
        library_all_reduce(&state->library[axis], state->comm[axis], state->sum[call->payload],
                           call->collective.elements, call->payload, call->data);
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

/* What one stage sends another, on its way through a stream. */
struct sending {
    struct comm_state *state;
    int32_t peer;
    bool receives, back;
    int64_t count;
    enum dtype payload;
    float *data;
};

static void run_send(void *argument)
{
    const struct sending *s = argument;
    MPI_Comm comm = s->state->comm[AXIS_PIPELINE];
    bool narrow = s->payload != DTYPE_FP32;
    size_t size = narrow ? sizeof(uint16_t) : sizeof(float);
    MPI_Datatype type = narrow ? MPI_UINT16_T : MPI_FLOAT;
    AUTOFREE uint16_t *wire = narrow ? base_alloc(s->count, sizeof(*wire)) : NULL;
    char *data = narrow ? (char *)wire : (char *)s->data;
    if (narrow && !s->receives)
        half_from_float(s->payload, s->count, s->data, wire);
    for (int64_t offset = 0; offset < s->count; offset += AT_ONCE) {
        int part = (int)(s->count - offset < AT_ONCE ? s->count - offset : AT_ONCE);
        MPI_Request request;
        world_lock();
        if (s->receives)
            MPI_Irecv(data + (size_t)offset * size, part, type, s->peer, s->back, comm, &request);
        else
            MPI_Isend(data + (size_t)offset * size, part, type, s->peer, s->back, comm, &request);
        world_unlock();
        world_wait(1, &request, s->receives ? "receiving" : "sending");
    }
    if (narrow && s->receives)
        half_to_float(s->payload, s->count, wire, s->data);
    if (!s->receives)
        atomic_fetch_add(&s->state->messages, 1);
}

static void send_mpi(struct comm_state *state, struct stream *stream, int32_t peer, bool receives,
                     bool back, int64_t count, enum dtype payload, void *data)
{
    struct sending sending = {state, peer, receives, back, count, payload, data};
    cpu_stream_issue(stream, run_send, &sending, sizeof(sending));
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
                                      .send = send_mpi,
                                      .note = note,
                                      .messages = messages};
