#include "core/network/nccl_fabric.h"
#include "core/platform/platform.h"

/* One direction of one cable. */
static double cable_bandwidth(const struct platform *platform, int32_t cable)
{
    const struct link_record *link = platform->node.links.item;
    link += platform->wiring.cable[cable].kind;
    return link->bandwidth.value * link->efficiency.value;
}

/* The narrowest cable on the way from @device to @nic. */
static double way_out(const struct platform *platform, int32_t device, int32_t nic, int32_t *path)
{
    int32_t count = wiring_path(&platform->wiring, device,
                                wiring_first(&platform->wiring, VERTEX_NIC) + nic, path);
    double narrowest = INFINITY;
    for (int32_t i = 0; i < count; i++)
        narrowest = fmin(narrowest, cable_bandwidth(platform, path[i] / 2));
    return narrowest;
}

/* The bandwidth of one card with its cable. */
static double card_bandwidth(const struct platform *platform, int32_t nic)
{
    const struct wiring *wiring = &platform->wiring;
    int32_t vertex = wiring_first(wiring, VERTEX_NIC) + nic;
    double bandwidth = platform->nic.bandwidth.value * platform->nic.efficiency.value;
    for (int32_t c = 0; c < wiring->cable_count; c++)
        if (wiring->cable[c].end[0] == vertex || wiring->cable[c].end[1] == vertex)
            return fmin(bandwidth, cable_bandwidth(platform, c));
    return bandwidth;
}

/* What @device sends to the others of its node, which all rings together pass: over the cable to
 * the card at @nic only where there is no other. */
static double links_of(const struct platform *platform, int32_t device, int32_t devices,
                       int32_t nic, int32_t *path)
{
    const struct wiring *wiring = &platform->wiring;
    int32_t first_nic = wiring_first(wiring, VERTEX_NIC);
    AUTOFREE bool *seen = base_alloc(wiring->cable_count, sizeof(*seen));
    AUTOFREE int32_t *arrived = base_alloc(wiring_vertices(wiring), sizeof(*arrived));
    wiring_explore(wiring, device, arrived);
    bool leaves = nic >= 0 && wiring_follow(wiring, arrived, device, first_nic + nic, path) > 0;
    int32_t out = leaves ? path[0] / 2 : -1;
    double sum = 0;
    for (int32_t other = 0; other < devices; other++) {
        if (other == device || wiring_follow(wiring, arrived, device, other, path) < 1)
            continue;
        int32_t cable = path[0] / 2;
        sum += cable != out && !seen[cable] ? cable_bandwidth(platform, cable) : 0;
        seen[cable] = true;
    }
    return sum > 0 || out < 0 ? sum : cable_bandwidth(platform, out);
}

/* Bandwidth of all rings of a node: that of a device's links, at most what the platform says. */
static double inside_bandwidth(const struct platform *platform, int32_t devices)
{
    const struct wiring *wiring = &platform->wiring;
    double said = platform->nccl.intra_bandwidth.value, bandwidth = said > 0 ? said : INFINITY;
    devices = said > 0 ? devices : wiring->count[VERTEX_DEVICE];
    AUTOFREE int32_t *nic = base_alloc(wiring->count[VERTEX_DEVICE], sizeof(*nic));
    AUTOFREE int32_t *path = base_alloc(wiring_vertices(wiring), sizeof(*path));
    wiring_assign_nics(wiring, nic);
    for (int32_t d = 0; d < devices && devices > 1; d++)
        bandwidth = fmin(bandwidth, links_of(platform, d, devices, nic[d], path));
    return bandwidth;
}

/* Bandwidth of the devices out of a node: at most that of its network cards, and at most that of
 * the paths to them.  A card that would get less than half of its bandwidth stays idle. */
static void leave_node(const struct platform *platform, int32_t devices, struct nccl_world *world)
{
    const struct wiring *wiring = &platform->wiring;
    AUTOFREE int32_t *nic = base_alloc(wiring->count[VERTEX_DEVICE], sizeof(*nic));
    AUTOFREE int32_t *path = base_alloc(wiring_vertices(wiring), sizeof(*path));
    wiring_assign_nics(wiring, nic);
    double fed = 0, cards = 0;
    for (int32_t d = 0; d < devices; d++)
        fed += way_out(platform, d, nic[d], path);
    for (int32_t n = 0; n < wiring->count[VERTEX_NIC]; n++) {
        double card = card_bandwidth(platform, n);
        if (n > 0 && fed - cards < card / 2)
            break;
        cards += card;
        world->inter_channels++;
    }
    world->inter_bandwidth = fmin(fed, cards);
}

static bool has_nvswitch(const struct platform *platform)
{
    const struct wiring *wiring = &platform->wiring;
    int32_t devices = wiring->count[VERTEX_DEVICE];
    for (int32_t c = 0; c < wiring->cable_count; c++)
        if (wiring->cable[c].end[0] < devices && wiring->cable[c].end[1] < devices)
            return false;
    return platform->nccl.intra == NCCL_NVLINK;
}

/* The mean time of a message from a device to the next one of its node [s]. */
static double inside_latency(const struct fabric *fabric)
{
    double sum = 0;
    struct route route;
    for (int32_t d = 0; d + 1 < fabric->devices_per_node; d++) {
        fabric_route(fabric, d, d + 1, &route);
        sum += route.latency;
    }
    return fabric->devices_per_node > 1 ? sum / (fabric->devices_per_node - 1) : 0;
}

/* From a node that is the last of its group to the first node of the next one. */
static double latency_across(const struct fabric *fabric, int32_t nodes)
{
    int32_t first = nodes * fabric->devices_per_node;
    if (first >= fabric->ranks)
        return 0;
    struct route route;
    fabric_route(fabric, first - 1, first, &route);
    return route.latency;
}

static void add_levels(const struct platform *platform, const struct fabric *fabric,
                       struct nccl_world *world)
{
    world->inside_latency = inside_latency(fabric);
    nccl_add_level(world, 1, INFINITY, latency_across(fabric, 1));
    const struct tier_record *tier = platform->tiers.item;
    for (int32_t i = 0; i < platform->tiers.count; i++)
        nccl_add_level(world, (int32_t)tier[i].nodes,
                       (double)tier[i].uplinks * tier[i].uplink.bandwidth.value *
                           tier[i].uplink.efficiency.value,
                       latency_across(fabric, (int32_t)tier[i].nodes));
}

/* NCCL's messages on a fabric whose routes are not all alike. */
struct census {
    const struct fabric *fabric;
    int32_t channels;
    int32_t *device;    /* (channels) of a node, whose card a channel uses */
    int32_t *crossings; /* (links) messages over each */
};

/* Count one message of each channel.  @return the highest level that they leave. */
static int32_t count_hop(struct census *census, int32_t from, int32_t to, double *latency)
{
    const struct fabric *fabric = census->fabric;
    int32_t highest = 0;
    for (int32_t c = 0; c < census->channels; c++) {
        struct route route;
        fabric_route(fabric, from * fabric->devices_per_node + census->device[c],
                     to * fabric->devices_per_node + census->device[c], &route);
        for (int32_t i = 0; i < route.count; i++) {
            int32_t level = fabric->link[route.link[i]].tier - fabric->nic_tier;
            highest = level > highest ? level : highest;
            census->crossings[route.link[i]]++;
        }
        *latency = route.latency;
    }
    return highest;
}

/* How often the vector passes the uplinks of @level if all were as busy as the busiest one. Forgets
 * the messages over them. */
static double passes(struct census *census, const struct nccl_world *world, int32_t level)
{
    const struct fabric *fabric = census->fabric;
    double longest = 0;
    for (int32_t l = 0; l < fabric->link_count; l++)
        if (fabric->link[l].tier == fabric->nic_tier + level) {
            longest = fmax(longest, census->crossings[l] / fabric->link[l].bandwidth);
            census->crossings[l] = 0;
        }
    return longest * world->level[level].bandwidth / census->channels;
}

static void count_ring(struct census *census, struct nccl_world *world)
{
    for (int32_t i = 0; i < world->level_count; i++)
        world->level[i].groups = 0;
    for (int32_t node = 0; node < world->nodes; node++) {
        double latency;
        int32_t highest = count_hop(census, node, (node + 1) % world->nodes, &latency);
        struct nccl_level *level = &world->level[highest];
        level->latency = level->groups > 0 ? fmin(level->latency, latency) : latency;
        for (int32_t i = 0; i <= highest; i++)
            world->level[i].groups++;
    }
    for (int32_t i = 1; i < world->level_count; i++) {
        world->level[i].ring_passes = passes(census, world, i);
        if (world->level[i].groups == 0)
            world->level[i].groups = 1;
    }
}

static void count_trees(struct census *census, struct nccl_world *world)
{
    double latency;
    for (int32_t i = 0; i < 2 * world->nodes; i++) {
        int32_t parent = nccl_tree_parent(world->nodes, i / 2, i % 2);
        if (parent < 0)
            continue;
        count_hop(census, i / 2, parent, &latency);
        count_hop(census, parent, i / 2, &latency);
    }
    for (int32_t i = 1; i < world->level_count; i++)
        world->level[i].tree_passes = passes(census, world, i) / 2;
}

/* Where each route takes one of several uplinks, or nodes do not stand in order. */
static void follow_routes(const struct platform *platform, const struct fabric *fabric,
                          struct nccl_world *world)
{
    struct census census = {
        .fabric = fabric,
        .channels = world->inter_channels,
        .device = base_alloc(world->inter_channels, sizeof(*census.device)),
        .crossings = base_alloc(fabric->link_count, sizeof(*census.crossings)),
    };
    int32_t devices = fabric->devices_per_node;
    AUTOFREE int32_t *nic = base_alloc(platform->wiring.count[VERTEX_DEVICE], sizeof(*nic));
    wiring_assign_nics(&platform->wiring, nic);
    for (int32_t c = 0; c < census.channels; c++) {
        int32_t device = 0;
        while (device < devices && nic[device] != c)
            device++;
        census.device[c] = device < devices ? device : c % devices;
    }
    count_ring(&census, world);
    count_trees(&census, world);
    free(census.device);
    free(census.crossings);
}

struct nccl_world platform_nccl(const struct platform *platform, const struct fabric *fabric)
{
    int32_t devices_per_node = fabric->devices_per_node, nodes = fabric->ranks / devices_per_node;
    if (platform->nccl.channels == 0)
        return (struct nccl_world){0};
    struct nccl_world world = {
        .version = platform->nccl.version ? (int32_t)platform->nccl.version : NCCL_VERSION_DEFAULT,
        .ranks = fabric->ranks,
        .nodes = nodes,
        .intra = (enum nccl_intra)platform->nccl.intra,
        .compute_capability = (int32_t)platform->device.compute_capability,
        .nvswitch = has_nvswitch(platform),
        .sharp = platform->nccl.sharp,
        .channels = (int32_t)platform->nccl.channels,
        .intra_bandwidth = inside_bandwidth(platform, devices_per_node),
        .correction = platform->nccl.corrections.item,
        .correction_count = platform->nccl.corrections.count,
    };
    if (nodes > 1)
        leave_node(platform, devices_per_node, &world);
    add_levels(platform, fabric, &world);
    if (nodes > 1 && !platform_is_even(platform))
        follow_routes(platform, fabric, &world);
    return world;
}

int platform_check_nccl(const struct platform *platform, struct err *err)
{
    bool amd = platform->device.links.kind == LINKS_XGMI;
    if (amd || (platform->nccl.channels == 0 && platform->device.compute_capability == 0))
        return err_add(err,
                       "%s: error: device %s runs %s: choose %s, or another of 'foretrain list "
                       "algorithms'",
                       platform->file, platform->device.name,
                       amd ? "RCCL, whose algorithms are not modelled, in place of NCCL"
                           : "no NCCL (its file has no compute_capability)",
                       platform->kind == PLATFORM_TORUS
                           ? "torus2d"
                           : "ring, without parallel.sharding with allreduce.channels=all, "
                             "a ring by each device");
    if (platform->nccl.channels == 0)
        return err_add(err,
                       "%s: error: algorithm nccl needs the section 'nccl', with the keys intra, "
                       "channels and sharp; platform %s has none",
                       platform->file, platform->name);
    if (platform->device.compute_capability == 0)
        return err_add(err,
                       "%s: error: algorithm nccl needs the key 'compute_capability' in the file "
                       "of device %s",
                       platform->file, platform->device.name);
    return 0;
}

double platform_staging(const struct platform *platform)
{
    int64_t nics = platform->node.count[VERTEX_NIC];
    if (nics < 1 || nics >= platform->node.count[VERTEX_DEVICE])
        return 1;
    double carried = (double)nics * platform->nic.bandwidth.value * platform->nic.efficiency.value;
    return fmin(1, NCCL_SOCKETS_BANDWIDTH / carried);
}
