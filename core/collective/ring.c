/* Ring reduce-scatter and all-gather.
 * Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", JPDC 2009: blocks travel once around to be summed, once more to be spread. */

#include "core/collective/ops.h"

static int32_t ring_rounds(const struct collective *c)
{
    return (c->op == COLLECTIVE_ALL_REDUCE ? 2 : 1) * (c->ranks - 1);
}

static struct message ring_message(const struct collective *c, int32_t peer, int32_t block,
                                   bool reduce)
{
    return message_range(peer, block_offset(c->elements, c->ranks, block),
                         block_offset(c->elements, c->ranks, block + 1), reduce);
}

static struct exchange ring_exchange(const struct collective *c, int32_t rank, int32_t round)
{
    int32_t n = c->ranks;
    bool reduce = c->op != COLLECTIVE_ALL_GATHER && round < n - 1;
    int32_t k = round % (n - 1);
    /* a block to be summed starts one rank after the rank where it must end */
    int32_t sent = (rank + n - k - (reduce ? 1 : 0)) % n;
    int32_t received = (sent + n - 1) % n;
    return (struct exchange){
        .send = ring_message(c, (rank + 1) % n, sent, reduce),
        .receive = ring_message(c, (rank + n - 1) % n, received, reduce),
    };
}

static double ring_share(const struct collective *c, int32_t round)
{
    (void)round;
    return 1.0 / c->ranks;
}

static int32_t ring_pattern(const struct collective *c, int32_t round)
{
    (void)c, (void)round;
    return 0;
}

static int32_t ring_pattern_count(const struct collective *c)
{
    (void)c;
    return 1;
}

const struct collective_ops collective_ring = {
    .supports = {true, true, true},
    .rounds = ring_rounds,
    .exchange = ring_exchange,
    .share = ring_share,
    .pattern = ring_pattern,
    .pattern_count = ring_pattern_count,
    .pattern_round = ring_pattern,
};
