/* Ring reduce-scatter and all-gather.
 * Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", JPDC 2009: blocks travel once around to be summed, once more to be spread.
 *
 * Several channels are rings that visit the nodes in the same order and each node's ranks in turn
 * from another rank on, so each enters and leaves a node at ranks of its own, as NCCL's do.  In a
 * mesh the turn is 0, 1, -1, 2, -2, ..., whose steps all differ if there are evenly many, so no two
 * channels use a link.  Source: Walecki's, in Lucas, "Recreations mathematiques" II, 1883. */

#include "core/collective/ops.h"

static int32_t ring_rounds(const struct collective *c)
{
    return (c->op == COLLECTIVE_ALL_REDUCE ? 2 : 1) * (c->ranks - 1);
}

/* By how many ranks of a node channel c->channel is ahead of channel 0. */
static int32_t ring_start(const struct collective *c)
{
    return c->channel * c->group / collective_channels(c);
}

static int32_t ring_place(const struct collective *c, int32_t rank)
{
    if (collective_channels(c) == 1)
        return rank;
    int32_t n = c->group, at = rank % n, turned = (at + n - ring_start(c)) % n;
    int32_t zigzag = turned && 2 * turned <= n ? 2 * turned - 1 : 2 * (n - turned) % (2 * n);
    return rank - at + (c->mesh ? zigzag : turned);
}

static int32_t ring_rank(const struct collective *c, int32_t place)
{
    if (collective_channels(c) == 1)
        return place;
    int32_t n = c->group, at = place % n, zigzag = at % 2 ? (at + 1) / 2 : n - at / 2;
    return place - at + ((c->mesh ? zigzag : at) + ring_start(c)) % n;
}

static struct message ring_message(const struct collective *c, int32_t peer, int32_t block,
                                   bool reduce)
{
    int32_t channels = collective_channels(c);
    int64_t begin = block_offset(c->elements, channels, c->channel);
    int64_t part = block_offset(c->elements, channels, c->channel + 1) - begin;
    return message_range(ring_rank(c, peer), begin + block_offset(part, c->ranks, block),
                         begin + block_offset(part, c->ranks, block + 1), reduce);
}

static struct exchange ring_exchange(const struct collective *c, int32_t rank, int32_t round)
{
    int32_t n = c->ranks, place = ring_place(c, rank);
    bool reduce = c->op != COLLECTIVE_ALL_GATHER && round < n - 1;
    int32_t k = round % (n - 1);
    /* a block to be summed starts one rank after the rank where it must end */
    int32_t sent = (place + n - k - (reduce ? 1 : 0)) % n;
    int32_t received = (sent + n - 1) % n;
    return (struct exchange){
        .send = ring_message(c, (place + 1) % n, sent, reduce),
        .receive = ring_message(c, (place + n - 1) % n, received, reduce),
    };
}

static double ring_share(const struct collective *c, int32_t round)
{
    return 1.0 / collective_channels(c) / c->ranks;
}

static int32_t ring_pattern(const struct collective *c, int32_t round)
{
    return 0;
}

static int32_t ring_pattern_count(const struct collective *c)
{
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
