/* Binomial tree rooted at rank 0: reduce up, broadcast down; gather up and scatter down where the
 * operation leaves blocks.
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
 * MPICH", IJHPCA 2005.
 *
 * In chunks, rounds come in turns of one per level.  In round k of every turn, pairs of level k
 * exchange: in turn t, chunk t goes up and the chunk that has been down to level k + 1 goes down,
 * so a chunk needs one turn up and one for each level down.  No rank sends or receives twice in a
 * round: down, a rank sends at the levels where it receives up, and receives where it sends. */

#include "core/collective/ops.h"

/* Round @k towards the root: ranks with lowest set bit k send, and are done. */
static struct exchange up(const struct collective *c, int32_t rank, int32_t k, bool gather)
{
    int32_t bit = 1 << k;
    struct exchange exchange = {.send = MESSAGE_NONE, .receive = MESSAGE_NONE};
    int32_t sender = rank | bit, receiver = sender - bit;
    if (rank % bit || sender >= c->ranks)
        return exchange;
    int64_t begin = 0, end = c->elements;
    if (gather) {
        begin = block_offset(c->elements, c->ranks, sender);
        end = sender + bit < c->ranks ? block_offset(c->elements, c->ranks, sender + bit) : end;
    }
    if (rank == sender)
        exchange.send = message_range(receiver, begin, end, !gather);
    else
        exchange.receive = message_range(sender, begin, end, !gather);
    return exchange;
}

static bool is_chunked(const struct collective *c)
{
    return c->op == COLLECTIVE_ALL_REDUCE && c->chunks > 1;
}

static int32_t tree_rounds(const struct collective *c)
{
    int32_t levels = log2_ceiling(c->ranks);
    return is_chunked(c) ? (c->chunks + levels) * levels : 2 * levels;
}

/* The chunk that goes down in @round, if it is one of 0 ... chunks - 1. */
static int32_t down_chunk(const struct collective *c, int32_t round)
{
    int32_t levels = log2_ceiling(c->ranks);
    return round / levels - (levels - round % levels);
}

static bool is_chunk(const struct collective *c, int32_t chunk)
{
    return chunk >= 0 && chunk < c->chunks;
}

/* @message, of the whole vector, with one chunk of it instead. */
static struct message only_chunk(const struct collective *c, struct message message, int32_t chunk)
{
    if (message.peer < 0 || !is_chunk(c, chunk))
        return MESSAGE_NONE;
    return message_range(message.peer, block_offset(c->elements, c->chunks, chunk),
                         block_offset(c->elements, c->chunks, chunk + 1), message.reduce);
}

static struct exchange chunk_exchange(const struct collective *c, int32_t rank, int32_t round)
{
    int32_t levels = log2_ceiling(c->ranks);
    int32_t above = round / levels, below = down_chunk(c, round);
    struct exchange up_way = up(c, rank, round % levels, false);
    struct exchange down_way = exchange_reversed(up_way);
    bool sends = up_way.send.peer >= 0;
    return (struct exchange){
        .send = sends ? only_chunk(c, up_way.send, above) : only_chunk(c, down_way.send, below),
        .receive =
            sends ? only_chunk(c, down_way.receive, below) : only_chunk(c, up_way.receive, above),
    };
}

static struct exchange tree_exchange(const struct collective *c, int32_t rank, int32_t round)
{
    int32_t levels = log2_ceiling(c->ranks);
    if (is_chunked(c))
        return chunk_exchange(c, rank, round);
    if (round < levels)
        return up(c, rank, round, c->op == COLLECTIVE_ALL_GATHER);
    return exchange_reversed(
        up(c, rank, 2 * levels - 1 - round, c->op == COLLECTIVE_REDUCE_SCATTER));
}

static double tree_share(const struct collective *c, int32_t round)
{
    int32_t levels = log2_ceiling(c->ranks);
    if (is_chunked(c))
        return 1.0 / c->chunks;
    bool down = round >= levels;
    if (c->op != (down ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_GATHER))
        return 1;
    int32_t bit = 1 << (down ? 2 * levels - 1 - round : round);
    int32_t first = c->ranks - bit; /* blocks the first sender may have at most */
    return (double)(bit < first ? bit : first) / c->ranks;
}

/* What moves in a round of one level. */
enum { NOTHING, ONLY_UP, ONLY_DOWN, BOTH, WAYS };

static int32_t tree_pattern(const struct collective *c, int32_t round)
{
    int32_t levels = log2_ceiling(c->ranks);
    if (!is_chunked(c))
        return round;
    int32_t rises = is_chunk(c, round / levels), falls = is_chunk(c, down_chunk(c, round));
    return round % levels * WAYS + rises + 2 * falls;
}

static int32_t tree_pattern_count(const struct collective *c)
{
    return is_chunked(c) ? log2_ceiling(c->ranks) * WAYS : tree_rounds(c);
}

/* Chunks rise in turns 0 ... chunks - 1 and fall @descent turns later.  Few chunks never do both;
 * any round stands for that. */
static int32_t tree_pattern_round(const struct collective *c, int32_t pattern)
{
    int32_t levels = log2_ceiling(c->ranks), level = pattern / WAYS, descent = levels - level;
    bool meet = c->chunks > descent;
    const int32_t turn[WAYS] = {
        [NOTHING] = c->chunks + descent,
        [ONLY_UP] = 0,
        [ONLY_DOWN] = meet ? c->chunks : descent,
        [BOTH] = meet ? descent : 0,
    };
    return is_chunked(c) ? turn[pattern % WAYS] * levels + level : pattern;
}

const struct collective_ops collective_tree = {
    .supports = {true, true, true},
    .rounds = tree_rounds,
    .exchange = tree_exchange,
    .share = tree_share,
    .pattern = tree_pattern,
    .pattern_count = tree_pattern_count,
    .pattern_round = tree_pattern_round,
};
