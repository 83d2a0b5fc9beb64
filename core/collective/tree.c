/* Binomial tree rooted at rank 0: reduce up, broadcast down; gather up and scatter down where the
 * operation leaves blocks.
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
 * MPICH", IJHPCA 2005. */

#include "core/collective/ops.h"

static int32_t tree_rounds(const struct collective *c)
{
    return 2 * log2_ceiling(c->ranks);
}

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

static struct exchange tree_exchange(const struct collective *c, int32_t rank, int32_t round)
{
    int32_t levels = log2_ceiling(c->ranks);
    if (round < levels)
        return up(c, rank, round, c->op == COLLECTIVE_ALL_GATHER);
    return exchange_reversed(
        up(c, rank, 2 * levels - 1 - round, c->op == COLLECTIVE_REDUCE_SCATTER));
}

static double tree_share(const struct collective *c, int32_t round)
{
    int32_t levels = log2_ceiling(c->ranks);
    bool down = round >= levels;
    if (c->op != (down ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_GATHER))
        return 1;
    int32_t bit = 1 << (down ? 2 * levels - 1 - round : round);
    int32_t first = c->ranks - bit; /* blocks the first sender may have at most */
    return (double)(bit < first ? bit : first) / c->ranks;
}

const struct collective_ops collective_tree = {
    .supports = {true, true, true},
    .rounds = tree_rounds,
    .exchange = tree_exchange,
    .share = tree_share,
};
