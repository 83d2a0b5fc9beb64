/* Two levels: a binomial reduction to the first rank of each group, a ring all-reduce among those
 * leaders, a binomial broadcast in each group. */

#include "core/collective/ops.h"

/* Rounds to reach the leaders, and as many to come back. */
static int32_t inside_rounds(const struct collective *c)
{
    return log2_ceiling(c->group);
}

static int32_t across_rounds(const struct collective *c)
{
    return 2 * (c->ranks / c->group - 1);
}

static bool is_across(const struct collective *c, int32_t round)
{
    return round >= inside_rounds(c) && round < inside_rounds(c) + across_rounds(c);
}

static int32_t hierarchical_rounds(const struct collective *c)
{
    return 2 * inside_rounds(c) + across_rounds(c);
}

static struct exchange hierarchical_exchange(const struct collective *c, int32_t rank,
                                             int32_t round)
{
    int32_t member = rank % c->group;
    if (is_across(c, round)) {
        struct collective leaders = {
            .op = COLLECTIVE_ALL_REDUCE, .ranks = c->ranks / c->group, .elements = c->elements};
        if (member > 0)
            return (struct exchange){.send = MESSAGE_NONE, .receive = MESSAGE_NONE};
        return exchange_translated(
            collective_ring.exchange(&leaders, rank / c->group, round - inside_rounds(c)), 0,
            c->group, 0);
    }
    struct collective group = {
        .op = COLLECTIVE_ALL_REDUCE, .ranks = c->group, .elements = c->elements};
    if (round >= inside_rounds(c))
        round -= across_rounds(c);
    return exchange_translated(collective_tree.exchange(&group, member, round), rank - member, 1,
                               0);
}

static double hierarchical_share(const struct collective *c, int32_t round)
{
    return is_across(c, round) ? (double)c->group / c->ranks : 1;
}

/* All rounds of the ring are one pattern. */
static int32_t hierarchical_pattern(const struct collective *c, int32_t round)
{
    if (round < inside_rounds(c))
        return round;
    if (is_across(c, round))
        return inside_rounds(c);
    return round - across_rounds(c) + (across_rounds(c) > 0);
}

static int32_t hierarchical_pattern_count(const struct collective *c)
{
    return 2 * inside_rounds(c) + (across_rounds(c) > 0);
}

static int32_t hierarchical_pattern_round(const struct collective *c, int32_t pattern)
{
    if (pattern <= inside_rounds(c) || across_rounds(c) == 0)
        return pattern;
    return pattern - 1 + across_rounds(c);
}

const struct collective_ops collective_hierarchical = {
    .supports = {true, false, false},
    .rounds = hierarchical_rounds,
    .exchange = hierarchical_exchange,
    .share = hierarchical_share,
    .pattern = hierarchical_pattern,
    .pattern_count = hierarchical_pattern_count,
    .pattern_round = hierarchical_pattern_round,
};
