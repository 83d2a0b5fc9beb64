#include "core/nccl.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* Latencies in microseconds, per protocol LL, LL128, Simple. */
struct latency {
    int32_t version;                     /* from this version on */
    double base[2][NCCL_PROTOCOL_COUNT]; /* ring, tree */
    double net[2][NCCL_PROTOCOL_COUNT];  /* one hop between nodes: ring, tree */
};

static const struct latency latencies[] = {
    /* 2.3: rings only, 6 us a step in the model 2.4 inherited. */
    {203, {{0, 0, 0}, {0, 0, 0}}, {{6, 6, 6}, {15, 15, 15}}},
    {205, {{3.6, 3.6, 8.4}, {4.4, 4.4, 0}}, {{0.9, 2.5, 6.6}, {5.0, 8.5, 14}}},
    {207, {{3.6, 10, 8.4}, {4.4, 4.4, 0}}, {{2.7, 4.0, 9.6}, {5.0, 8.5, 14}}},
    {218, {{6.6, 14, 8.4}, {6.8, 14, 8.4}}, {{2.7, 4.0, 14}, {5.0, 8.5, 14}}},
};

/* One hop inside a node: [NVLink, PCI][ring, tree][protocol], microseconds. */
static const double intra_hop[NCCL_INTRA_COUNT][2][NCCL_PROTOCOL_COUNT] = {
    {{0.6, 1.9, 3.4}, {0.6, 1.25, 4.0}},
    {{1.0, 2.5, 5.7}, {1.0, 1.9, 4.0}},
};

/* GB/s for [V100, A100, H100][1, 2, more nodes]: the most LL carries, LL128 per channel on rings
 * and on trees, and Simple per channel on trees. */
static const double ll_limit[3][3] = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}};
static const double ll128_ring[3][3] = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}};
static const double ll128_tree[3][3] = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}};
static const double tree_channel[3][3] = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}};

const char *const nccl_intra_names[] = {"nvlink", "pci", NULL};
static_assert(sizeof(nccl_intra_names) / sizeof(*nccl_intra_names) == NCCL_INTRA_COUNT + 1,
              "one name each");

const char *nccl_algorithm_name(enum nccl_algorithm algorithm)
{
    static const char *const name[] = {"ring", "tree", "collnet", "nvls"};
    static_assert(sizeof(name) / sizeof(*name) == NCCL_ALGORITHM_COUNT, "one name each");
    return name[algorithm];
}

const char *nccl_protocol_name(enum nccl_protocol protocol)
{
    static const char *const name[] = {"LL", "LL128", "Simple"};
    static_assert(sizeof(name) / sizeof(*name) == NCCL_PROTOCOL_COUNT, "one name each");
    return name[protocol];
}

static const struct latency *latency_of(int32_t version)
{
    const struct latency *best = &latencies[0];
    for (size_t i = 0; i < sizeof(latencies) / sizeof(*latencies); i++)
        best = latencies[i].version <= version ? &latencies[i] : best;
    return best;
}

static int32_t generation(const struct nccl_world *w)
{
    return w->compute_capability >= 90 ? 2 : w->compute_capability >= 80 ? 1 : 0;
}

static int32_t node_class(const struct nccl_world *w)
{
    return w->nodes > 2 ? 2 : w->nodes - 1;
}

/* What the rings carry all the way round: the node's links, or the NICs when they are narrower. */
static double ring_bandwidth(const struct nccl_world *w)
{
    return w->nodes > 1 ? fmin(w->intra_bandwidth, w->inter_bandwidth) : w->intra_bandwidth;
}

static bool can_run(const struct nccl_world *w, enum collective_op op,
                    enum nccl_algorithm algorithm, enum nccl_protocol protocol)
{
    if (w->version < 205 && protocol == NCCL_LL128)
        return false;
    if (protocol == NCCL_LL128 && (w->intra != NCCL_NVLINK || w->compute_capability < 70))
        return false;
    if (algorithm == NCCL_RING)
        return true;
    if (algorithm == NCCL_TREE)
        return w->version >= 204 && op == COLLECTIVE_ALL_REDUCE && w->nodes > 1;
    if (op != COLLECTIVE_ALL_REDUCE || protocol != NCCL_SIMPLE)
        return false;
    if (algorithm == NCCL_COLLNET)
        return w->sharp && w->nodes > 1 && w->version >= 206;
    return w->version >= 219 && w->compute_capability >= 90 && w->intra == NCCL_NVLINK;
}

static double ring_latency(const struct nccl_world *w, enum collective_op op,
                           enum nccl_protocol protocol)
{
    const struct latency *l = latency_of(w->version);
    int32_t turns = op == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    int32_t steps = turns * (w->ranks - 1);
    int32_t between = w->nodes > 1 ? turns * w->nodes : 0;
    if (between > steps)
        between = steps;
    double intra = w->version < 205 ? 6 : intra_hop[w->intra][0][protocol];
    return l->base[0][protocol] + (steps - between) * intra + between * l->net[0][protocol];
}

static double tree_latency(const struct nccl_world *w, enum nccl_protocol protocol)
{
    const struct latency *l = latency_of(w->version);
    double intra = w->version < 205 ? 4 : intra_hop[w->intra][1][protocol];
    int32_t local = w->ranks / w->nodes - 1;
    return l->base[1][protocol] + 2 * (local * intra + log2(w->nodes) * l->net[1][protocol]);
}

/* Bytes per second of the vector for one ring all-reduce when the rings carry @bus. */
static double ring_rate(const struct nccl_world *w, enum collective_op op,
                        enum nccl_protocol protocol)
{
    double bus = ring_bandwidth(w);
    if (protocol == NCCL_LL)
        bus = fmin(1e9 * ll_limit[generation(w)][node_class(w)], 0.5 * bus);
    if (protocol == NCCL_LL128)
        bus = fmin(0.92 * bus, 1e9 * w->channels * ll128_ring[generation(w)][node_class(w)]);
    double turns = op == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    return bus * w->ranks / (turns * (w->ranks - 1));
}

static double tree_rate(const struct nccl_world *w, enum nccl_protocol protocol)
{
    double bus = fmin(0.92 * ring_bandwidth(w),
                      1e9 * w->channels * tree_channel[generation(w)][node_class(w)]);
    if (protocol == NCCL_LL)
        bus = fmin(bus / 3.8, 1e9 * ll_limit[generation(w)][node_class(w)]);
    if (protocol == NCCL_LL128)
        bus = fmin(bus * (w->nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                   1e9 * w->channels * ll128_tree[generation(w)][node_class(w)]);
    return bus / 2;
}

/* In-network reduction: each byte goes up once and comes down once, full duplex. */
static struct nccl_choice in_network(const struct nccl_world *w, bool nvls)
{
    double local = nvls ? 0.85 * w->intra_bandwidth : w->intra_bandwidth;
    struct nccl_choice c = {.latency = nvls ? 25e-6 : 31e-6, .bandwidth = local};
    if (w->nodes == 1)
        return c;
    double between = w->sharp ? w->inter_bandwidth : w->inter_bandwidth / 2;
    c.latency += w->sharp ? 30e-6 : 2 * log2(w->nodes) * 18e-6;
    c.bandwidth = fmin(local, between);
    return c;
}

struct nccl_choice nccl_cost(const struct nccl_world *world, enum collective_op op, int64_t bytes,
                             enum nccl_algorithm algorithm, enum nccl_protocol protocol)
{
    struct nccl_choice c = {0};
    if (world->ranks > 1 && can_run(world, op, algorithm, protocol)) {
        if (algorithm == NCCL_RING)
            c = (struct nccl_choice){.latency = 1e-6 * ring_latency(world, op, protocol),
                                     .bandwidth = ring_rate(world, op, protocol)};
        else if (algorithm == NCCL_TREE)
            c = (struct nccl_choice){.latency = 1e-6 * tree_latency(world, protocol),
                                     .bandwidth = tree_rate(world, protocol)};
        else
            c = in_network(world, algorithm == NCCL_NVLS);
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
    for (int a = 0; a < NCCL_ALGORITHM_COUNT; a++) {
        for (int p = 0; p < NCCL_PROTOCOL_COUNT; p++) {
            struct nccl_choice c =
                nccl_cost(world, op, bytes, (enum nccl_algorithm)a, (enum nccl_protocol)p);
            if (c.seconds < best.seconds)
                best = c;
        }
    }
    return best;
}
