#include "core/platform/platform.h"

enum { LINK_LIMIT = 100000000 };

static struct link_kind link_kind(const char *name, const struct link_record *record, double count)
{
    struct link_kind kind = {
        .bandwidth = record->bandwidth.value * record->efficiency.value * count,
        .latency = record->latency.value,
    };
    snprintf(kind.name, sizeof(kind.name), "%s", name);
    return kind;
}

int32_t platform_dimensions(const struct platform *platform)
{
    if (platform->kind != PLATFORM_TORUS)
        return platform->kind == PLATFORM_RING;
    return platform->depth.bandwidth.value > 0 ? 3 : 2;
}

struct grid platform_grid(const struct platform *platform, int32_t ranks)
{
    if (platform_dimensions(platform) < 3)
        return grid_nearest_square(ranks);
    int32_t columns = 1;
    for (int32_t divisor = 2; (int64_t)divisor * divisor * divisor <= ranks; divisor++)
        if (ranks % divisor == 0)
            columns = divisor;
    return (struct grid){.columns = columns, .rows = ranks / columns};
}

bool platform_is_even(const struct platform *platform)
{
    const struct tier_record *tier = platform->tiers.item;
    bool even = platform->routing == ROUTING_IDEAL && platform->placement == PLACEMENT_CONTIGUOUS;
    for (int32_t i = 0; i < platform->tiers.count; i++)
        even = even && tier[i].rails == 1;
    return even;
}

static struct link_group link_group(const struct tier_record *tier, bool one_by_one)
{
    char name[FABRIC_NAME_LIMIT];
    snprintf(name, sizeof(name), "%s uplink", tier->name);
    int64_t uplinks = tier->uplinks / tier->rails;
    struct link_group group = {
        .nodes = (int32_t)tier->nodes,
        .uplink = link_kind(name, &tier->uplink, one_by_one ? 1 : (double)uplinks),
        .pipes = one_by_one ? (int32_t)uplinks : 1,
        .rails = (int32_t)tier->rails,
    };
    snprintf(group.name, sizeof(group.name), "%s", tier->name);
    return group;
}

/* The nodes of a job (@nodes), drawn one after the other: a larger job has those of a smaller one.
 * NULL: the first ones.  The caller frees them. */
static int32_t *place_nodes(const struct platform *platform, int32_t nodes)
{
    if (platform->placement == PLACEMENT_CONTIGUOUS)
        return NULL;
    int32_t *place = base_alloc(platform->nodes, sizeof(*place)), all = (int32_t)platform->nodes;
    for (int32_t i = 0; i < all; i++)
        place[i] = i;
    for (int32_t i = 0; i < nodes; i++) {
        double random = base_uniform((uint64_t)platform->placement_seed, (uint64_t)i, 0, 0);
        int32_t chosen = i + (int32_t)(random * (all - i)), node = place[chosen];
        place[chosen] = place[i];
        place[i] = node;
    }
    return place;
}

/* Whether devices have a link to each other.  With CUDA a ring is one: algorithm nccl has the model
 * of several. */
static bool has_mesh(const struct platform *platform, int32_t devices)
{
    const struct wiring *wiring = &platform->wiring;
    AUTOFREE bool *joined = base_alloc((int64_t)devices * devices, sizeof(*joined));
    int32_t pairs = 0, kind = -1;
    for (int32_t c = 0; c < wiring->cable_count; c++) {
        const int32_t *end = wiring->cable[c].end, a = end[0], b = end[1];
        if (a >= devices || b >= devices)
            continue;
        if (kind >= 0 && wiring->cable[c].kind != kind)
            return false;
        kind = wiring->cable[c].kind;
        pairs += !joined[a * devices + b];
        joined[a * devices + b] = joined[b * devices + a] = true;
    }
    return platform->device.compute_capability == 0 && devices > 2 &&
           pairs == devices * (devices - 1) / 2;
}

static struct fabric *lay_cluster(const struct platform *platform, int32_t nodes,
                                  int32_t devices_per_node)
{
    struct link_kind cable[FABRIC_TIER_LIMIT];
    struct link_group group[FABRIC_TIER_LIMIT];
    const struct link_record *link = platform->node.links.item;
    const struct tier_record *tier = platform->tiers.item;
    for (int32_t i = 0; i < platform->node.links.count; i++)
        cable[i] = link_kind(link[i].name, &link[i], 1);
    for (int32_t i = 0; i < platform->tiers.count; i++)
        group[i] = link_group(&tier[i], platform->routing != ROUTING_IDEAL);
    AUTOFREE int32_t *place = place_nodes(platform, nodes);
    struct cluster_plan plan = {
        .nodes = nodes,
        .devices_per_node = devices_per_node,
        .wiring = &platform->wiring,
        .cable = cable,
        .cable_count = platform->node.links.count,
        .nic = link_kind("nic", &platform->nic, 1),
        .group = group,
        .group_count = platform->tiers.count,
        .routing = (enum routing)platform->routing,
        .routing_seed = platform->routing_seed,
        .place = place,
        .latency_inside = platform->transport.inside.value,
        .latency_between = platform->transport.between.value,
    };
    struct fabric *fabric = fabric_lay_cluster(&plan);
    fabric->nccl = platform_nccl(platform, fabric);
    fabric->eager = platform->transport.eager.value;
    fabric->mesh = has_mesh(platform, devices_per_node);
    return fabric;
}

/* Links of a fabric of @nodes nodes, or more. */
static int64_t count_links(const struct platform *platform, int32_t nodes)
{
    const struct wiring *wiring = &platform->wiring;
    const struct tier_record *tier = platform->tiers.item;
    int64_t links = (int64_t)nodes * 2 * (wiring->cable_count + wiring->count[VERTEX_NIC]);
    int64_t last = platform->placement == PLACEMENT_SCATTERED ? platform->nodes : nodes;
    for (int32_t i = 0; i < platform->tiers.count && platform->routing != ROUTING_IDEAL; i++)
        links += 2 * ((last - 1) / tier[i].nodes + 1) * tier[i].uplinks;
    return links;
}

static int check_cluster(const struct platform *platform, int32_t nodes, int32_t devices_per_node,
                         struct err *err)
{
    int32_t devices = platform_devices_per_node(platform);
    if (devices_per_node > devices)
        return err_add(err, "a node of platform %s has only %d device%s, not %d", platform->name,
                       devices, base_plural(devices), devices_per_node);
    if (nodes > platform->nodes)
        return err_add(
            err,
            "platform %s has only %lld node%s, not %d; what if it had: --set platform.nodes=%d",
            platform->name, (long long)platform->nodes, base_plural(platform->nodes), nodes, nodes);
    int64_t links = count_links(platform, nodes);
    if (links > LINK_LIMIT)
        return err_add(err, "%d nodes of platform %s have %lld links; at most %d are supported",
                       nodes, platform->name, (long long)links, LINK_LIMIT);
    return 0;
}

static struct fabric *lay_torus(const struct platform *platform, struct grid grid)
{
    struct link_kind kind[FABRIC_DIMENSION_LIMIT] = {
        link_kind("row link", &platform->row, 1),
        link_kind("column link", &platform->column, 1),
        link_kind("depth link", &platform->depth, 1),
    };
    if (platform->kind == PLATFORM_RING)
        kind[0] = link_kind("ring link", &platform->ring, 1);
    int32_t dimensions = platform_dimensions(platform), extent[FABRIC_DIMENSION_LIMIT] = {0};
    struct fabric *fabric =
        fabric_lay_torus(grid, dimensions, kind, platform->transport.between.value);
    fabric_torus_extents(grid, dimensions, extent);
    if (platform->device.links.kind >= LINKS_TORUS2D) { /* both ways of each dimension */
        fabric->row_rings = 2 * (extent[0] > 1);
        fabric->column_rings = 2 * ((extent[1] > 1) + (extent[2] > 1));
    }
    return fabric;
}

static int check_torus(const struct platform *platform, int32_t nodes, int32_t devices_per_node,
                       struct grid grid, struct err *err)
{
    const char *shape = platform_kind_names[platform->kind];
    if (devices_per_node != 1)
        return err_add(err, "platform %s is a %s with one device per node, not %d", platform->name,
                       shape, devices_per_node);
    if ((int64_t)grid.columns * grid.rows != nodes)
        return err_add(err, "a grid of %d x %d does not lay out the %d nodes of platform %s",
                       grid.columns, grid.rows, nodes, platform->name);
    int32_t longest = 0, dimensions = platform_dimensions(platform);
    int32_t extent[FABRIC_DIMENSION_LIMIT];
    fabric_torus_extents(grid, dimensions, extent);
    for (int32_t d = 0; d < dimensions; d++)
        longest += extent[d] / 2;
    if (longest > FABRIC_ROUTE_LIMIT)
        return err_add(err, "a %s of %d nodes has routes of %d links; at most %d are supported",
                       shape, nodes, longest, FABRIC_ROUTE_LIMIT);
    return 0;
}

int platform_check_extent(const struct platform *platform, int32_t nodes, int32_t devices_per_node,
                          struct grid grid, struct err *err)
{
    assert(nodes >= 1 && devices_per_node >= 1);
    return platform->kind == PLATFORM_CLUSTER
               ? check_cluster(platform, nodes, devices_per_node, err)
               : check_torus(platform, nodes, devices_per_node, grid, err);
}

struct fabric *platform_fabric(const struct platform *platform, int32_t nodes,
                               int32_t devices_per_node, struct grid grid, struct err *err)
{
    if (platform_check_extent(platform, nodes, devices_per_node, grid, err))
        return NULL;
    return platform->kind == PLATFORM_CLUSTER ? lay_cluster(platform, nodes, devices_per_node)
                                              : lay_torus(platform, grid);
}
