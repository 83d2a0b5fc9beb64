#include "core/network/nccl.h"

#include "core/base/base.h"
#include "core/network/nccl_fabric.h"

const char *const nccl_intra_names[] = {"nvlink", "pci", NULL};
static_assert(ARRAY_SIZE(nccl_intra_names) == NCCL_INTRA_COUNT + 1, "one name each");

const char *nccl_algorithm_name(enum nccl_algorithm algorithm)
{
    static const char *const name[] = {"ring", "tree", "collnet", "nvls"};
    static_assert(ARRAY_SIZE(name) == NCCL_ALGORITHM_COUNT, "one name each");
    return name[algorithm];
}

const char *const nccl_protocol_names[] = {"LL", "LL128", "Simple", NULL};
static_assert(ARRAY_SIZE(nccl_protocol_names) == NCCL_PROTOCOL_COUNT + 1, "one name each");

const char *nccl_protocol_name(enum nccl_protocol protocol)
{
    return nccl_protocol_names[protocol];
}

/* --- what the source says --- */

/* The fraction of the rings' bandwidth for a protocol or a tree, and limits in GB/s; 0: see below.
 * tree_limit is for two nodes at most and for more (2.6's; 2.5 has 90 and 70), tree_limit_a100 for
 * LL128 with compute capability 80.  ll128_channel is of rings and of trees; in 2.5 it was 100 in
 * all, here for six rings. */
static const struct share {
    int32_t version;
    double ring_ll, ll128_channel[2];
    double tree, tree_limit[2], tree_limit_a100[2], tree_ll, tree_ll128;
} shares[] = {
    {203, 0, {0, 0}, 3. / 4, {0, 0}, {0, 0}, 0, 0},
    {205, 1. / 4, {16.7, INFINITY}, .9, {110, 80}, {0, 0}, 1. / 3, 7. / 9},
    {207, 1. / 4, {16.7, 16.7 * 7 / 9}, .9, {110, 80}, {130, 105}, 1 / 3.8, .915},
    {208, 1. / 4, {16.9, 16.9}, .92, {0, 0}, {0, 0}, 1 / 3.8, .915},
    {210, 1. / 4, {20, 20}, .92, {0, 0}, {0, 0}, 1 / 3.8, 120. / 128},
    {218, 1. / 4, {0, 0}, .92, {0, 0}, {0, 0}, 1 / 3.8, 120. / 128},
    {221, 1. / 2, {0, 0}, .92, {0, 0}, {0, 0}, 1 / 3.8, 120. / 128},
};

/* GB/s for [V100, A100, H100][1, 2, more nodes], from 2.8 on: the maximum for LL (with several
 * nodes the rows are Intel and AMD; the H100's 141 was 87.7 until 2.20), LL128 per channel from
 * 2.18 on, Simple per channel of a tree. */
static const double ll_limit[3][3] = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 39, 20.4}};
static const double ll128_ring[3][3] = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}};
static const double ll128_tree[3][3] = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}};
static const double tree_channel[3][3] = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}};

/* Part of its bandwidth that a tree has at 64 B, 128 B, ..., 256 MB, and beyond: 2.5's, 2.7's and
 * 2.10's (2.8 and 2.9 have 2.7's for LL128, within 0.1 of these). */
enum { CORRECTIONS = 24 };
static const double corrections[3][NCCL_PROTOCOL_COUNT][CORRECTIONS] = {
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .5, .5, .6, .7, .8, .9, .9, 1, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .8, .7, .7, .7, .6, .6, .7, .7, .8, .8, .9, .9, 1, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
      .5, .5, .5, .5, .5, .6, .6, .7, .8, .9, 1,  1}},
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .5, .6, .6, .7, .7, .8, .9, .9, 1, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
      .5, .5, .5, .5, .5, .6, .6, .7, .8, .9, 1,  1}},
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
      .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, 1}},
};

static const struct nccl_latency *latency_of(const struct nccl_world *w)
{
    const struct nccl_latency *found = nccl_latencies;
    while (found[1].version && found[1].version <= w->version)
        found++;
    return found;
}

static const struct share *share_of(const struct nccl_world *w)
{
    size_t i = ARRAY_SIZE(shares) - 1;
    while (i > 0 && shares[i].version > w->version)
        i--;
    return &shares[i];
}

/* --- a world --- */

static int32_t generation(const struct nccl_world *w)
{
    return w->compute_capability >= 90 ? 2 : w->compute_capability >= 80 ? 1 : 0;
}

static bool has_amd(const struct nccl_world *w)
{
    return w->compute_capability == 80;
}

/* The entry of a table for the generation and the number of nodes, in bytes/s. */
static double look_up(const double table[3][3], const struct nccl_world *w)
{
    return 1e9 * table[generation(w)][w->nodes > 2 ? 2 : w->nodes - 1];
}

static double most_of_ll(const struct nccl_world *w)
{
    if (w->version < 208)
        return INFINITY;
    return w->nodes > 1 && generation(w) == 1 && !has_amd(w)
               ? 1e9 * ll_limit[0][w->nodes > 2 ? 2 : 1]
               : look_up(ll_limit, w);
}

static int32_t channels(const struct nccl_world *w)
{
    return w->nodes > 1 ? w->inter_channels : w->channels;
}

static bool ll128_is_safe(const struct nccl_world *w)
{
    int32_t cc = w->compute_capability;
    if (w->version < 205 || w->intra != NCCL_NVLINK)
        return false;
    return w->version < 207 ? cc == 70 : cc >= 70;
}

static bool can_run(const struct nccl_world *w, enum collective_op op,
                    enum nccl_algorithm algorithm, enum nccl_protocol protocol)
{
    bool all_reduce = op == COLLECTIVE_ALL_REDUCE, simple = protocol == NCCL_SIMPLE;
    if ((protocol == NCCL_LL && w->version < 205) || (protocol == NCCL_LL128 && !ll128_is_safe(w)))
        return false;
    switch (algorithm) {
    case NCCL_RING:
        return true;
    case NCCL_TREE:
        return all_reduce && (w->version >= 205 || (w->version == 204 && w->nodes > 1));
    case NCCL_COLLNET:
        return all_reduce && simple && w->sharp && w->nodes > 1 && w->version >= 206;
    default:
        return all_reduce && simple && w->nvswitch && w->compute_capability >= 90 &&
               w->version >= (w->nodes > 1 && !w->sharp ? 219 : 218);
    }
}

/* --- latency, in microseconds --- */

/* What a platform's latencies are compared with: a ring's hop by LL128, or Simple before that.
 * 2.4's figure is a mean over hops of which few leave the node; of nodes of 8 GPUs with 2 us inside
 * it takes the one that does for 8 x 3 - 7 x 2. */
static double usual_hop(const struct nccl_world *w, int32_t kind)
{
    if (w->version < 205 && kind == HOP_NETWORK)
        return 10;
    const double *hop = latency_of(w)->hop[kind][NCCL_RING];
    return hop[NCCL_LL128] > 0 ? hop[NCCL_LL128] : hop[NCCL_SIMPLE];
}

/* From 2.7 to 2.17, LL is slower inside a node when it also goes to others. */
static double hop_inside(const struct nccl_world *w, enum nccl_algorithm algorithm,
                         enum nccl_protocol protocol)
{
    double hop = latency_of(w)->hop[w->intra][algorithm][protocol];
    bool slower = protocol == NCCL_LL && w->nodes > 1 && w->version >= 207 && w->version < 218;
    return (slower ? 1.8 * hop : hop) + nccl_more_inside(w, usual_hop(w, w->intra));
}

/* A ring that leaves the node advances no faster than the network takes messages (from 2.18). */
static double network_overhead(const struct nccl_world *w, enum nccl_protocol protocol)
{
    if (w->nodes == 1 || w->version < 218)
        return 0;
    return (has_amd(w) ? 2 : 1) * (protocol == NCCL_SIMPLE ? 3 : 1);
}

/* The number of a ring's steps that NCCL counts as steps between nodes. */
static int32_t steps_between(const struct nccl_world *w, int32_t turns)
{
    int32_t steps = turns * (w->ranks - 1);
    if (w->nodes == 1)
        return 0;
    if (w->version < 207)
        return steps;
    return turns * (w->version >= 212 && w->version < 223 ? w->nodes : w->nodes - 1);
}

static double ring_latency(const struct nccl_world *w, int32_t turns, enum nccl_protocol protocol)
{
    const struct nccl_latency *l = latency_of(w);
    int32_t steps = turns * (w->ranks - 1), between = steps_between(w, turns);
    bool exposed = w->version >= 223 && w->ranks == w->nodes;
    double inside = fmax(hop_inside(w, NCCL_RING, protocol), network_overhead(w, protocol));
    double outside = l->hop[HOP_NETWORK][exposed ? NCCL_TREE : NCCL_RING][protocol];
    double more = nccl_more_of_ring(w, usual_hop(w, HOP_NETWORK)) * steps * w->nodes / w->ranks;
    return l->base[NCCL_RING][protocol] + (steps - between) * inside + between * outside + more;
}

static double tree_latency(const struct nccl_world *w, enum nccl_protocol protocol)
{
    const struct nccl_latency *l = latency_of(w);
    int32_t local = w->ranks / w->nodes;
    return l->base[NCCL_TREE][protocol] +
           2 * ((local - 1) * hop_inside(w, NCCL_TREE, protocol) +
                nccl_levels(w->nodes) * l->hop[HOP_NETWORK][NCCL_TREE][protocol] +
                nccl_more_of_tree(w, usual_hop(w, HOP_NETWORK)));
}

/* Large vectors on a ring between nodes cost more (from 2.7). */
static double plateau(const struct nccl_world *w, int64_t bytes)
{
    int64_t slice = bytes / w->ranks;
    if (w->nodes == 1 || w->version < 207)
        return 1;
    if (w->version < 218)
        return slice >= 4096 ? 1.9 : 1;
    return slice / channels(w) < 64 ? 1 : w->compute_capability < 80 ? 1.9 : 1.4;
}

/* --- bandwidth, in bytes of the vector per second --- */

/* The total bandwidth of rings or trees when a node sends @inter; 2.7 to 2.17 have a limit. */
static double carried(const struct nccl_world *w, double inter)
{
    double bus = w->nodes > 1 ? fmin(w->intra_bandwidth, inter) : w->intra_bandwidth;
    bool limited = generation(w) == 1 && w->version >= 207 && w->version < 218;
    return limited ? fmin(bus, 235e9) : bus;
}

static double ring_rate(const struct nccl_world *w, int32_t turns, enum nccl_protocol protocol)
{
    const struct share *s = share_of(w);
    double bus = carried(w, w->inter_bandwidth);
    if (protocol == NCCL_LL)
        bus = fmin(s->ring_ll * bus, most_of_ll(w));
    if (protocol == NCCL_LL128) {
        bool both_ways = w->ranks < 2 * w->nodes && w->version >= 207 && w->version < 223;
        double limit = s->ll128_channel[NCCL_RING];
        double channel = limit > 0 ? 1e9 * limit : look_up(ll128_ring, w);
        bus = fmin((both_ways ? .7 : .92) * bus, channels(w) * channel);
    }
    return bus * w->ranks / (turns * (w->ranks - 1.));
}

/* With two nodes, each sends only half of the bytes that it adds: search.cc lets trees run up to
 * twice as fast inside the node as between. */
static double tree_bandwidth(const struct nccl_world *w, enum nccl_protocol protocol)
{
    double bus = carried(w, (w->nodes == 2 ? 2 : 1) * w->inter_bandwidth);
    const struct share *s = share_of(w);
    double kept = w->version < 205 && w->intra == NCCL_PCI ? 2. / 3 : s->tree;
    if (w->version < 205)
        return kept * bus;
    bool wider = protocol == NCCL_LL128 && generation(w) == 1;
    double limit = (wider ? s->tree_limit_a100 : s->tree_limit)[w->nodes > 2];
    return fmin(kept * bus, limit > 0 ? 1e9 * limit : channels(w) * look_up(tree_channel, w));
}

static double correction(const struct nccl_world *w, int64_t bytes, enum nccl_protocol protocol)
{
    if (w->version < 205)
        return 1;
    const double *table = corrections[w->version < 207 ? 0 : w->version < 208 ? 1 : 2][protocol];
    double place = fmin(fmax(log2((double)bytes / 64), 0), CORRECTIONS - 1);
    int32_t below = (int32_t)place;
    if (below == CORRECTIONS - 1)
        return table[below];
    return table[below] + (place - below) * (table[below + 1] - table[below]);
}

static double tree_rate(const struct nccl_world *w, int64_t bytes, enum nccl_protocol protocol)
{
    const struct share *s = share_of(w);
    double bus = tree_bandwidth(w, protocol);
    if (protocol == NCCL_LL)
        bus = fmin(s->tree_ll * bus, most_of_ll(w));
    if (protocol == NCCL_LL128) {
        double limit = s->ll128_channel[NCCL_TREE];
        double channel = limit > 0 ? 1e9 * limit : look_up(ll128_tree, w);
        bus = fmin((w->nodes == 1 ? 7. / 9 : s->tree_ll128) * bus, channels(w) * channel);
    }
    return correction(w, bytes, protocol) * bus / 2;
}

/* --- reduction on the way --- */

/* Every byte goes up once and comes down once, in both directions at a time, so a card carries the
 * vector once; inside the node it is scattered and gathered. */
static struct nccl_choice collnet(const struct nccl_world *w)
{
    int32_t others = w->ranks / w->nodes - 1;
    double hop = w->version >= 219 ? 3.7 : 8, between = w->version >= 219 ? 31 : 10.7;
    double each = w->version >= 219 ? .4 : .5;
    double more = nccl_more_inside(w, usual_hop(w, w->intra));
    double inside = (others > 0) * (hop + more) + others * each;
    double cards = fmax((others + 1.) / w->inter_channels, 1);
    double rate = fmin(w->intra_bandwidth / 2, w->inter_bandwidth) / ((cards + 1) / 2);
    return (struct nccl_choice){
        .latency = 2 * inside + between + nccl_more_of_longest(w, usual_hop(w, HOP_NETWORK)),
        .bandwidth = w->compute_capability >= 90 ? .85 * rate : rate,
    };
}

/* One head a device.  Source of the steps in speed: search.cc, sm90SpeedArrayIntra. */
static double nvls_bandwidth(const struct nccl_world *w)
{
    static const double speed[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6};
    int32_t heads = w->ranks / w->nodes;
    double each = 1e-9 * w->intra_bandwidth / heads;
    for (size_t i = 0; i < ARRAY_SIZE(speed); i++)
        if (speed[i] <= each)
            return 1e9 * speed[i] * heads;
    return w->intra_bandwidth;
}

static struct nccl_choice nvls(const struct nccl_world *w)
{
    double network = usual_hop(w, HOP_NETWORK);
    double latency = (w->version < 221 ? 23 : 25) + 2 * nccl_more_inside(w, usual_hop(w, w->intra));
    double bus = nvls_bandwidth(w);
    if (w->nodes > 1 && w->sharp) {
        latency += 18 + nccl_more_of_longest(w, network);
        bus = fmin(bus, w->inter_bandwidth);
    } else if (w->nodes > 1) {
        latency += 2 * (nccl_levels(w->nodes) * 14 + nccl_more_of_tree(w, network));
        bus = fmin(bus, w->nodes == 2 ? w->inter_bandwidth : w->inter_bandwidth / 2);
    }
    return (struct nccl_choice){.latency = latency, .bandwidth = 5. / 6 * bus};
}

/* --- the choice --- */

static struct nccl_choice price(const struct nccl_world *w, enum collective_op op, int64_t bytes,
                                enum nccl_algorithm algorithm, enum nccl_protocol protocol)
{
    int32_t turns = op == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    switch (algorithm) {
    case NCCL_RING:
        return (struct nccl_choice){
            .latency = ring_latency(w, turns, protocol) *
                       (protocol == NCCL_SIMPLE && turns == 2 ? plateau(w, bytes) : 1),
            .bandwidth = ring_rate(w, turns, protocol),
        };
    case NCCL_TREE:
        return (struct nccl_choice){
            .latency = tree_latency(w, protocol),
            .bandwidth = tree_rate(w, bytes, protocol),
        };
    case NCCL_COLLNET:
        return collnet(w);
    default:
        return nvls(w);
    }
}

/* As measured where the bytes take @transfer: 1 without a measurement of the protocol. */
static double corrected(const struct nccl_world *w, enum nccl_protocol protocol, double transfer)
{
    const struct nccl_correction *below = NULL, *above = NULL;
    for (int32_t i = 0; i < w->correction_count; i++) {
        const struct nccl_correction *row = &w->correction[i];
        if (row->protocol != (int32_t)protocol)
            continue;
        if (row->transfer <= transfer && (!below || row->transfer > below->transfer))
            below = row;
        if (row->transfer >= transfer && (!above || row->transfer < above->transfer))
            above = row;
    }
    if (!below || !above)
        return below ? below->factor : above ? above->factor : 1;
    double part = above->transfer > below->transfer
                      ? log(transfer / below->transfer) / log(above->transfer / below->transfer)
                      : 0;
    return below->factor * pow(above->factor / below->factor, part);
}

/* Multiply the cost as measured; no measurement makes the bytes faster than the links. */
static void correct(const struct nccl_world *w, int64_t bytes, struct nccl_choice *c)
{
    double factor = corrected(w, c->protocol, (double)bytes / c->bandwidth);
    double narrowest =
        w->nodes > 1 ? fmin(w->intra_bandwidth, w->inter_bandwidth) : w->intra_bandwidth;
    c->latency *= factor;
    c->bandwidth = fmin(c->bandwidth / factor, narrowest);
}

struct nccl_choice nccl_cost(const struct nccl_world *world, enum collective_op op, int64_t bytes,
                             enum nccl_algorithm algorithm, enum nccl_protocol protocol)
{
    assert(world->version >= 203 && world->nodes >= 1 && world->ranks % world->nodes == 0);
    struct nccl_choice c = {0};
    if (world->ranks > 1 && can_run(world, op, algorithm, protocol)) {
        c = price(world, op, bytes, algorithm, protocol);
        c.latency *= 1e-6;
        c.bandwidth = fmin(c.bandwidth,
                           nccl_uplink_rate(world, op == COLLECTIVE_ALL_REDUCE ? 2 : 1, algorithm));
        c.protocol = protocol;
        if (world->correction_count)
            correct(world, bytes, &c);
        c.seconds = c.latency + (double)bytes / c.bandwidth;
    } else if (world->ranks > 1) {
        c.seconds = INFINITY;
    }
    c.algorithm = algorithm;
    c.protocol = protocol;
    return c;
}

struct nccl_choice nccl_choose(const struct nccl_world *world, enum collective_op op, int64_t bytes)
{
    struct nccl_choice best = {.seconds = INFINITY};
    struct nccl_world known = *world;
    known.inside_latency = 0;
    known.level_count = 0;
    known.correction_count = 0;
    for (enum nccl_algorithm a = 0; a < NCCL_ALGORITHM_COUNT; a++) {
        for (enum nccl_protocol p = 0; p < NCCL_PROTOCOL_COUNT; p++) {
            struct nccl_choice c = nccl_cost(&known, op, bytes, a, p);
            if (c.seconds < best.seconds)
                best = c;
        }
    }
    return nccl_cost(world, op, bytes, best.algorithm, best.protocol);
}
