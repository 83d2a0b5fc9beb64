/* Recursive halving, then doubling.
 * Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; ranks beyond
 * a power of two as in MPICH (Thakur, Rabenseifner and Gropp 2005): of each of the first pairs of
 * ranks, the odd one hands its vector to the even one and waits for the result.
 *
 * The ranks that stay are the core, numbered 0 ... 2^k - 1.  Every operation is written as a
 * reduce-scatter (fold, halve, hand out blocks) or as its reverse.
 *
 * Member m of the core ends with part m of the vector when the largest messages go far, and with
 * part reversed(m), the bits of m backwards, when they go near: among parts both are the same
 * exchange with the other half.  Reduce-scatter and all-gather must leave block r on rank r, so
 * they are far only. */

#include "core/collective/ops.h"

static int32_t core_levels(const struct collective *c)
{
    return log2_ceiling(c->ranks + 1) - 1;
}

/* How many ranks are folded. */
static int32_t extra_ranks(const struct collective *c)
{
    return c->ranks - (1 << core_levels(c));
}

static int32_t core_rank(const struct collective *c, int32_t core)
{
    int32_t extra = extra_ranks(c);
    return core < extra ? 2 * core : core + extra;
}

/* The beginning of part @core.  Reduce-scatter and all-gather cut between the blocks of
 * ranks, so a core rank keeps its partner's block next to its own. */
static int64_t part_offset(const struct collective *c, int32_t core)
{
    if (c->op == COLLECTIVE_ALL_REDUCE)
        return block_offset(c->elements, 1 << core_levels(c), core);
    return block_offset(c->elements, c->ranks, core_rank(c, core));
}

/* The part of core member @core, and the member of part @core. */
static int32_t reversed(const struct collective *c, int32_t core)
{
    int32_t part = 0;
    if (c->algorithm == ALGORITHM_HALVING_DOUBLING_FAR)
        return core;
    for (int32_t level = core_levels(c); level > 0; level--, core >>= 1)
        part = 2 * part + core % 2;
    return part;
}

static struct message part_message(const struct collective *c, int32_t peer, int32_t part,
                                   int32_t width)
{
    int32_t first = part & ~(width - 1);
    return message_range(core_rank(c, reversed(c, peer)), part_offset(c, first),
                         part_offset(c, first + width), true);
}

static struct exchange halve(const struct collective *c, int32_t rank, int32_t level)
{
    int32_t extra = extra_ranks(c), width = 1 << (core_levels(c) - 1 - level);
    if (rank < 2 * extra && rank % 2)
        return (struct exchange){.send = MESSAGE_NONE, .receive = MESSAGE_NONE};
    int32_t part = reversed(c, rank < 2 * extra ? rank / 2 : rank - extra);
    int32_t peer = part ^ width;
    return (struct exchange){
        .send = part_message(c, peer, peer, width),
        .receive = part_message(c, peer, part, width),
    };
}

/* The odd rank of a folded pair sends elements @begin ... @end - 1 to the even one. */
static struct exchange fold(const struct collective *c, int32_t rank, int64_t begin, int64_t end)
{
    struct exchange exchange = {.send = MESSAGE_NONE, .receive = MESSAGE_NONE};
    if (rank >= 2 * extra_ranks(c))
        return exchange;
    if (rank % 2)
        exchange.send = message_range(rank - 1, begin, end, true);
    else
        exchange.receive = message_range(rank + 1, begin, end, true);
    return exchange;
}

/* Rounds before the vector is scattered over the core. */
static int32_t scatter_rounds(const struct collective *c)
{
    return core_levels(c) + (extra_ranks(c) > 0);
}

static int32_t halving_rounds(const struct collective *c)
{
    if (c->op == COLLECTIVE_ALL_REDUCE)
        return 2 * scatter_rounds(c);
    return scatter_rounds(c) + (extra_ranks(c) > 0);
}

/* The round of the reduce-scatter that equals @round or its reverse. */
static int32_t scatter_round(const struct collective *c, int32_t round, bool *reverse)
{
    *reverse = c->op == COLLECTIVE_ALL_GATHER ||
               (c->op == COLLECTIVE_ALL_REDUCE && round >= scatter_rounds(c));
    return *reverse ? halving_rounds(c) - 1 - round : round;
}

static struct exchange scatter_exchange(const struct collective *c, int32_t rank, int32_t round)
{
    bool folds = extra_ranks(c) > 0;
    if (folds && round == 0)
        return fold(c, rank, 0, c->elements);
    if (round < scatter_rounds(c))
        return halve(c, rank, round - folds);
    int32_t odd = rank | 1;
    if (odd >= c->ranks)
        return (struct exchange){.send = MESSAGE_NONE, .receive = MESSAGE_NONE};
    return exchange_reversed(fold(c, rank, block_offset(c->elements, c->ranks, odd),
                                  block_offset(c->elements, c->ranks, odd + 1)));
}

static struct exchange halving_exchange(const struct collective *c, int32_t rank, int32_t round)
{
    bool reverse;
    struct exchange exchange = scatter_exchange(c, rank, scatter_round(c, round, &reverse));
    return reverse ? exchange_reversed(exchange) : exchange;
}

static double halving_share(const struct collective *c, int32_t round)
{
    bool reverse, folds = extra_ranks(c) > 0;
    round = scatter_round(c, round, &reverse);
    if (folds && round == 0)
        return 1;
    if (round == scatter_rounds(c))
        return 1.0 / c->ranks;
    int32_t width = 1 << (core_levels(c) - 1 - (round - folds));
    if (c->op == COLLECTIVE_ALL_REDUCE)
        return (double)width / (1 << core_levels(c));
    return (double)core_rank(c, width) / c->ranks; /* the first parts hold two blocks each */
}

const struct collective_ops collective_halving_doubling = {
    .supports = {true, false, false},
    .rounds = halving_rounds,
    .exchange = halving_exchange,
    .share = halving_share,
};

const struct collective_ops collective_halving_doubling_far = {
    .supports = {true, true, true},
    .rounds = halving_rounds,
    .exchange = halving_exchange,
    .share = halving_share,
};
