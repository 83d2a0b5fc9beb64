#include "core/collective/collective.h"

#include <assert.h>
#include <stddef.h>

#include "core/collective/ops.h"

const char *const collective_op_names[] = {"all-reduce", "reduce-scatter", "all-gather", "send",
                                           "all-to-all"};
static_assert(sizeof(collective_op_names) / sizeof(*collective_op_names) == COLLECTIVE_OP_COUNT,
              "one name per op");

const char *const algorithm_names[] = {
    "ring",
    "tree",
    "double-tree",
    "halving-doubling",
    "halving-doubling-far",
    "hierarchical",
    "torus2d",
    "nccl",
    "mpi",
    NULL,
};
static_assert(sizeof(algorithm_names) / sizeof(*algorithm_names) == ALGORITHM_COUNT + 1,
              "one name per algorithm");

const char *const channel_names[] = {"1",  "2",  "3",  "4",  "5",  "6",  "7",  "8",   "9",
                                     "10", "11", "12", "13", "14", "15", "16", "all", NULL};
static_assert(sizeof(channel_names) / sizeof(*channel_names) == CHANNEL_LIMIT + 2,
              "a word per number, and all");

int32_t channel_count(int32_t index, int32_t group)
{
    int32_t all = group < CHANNEL_LIMIT ? group : CHANNEL_LIMIT;
    return index < CHANNEL_LIMIT ? index + 1 : all;
}

int32_t collective_channels(const struct collective *c)
{
    return c->channels > 1 ? c->channels : 1;
}

struct collective collective_channel(const struct collective *c, int32_t channel)
{
    struct collective one = *c;
    one.channel = channel;
    return one;
}

/* The messages between ranks are chosen by the library. */
static int32_t no_rounds(const struct collective *c)
{
    return 0;
}

static const struct collective_ops collective_nccl = {.supports = {true, true, true},
                                                      .rounds = no_rounds};
static const struct collective_ops collective_mpi = {.supports = {true}, .rounds = no_rounds};

static const struct collective_ops *const ops[] = {
    &collective_ring,
    &collective_tree,
    &collective_double_tree,
    &collective_halving_doubling,
    &collective_halving_doubling_far,
    &collective_hierarchical,
    &collective_torus2d,
    &collective_nccl,
    &collective_mpi,
};
static_assert(sizeof(ops) / sizeof(*ops) == ALGORITHM_COUNT, "one table per algorithm");

/* Rank 0 has a vector, which rank 1 gets. */
static int32_t send_rounds(const struct collective *c)
{
    return 1;
}

static struct exchange send_exchange(const struct collective *c, int32_t rank, int32_t round)
{
    struct message all = message_range(1 - rank, 0, c->elements, false);
    return rank == 0 ? (struct exchange){all, MESSAGE_NONE} : (struct exchange){MESSAGE_NONE, all};
}

static double send_share(const struct collective *c, int32_t round)
{
    return 1;
}

static const struct collective_ops collective_send = {
    .rounds = send_rounds, .exchange = send_exchange, .share = send_share};

/* The rank that is @round + 1 further on: first of its node, then of those behind. */
static int32_t pair_rank(const struct collective *c, int32_t rank, int32_t round)
{
    int32_t group = c->group > 0 ? c->group : c->ranks;
    int32_t node = (rank / group + round / group) % (c->ranks / group);
    return node * group + (rank + round) % group;
}

static int32_t pair_rounds(const struct collective *c)
{
    return c->ranks - 1;
}

/* Of a block, in a round: all to the own node. */
static double pair_part(const struct collective *c, int32_t round)
{
    return c->far > 0 && c->group > 0 && round + 1 >= c->group ? c->far : 1;
}

static struct message block_message(const struct collective *c, int32_t peer, int32_t block,
                                    int32_t round)
{
    int64_t begin = block_offset(c->elements, c->ranks, block);
    int64_t count = block_offset(c->elements, c->ranks, block + 1) - begin;
    int64_t sent = (int64_t)(pair_part(c, round) * (double)count);
    return message_range(peer, begin, begin + sent, false);
}

static struct exchange pair_exchange(const struct collective *c, int32_t rank, int32_t round)
{
    int32_t group = c->group > 0 ? c->group : c->ranks, step = round + 1;
    int32_t to = pair_rank(c, rank, step);
    int32_t back = (c->ranks / group - step / group) % (c->ranks / group) * group;
    int32_t from = pair_rank(c, rank, back + (group - step % group) % group);
    return (struct exchange){.send = block_message(c, to, to, round),
                             .receive = block_message(c, from, rank, round)};
}

static double pair_share(const struct collective *c, int32_t round)
{
    return pair_part(c, round) / c->ranks;
}

static const struct collective_ops collective_pairs = {
    .rounds = pair_rounds, .exchange = pair_exchange, .share = pair_share};

static const struct collective_ops *ops_of(const struct collective *c)
{
    return c->op == COLLECTIVE_SEND         ? &collective_send
           : c->op == COLLECTIVE_ALL_TO_ALL ? &collective_pairs
                                            : ops[c->algorithm];
}

bool algorithm_supports(enum algorithm algorithm, enum collective_op op)
{
    return op >= COLLECTIVE_SEND ? algorithm == ALGORITHM_RING : ops[algorithm]->supports[op];
}

int32_t collective_rounds(const struct collective *c)
{
    assert(c->ranks >= 1 && algorithm_supports(c->algorithm, c->op));
    return c->ranks == 1 ? 0 : ops_of(c)->rounds(c);
}

struct exchange collective_exchange(const struct collective *c, int32_t rank, int32_t round)
{
    return ops_of(c)->exchange(c, rank, round);
}

static bool message_check(const struct collective *c, int32_t rank, int32_t round)
{
    struct message sent = collective_exchange(c, rank, round).send;
    if (sent.peer < 0)
        return true;
    if (sent.peer == rank || sent.peer >= c->ranks || sent.offset < 0 || sent.count < 0 ||
        sent.offset + sent.count > c->elements)
        return false;
    struct message received = collective_exchange(c, sent.peer, round).receive;
    return received.peer == rank && received.offset == sent.offset && received.count == sent.count;
}

bool collective_check(const struct collective *c)
{
    enum { SAMPLES = 16 };
    int32_t rounds = collective_rounds(c);
    for (int32_t rank = 0; rank < c->ranks; rank += c->ranks / SAMPLES + 1)
        for (int32_t round = 0; round < rounds; round += rounds / SAMPLES + 1)
            if (!message_check(c, rank, round))
                return false;
    return true;
}

int32_t collective_pattern(const struct collective *c, int32_t round)
{
    const struct collective_ops *o = ops_of(c);
    return o->pattern ? o->pattern(c, round) : round;
}

int32_t collective_pattern_count(const struct collective *c)
{
    const struct collective_ops *o = ops_of(c);
    return c->ranks == 1 || !o->pattern ? collective_rounds(c) : o->pattern_count(c);
}

int32_t collective_send_peer(const struct collective *c, int32_t rank, int32_t pattern)
{
    const struct collective_ops *o = ops_of(c);
    return o->exchange(c, rank, o->pattern ? o->pattern_round(c, pattern) : pattern).send.peer;
}

double collective_share(const struct collective *c, int32_t round)
{
    return ops_of(c)->share(c, round);
}

int64_t block_offset(int64_t elements, int32_t blocks, int32_t block)
{
    int64_t longer = elements % blocks;
    return block * (elements / blocks) + (block < longer ? block : longer);
}

struct message message_range(int32_t peer, int64_t begin, int64_t end, bool reduce)
{
    return (struct message){.peer = peer, .offset = begin, .count = end - begin, .reduce = reduce};
}

struct exchange exchange_reversed(struct exchange exchange)
{
    struct exchange reversed = {.send = exchange.receive, .receive = exchange.send};
    reversed.send.reduce = reversed.receive.reduce = false;
    return reversed;
}

static void translate(struct message *message, int32_t base, int32_t stride, int64_t offset)
{
    if (message->peer < 0)
        return;
    message->peer = base + message->peer * stride;
    message->offset += offset;
}

struct exchange exchange_translated(struct exchange exchange, int32_t base, int32_t stride,
                                    int64_t offset)
{
    translate(&exchange.send, base, stride, offset);
    translate(&exchange.receive, base, stride, offset);
    return exchange;
}

int32_t log2_ceiling(int32_t n)
{
    return n > 1 ? 32 - __builtin_clz((uint32_t)n - 1) : 0;
}
