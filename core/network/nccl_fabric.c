#include "core/network/nccl_fabric.h"

#include "core/base/base.h"

int32_t nccl_levels(int32_t n)
{
    int32_t levels = 0;
    while (n >>= 1)
        levels++;
    return levels;
}

int32_t nccl_tree_parent(int32_t nodes, int32_t node, bool second)
{
    bool mirrored = second && nodes % 2 == 0, shifted = second && nodes % 2 == 1;
    int32_t at = mirrored ? nodes - 1 - node : shifted ? (node + nodes - 1) % nodes : node;
    if (at == 0)
        return -1;
    int32_t bit = at & -at;
    int32_t up = (at ^ bit) | 2 * bit;
    if (up >= nodes)
        up = at ^ bit;
    return mirrored ? nodes - 1 - up : shifted ? (up + 1) % nodes : up;
}

static int32_t most_tree_edges(int32_t nodes, int32_t group)
{
    int32_t *edges = base_alloc((nodes - 1) / group + 1, sizeof(*edges)), most = 0;
    for (int32_t i = 0; i < 2 * nodes; i++) {
        int32_t node = i / 2, parent = nccl_tree_parent(nodes, node, i % 2);
        if (parent < 0 || parent / group == node / group)
            continue;
        edges[node / group]++;
        edges[parent / group]++;
    }
    for (int32_t i = 0; i * group < nodes; i++)
        most = edges[i] > most ? edges[i] : most;
    free(edges);
    return most;
}

void nccl_add_level(struct nccl_world *world, int32_t nodes, double bandwidth, double latency)
{
    assert(world->level_count < NCCL_LEVEL_LIMIT);
    world->level[world->level_count++] =
        (struct nccl_level){.nodes = nodes,
                            .groups = (world->nodes - 1) / nodes + 1,
                            .bandwidth = bandwidth,
                            .latency = latency,
                            .ring_passes = 1,
                            .tree_passes = most_tree_edges(world->nodes, nodes) / 2.};
}

struct nccl_world nccl_part(const struct nccl_world *world, struct grid_nodes part)
{
    struct nccl_world column = *world;
    int32_t beside = world->ranks / world->nodes / part.each, nodes = part.nodes;
    column.ranks = part.each * nodes;
    column.nodes = nodes;
    column.nvswitch = part.each > 1 && world->nvswitch;
    column.level_count = nodes > 1 ? world->level_count : 0;
    column.inter_bandwidth /= beside;
    column.inter_channels = (world->inter_channels - 1) / beside + 1;
    for (int32_t i = 0; i < column.level_count; i++) {
        struct nccl_level *level = &column.level[i];
        int32_t between = part.apart < level->nodes ? part.apart : level->nodes;
        level->bandwidth /= beside * between;
        if (nodes == world->nodes)
            continue;
        level->nodes /= between;
        level->groups = (nodes - 1) / level->nodes + 1;
        level->tree_passes = most_tree_edges(nodes, level->nodes) / 2.;
    }
    return column;
}

/* Groups in use; beyond the highest level all nodes are in one. */
static int32_t groups(const struct nccl_world *w, int32_t level)
{
    return level < w->level_count ? w->level[level].groups : 1;
}

static double excess(double latency, double hop)
{
    return fmax(1e6 * latency - hop, 0);
}

double nccl_more_inside(const struct nccl_world *w, double hop)
{
    return excess(w->inside_latency, hop);
}

double nccl_more_of_ring(const struct nccl_world *w, double hop)
{
    double more = 0;
    for (int32_t i = 0; i < w->level_count && w->level[i].groups > 1; i++) {
        int32_t above = groups(w, i + 1);
        int32_t hops = w->level[i].groups - (above > 1 ? above : 0);
        more += hops * excess(w->level[i].latency, hop) / w->nodes;
    }
    return more;
}

/* Levels of a tree over the nodes above those inside the groups, which are neighbours. */
static int32_t levels_outside(const struct nccl_world *w, int32_t level)
{
    int32_t all = nccl_levels(w->nodes), outside = nccl_levels(2 * groups(w, level) - 1);
    return outside < all ? outside : all;
}

double nccl_more_of_tree(const struct nccl_world *w, double hop)
{
    double more = 0;
    for (int32_t i = 0; i < w->level_count; i++)
        more +=
            (levels_outside(w, i) - levels_outside(w, i + 1)) * excess(w->level[i].latency, hop);
    return more;
}

double nccl_more_of_longest(const struct nccl_world *w, double hop)
{
    double more = 0;
    for (int32_t i = 0; i < w->level_count && w->level[i].groups > 1; i++)
        more = excess(w->level[i].latency, hop);
    return more;
}

double nccl_uplink_rate(const struct nccl_world *w, int32_t turns, enum nccl_algorithm algorithm)
{
    double rate = INFINITY;
    bool in_switches = algorithm == NCCL_COLLNET || (algorithm == NCCL_NVLS && w->sharp);
    for (int32_t i = 0; i < w->level_count && w->level[i].groups > 1; i++) {
        const struct nccl_level *level = &w->level[i];
        double passes = in_switches ? 1
                        : algorithm == NCCL_RING
                            ? turns * (w->ranks - 1.) / w->ranks * level->ring_passes
                            : level->tree_passes;
        rate = fmin(rate, level->bandwidth / passes);
    }
    return rate;
}
