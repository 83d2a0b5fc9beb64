#include "exec/cpu/mpi/comm_mpi_rounds.h"

#include "exec/step/half.h"
#include "exec/world/world.h"
#include "exec/world/world_mpi.h"

static int32_t piece_bytes = ROUNDS_PIECE;

/* A part of a message. */
struct piece {
    int32_t round;
    struct message part; /* peer -1: there is none */
};

/* All messages of one direction, in order. */
struct flow {
    struct piece next;                  /* to be posted */
    struct piece posted[ROUNDS_WINDOW]; /* a ring of them, with their requests */
    MPI_Request request[ROUNDS_WINDOW];
    int64_t posts, ends; /* how many were posted, and of these ended */
    int32_t window;      /* maximum number at once */
    bool arrived;        /* the oldest piece, but it is not processed yet */
};

/* A collective on its way. */
struct transfer {
    struct rounds_memory *memory;
    MPI_Comm comm;
    enum dtype payload;
    float *data;
    int32_t rounds;
    int64_t piece; /* elements */
    struct flow in, out;
    struct gate *gate; /* (gates) one per rank that this one sends to */
    int32_t gates;
};

enum { TAG_DATA, TAG_ENTERED };

static const struct message *message_of(const struct transfer *transfer, const struct flow *flow,
                                        int32_t round)
{
    const struct exchange *exchange = &transfer->memory->exchange[round];
    return flow == &transfer->in ? &exchange->receive : &exchange->send;
}

/* The first piece at or after element @offset of the message of @round. */
static struct piece piece_from(const struct transfer *transfer, const struct flow *flow,
                               int32_t round, int64_t offset)
{
    for (; round < transfer->rounds; round++, offset = 0) {
        struct message part = *message_of(transfer, flow, round);
        if (part.peer < 0 || offset >= part.count)
            continue;
        part.offset += offset;
        part.count = part.count - offset < transfer->piece ? part.count - offset : transfer->piece;
        return (struct piece){round, part};
    }
    return (struct piece){round, {.peer = -1}};
}

static struct piece piece_after(const struct transfer *transfer, const struct flow *flow,
                                const struct piece *piece)
{
    const struct message *whole = message_of(transfer, flow, piece->round);
    return piece_from(transfer, flow, piece->round,
                      piece->part.offset + piece->part.count - whole->offset);
}

static const struct piece *oldest(const struct flow *flow)
{
    return flow->posts > flow->ends ? &flow->posted[flow->ends % ROUNDS_WINDOW] : &flow->next;
}

/* Whether @flow must still move elements of @part in a round up to @last. */
static bool is_pending(const struct transfer *transfer, const struct flow *flow,
                       const struct message *part, int32_t last)
{
    const struct piece *first = oldest(flow);
    for (int32_t round = first->round; round <= last && round < transfer->rounds; round++) {
        const struct message *message = message_of(transfer, flow, round);
        int64_t begin = round == first->round ? first->part.offset : message->offset;
        int64_t end = message->offset + message->count;
        if (message->peer >= 0 && begin < part->offset + part->count && part->offset < end)
            return true;
    }
    return false;
}

/* Whether a piece can be received directly in its place. */
static bool lands_in_place(const struct transfer *transfer, const struct message *part)
{
    return transfer->payload == DTYPE_FP32 && !part->reduce;
}

static bool may_receive(const struct transfer *transfer)
{
    const struct flow *in = &transfer->in;
    const struct piece *next = &in->next;
    if (next->part.peer < 0 || in->posts - in->ends == in->window)
        return false;
    return !lands_in_place(transfer, &next->part) ||
           (!is_pending(transfer, in, &next->part, next->round - 1) &&
            !is_pending(transfer, &transfer->out, &next->part, next->round));
}

/* NULL: there is none. */
static struct gate *gate_of(const struct transfer *transfer, int32_t peer)
{
    for (int32_t i = 0; i < transfer->gates; i++)
        if (transfer->gate[i].peer == peer)
            return &transfer->gate[i];
    return NULL;
}

static bool may_send(const struct transfer *transfer)
{
    const struct flow *out = &transfer->out;
    return out->next.part.peer >= 0 && gate_of(transfer, out->next.part.peer)->open &&
           out->posts - out->ends < out->window &&
           !is_pending(transfer, &transfer->in, &out->next.part, out->next.round - 1);
}

static bool may_take_in(const struct transfer *transfer)
{
    const struct piece *piece = oldest(&transfer->in);
    return transfer->in.arrived &&
           (lands_in_place(transfer, &piece->part) ||
            !is_pending(transfer, &transfer->out, &piece->part, piece->round));
}

static void *slot(char *memory, int64_t number, int32_t window)
{
    return memory + number % window * ROUNDS_PIECE;
}

static MPI_Datatype wire_type(const struct transfer *transfer)
{
    return transfer->payload == DTYPE_FP32 ? MPI_FLOAT : MPI_UINT16_T;
}

static MPI_Request *note_posted(const struct transfer *transfer, struct flow *flow)
{
    int64_t at = flow->posts++ % ROUNDS_WINDOW;
    flow->posted[at] = flow->next;
    flow->next = piece_after(transfer, flow, &flow->posted[at]);
    return &flow->request[at];
}

static void receive_next(struct transfer *transfer)
{
    struct message part = transfer->in.next.part;
    void *to = lands_in_place(transfer, &part)
                   ? (void *)(transfer->data + part.offset)
                   : slot(transfer->memory->landing, transfer->in.posts, transfer->in.window);
    MPI_Request *request = note_posted(transfer, &transfer->in);
    world_lock();
    MPI_Irecv(to, (int)part.count, wire_type(transfer), part.peer, TAG_DATA, transfer->comm,
              request);
    world_unlock();
}

/* A finished sum is rounded here as well, so that this rank keeps the same as the others. */
static const void *wire_data(struct transfer *transfer, const struct message *part)
{
    float *from = transfer->data + part->offset;
    if (transfer->payload == DTYPE_FP32)
        return from;
    uint16_t *to = slot(transfer->memory->leaving, transfer->out.posts, transfer->out.window);
    half_from_float(transfer->payload, part->count, from, to);
    if (!part->reduce)
        half_to_float(transfer->payload, part->count, to, from);
    return to;
}

static void send_next(struct transfer *transfer)
{
    struct message part = transfer->out.next.part;
    const void *from = wire_data(transfer, &part);
    MPI_Request *request = note_posted(transfer, &transfer->out);
    world_lock();
    MPI_Isend(from, (int)part.count, wire_type(transfer), part.peer, TAG_DATA, transfer->comm,
              request);
    world_unlock();
}

static void take_in(struct transfer *transfer)
{
    struct message part = oldest(&transfer->in)->part;
    void *from = slot(transfer->memory->landing, transfer->in.ends, transfer->in.window);
    float *to = transfer->data + part.offset;
    if (part.reduce)
        half_add(transfer->payload, part.count, from, to);
    else if (transfer->payload != DTYPE_FP32)
        half_to_float(transfer->payload, part.count, from, to);
    transfer->in.ends++;
    transfer->in.arrived = false;
}

static bool has_ended(struct flow *flow)
{
    int done = 0;
    if (flow->posts > flow->ends)
        MPI_Test(&flow->request[flow->ends % ROUNDS_WINDOW], &done, MPI_STATUS_IGNORE);
    return done;
}

/* Whether the gate that the next piece waits for has opened; with the lock held. */
static bool has_opened(const struct transfer *transfer)
{
    int done = 0;
    if (transfer->out.next.part.peer < 0)
        return false;
    struct gate *gate = gate_of(transfer, transfer->out.next.part.peer);
    if (gate->open)
        return false;
    MPI_Test(&gate->request, &done, MPI_STATUS_IGNORE);
    gate->open = done;
    return done;
}

/* @return whether something has happened. */
static bool poll(struct transfer *transfer)
{
    int64_t before = transfer->out.ends;
    world_lock();
    bool opened = has_opened(transfer);
    bool arrived = !transfer->in.arrived && has_ended(&transfer->in);
    while (has_ended(&transfer->out))
        transfer->out.ends++;
    world_unlock();
    transfer->in.arrived |= arrived;
    return opened || arrived || transfer->out.ends > before;
}

/* @return whether something could be done. */
static bool advance(struct transfer *transfer)
{
    bool moved = false;
    for (; may_send(transfer); moved = true)
        send_next(transfer);
    for (; may_receive(transfer); moved = true)
        receive_next(transfer);
    moved |= poll(transfer);
    if (may_take_in(transfer)) {
        take_in(transfer);
        moved = true;
    }
    return moved;
}

static bool is_done(const struct transfer *transfer)
{
    return transfer->in.next.part.peer < 0 && transfer->out.next.part.peer < 0 &&
           transfer->in.posts == transfer->in.ends && transfer->out.posts == transfer->out.ends;
}

static void complete(struct transfer *transfer, const char *what)
{
    struct patience patience = {0};
    while (!is_done(transfer)) {
        bool moved = advance(transfer), waited = patience.polls > 0;
        if (moved == waited) /* a wait ends or begins */
            world_waiting(waited ? -1 : 1);
        if (!moved) {
            world_pause(&patience);
            continue;
        }
        patience = (struct patience){0};
        world_progress(what);
    }
}

static void prepare(struct rounds_memory *memory, const struct collective *collective,
                    int32_t place, int32_t rounds)
{
    if (!memory->landing) {
        memory->landing = base_alloc(ROUNDS_IN_WINDOW, ROUNDS_PIECE);
        memory->leaving = base_alloc(ROUNDS_LEAVING_WINDOW, ROUNDS_PIECE);
    }
    memory->exchange =
        base_grow(memory->exchange, rounds, &memory->capacity, sizeof(*memory->exchange));
    for (int32_t round = 0; round < rounds; round++)
        memory->exchange[round] = collective_exchange(collective, place, round);
}

/* Empty messages are never sent. */
static int32_t peer_of(const struct message *message)
{
    return message->count > 0 ? message->peer : -1;
}

/* Announce this rank's entry to its senders, once each. */
static void enter(struct transfer *transfer)
{
    struct rounds_memory *memory = transfer->memory;
    for (int32_t round = 0; round < transfer->rounds; round++) {
        int32_t from = peer_of(&memory->exchange[round].receive), earlier = 0;
        while (earlier < round && peer_of(&memory->exchange[earlier].receive) != from)
            earlier++;
        if (from < 0 || earlier < round)
            continue;
        MPI_Request request;
        world_lock();
        MPI_Isend(NULL, 0, MPI_BYTE, from, TAG_ENTERED, transfer->comm, &request);
        MPI_Request_free(&request);
        world_unlock();
    }
}

static void watch_gates(struct transfer *transfer)
{
    struct rounds_memory *memory = transfer->memory;
    for (int32_t round = 0; round < transfer->rounds; round++) {
        int32_t to = peer_of(&memory->exchange[round].send);
        if (to < 0 || gate_of(transfer, to))
            continue;
        memory->gate = base_room(memory->gate, transfer->gates, sizeof(*memory->gate));
        transfer->gate = memory->gate;
        struct gate *gate = &transfer->gate[transfer->gates++];
        *gate = (struct gate){.peer = to};
        world_lock();
        MPI_Irecv(NULL, 0, MPI_BYTE, to, TAG_ENTERED, transfer->comm, &gate->request);
        world_unlock();
    }
}

int64_t rounds_run(struct rounds_memory *memory, MPI_Comm comm, int32_t place,
                   const struct collective *collective, enum dtype payload, float *data)
{
    assert(collective_channels(collective) == 1);
    int64_t messages = 0;
    struct transfer transfer = {.memory = memory,
                                .comm = comm,
                                .payload = payload,
                                .data = data,
                                .rounds = collective_rounds(collective),
                                .piece = piece_bytes / dtype_size(payload)};
    transfer.in.window = ROUNDS_IN_WINDOW;
    transfer.out.window = payload == DTYPE_FP32 ? ROUNDS_WINDOW : ROUNDS_LEAVING_WINDOW;
    prepare(memory, collective, place, transfer.rounds);
    for (int32_t round = 0; round < transfer.rounds; round++)
        messages += memory->exchange[round].send.peer >= 0;
    transfer.in.next = piece_from(&transfer, &transfer.in, 0, 0);
    transfer.out.next = piece_from(&transfer, &transfer.out, 0, 0);
    watch_gates(&transfer);
    enter(&transfer);
    complete(&transfer, collective_op_names[collective->op]);
    return messages;
}

void rounds_set_piece(int32_t bytes)
{
    assert(bytes >= (int32_t)sizeof(float) && bytes <= ROUNDS_PIECE);
    piece_bytes = bytes;
}

void rounds_release(struct rounds_memory *memory)
{
    free(memory->landing);
    free(memory->leaving);
    free(memory->exchange);
    free(memory->gate);
    *memory = (struct rounds_memory){0};
}
