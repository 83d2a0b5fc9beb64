#include "core/network/fabric.h"

/* A path inside any node: links as offsets from the node's first link. */
struct way {
    double latency;
    int32_t begin, count; /* in layout.pool */
};

/* Groups of one level: nodes and switches in each, uplinks of a switch, id of the first link. */
struct level {
    char name[FABRIC_NAME_LIMIT];
    int32_t nodes, rails, pipes;
    int32_t first;
    double latency;
};

struct layout {
    struct grid grid;      /* of a cluster: for the order */
    enum rank_order order; /* of a cluster */
    int32_t dimensions;    /* 0: a cluster */
    int32_t extent[FABRIC_DIMENSION_LIMIT];
    double hop_latency[FABRIC_DIMENSION_LIMIT];
    double latency_inside, latency_between;
    int32_t node_links;    /* links of one node */
    char **node_link_name; /* (node_links) */
    int32_t *pool;
    int32_t pool_count;
    int64_t pool_capacity;
    struct way *inside;   /* (devices, devices) */
    struct way *out, *in; /* (devices) to and from the network, with the NIC's own link */
    int32_t *nic;         /* (devices) of the wiring, where there are several nodes */
    int32_t nics;         /* of a node */
    int32_t *place;       /* (nodes) */
    enum routing routing;
    uint64_t routing_seed;
    struct level level[FABRIC_TIER_LIMIT];
    int32_t level_count;
};

/* The links of a rank: two of each dimension. */
static const char *const direction_names[] = {"row.next",        "row.previous", "column.next",
                                              "column.previous", "depth.next",   "depth.previous"};
static_assert(ARRAY_SIZE(direction_names) == 2 * FABRIC_DIMENSION_LIMIT, "one name each");

const char *const routing_names[] = {"ideal", "static", "hashed", NULL};
static_assert(ARRAY_SIZE(routing_names) == ROUTING_COUNT + 1, "one name each");

static struct fabric *new_fabric(int32_t ranks, int32_t devices_per_node, int32_t links)
{
    struct fabric *fabric = base_alloc(1, sizeof(*fabric));
    *fabric = (struct fabric){
        .ranks = ranks,
        .devices_per_node = devices_per_node,
        .link_count = links,
        .link = base_alloc(links, sizeof(struct link)),
        .layout = base_alloc(1, sizeof(struct layout)),
    };
    return fabric;
}

static int32_t add_tier(struct fabric *fabric, const char *name)
{
    assert(fabric->tier_count < FABRIC_TIER_LIMIT);
    snprintf(fabric->tier_name[fabric->tier_count], FABRIC_NAME_LIMIT, "%s", name);
    return fabric->tier_count++;
}

/* --- torus and ring --- */

void fabric_torus_extents(struct grid grid, int32_t dimensions, int32_t *extent)
{
    struct grid planes = dimensions == 3 ? grid_nearest_square(grid.rows)
                                         : (struct grid){.columns = grid.rows, .rows = 1};
    const int32_t size[] = {dimensions == 1 ? grid_ranks(grid) : grid.columns, planes.columns,
                            planes.rows};
    memcpy(extent, size, (size_t)dimensions * sizeof(*extent));
}

struct fabric *fabric_lay_torus(struct grid grid, int32_t dimensions, const struct link_kind *kind,
                                double latency)
{
    int32_t ranks = grid_ranks(grid), per_rank = 2 * dimensions;
    struct fabric *fabric = new_fabric(ranks, 1, ranks * per_rank);
    struct layout *layout = fabric->layout;
    layout->dimensions = dimensions;
    layout->latency_between = latency;
    fabric_torus_extents(grid, dimensions, layout->extent);
    for (int32_t d = 0; d < dimensions; d++) {
        layout->hop_latency[d] = kind[d].latency;
        add_tier(fabric, kind[d].name);
    }
    for (int32_t i = 0; i < fabric->link_count; i++) {
        int32_t d = i % per_rank / 2;
        fabric->link[i] = (struct link){.bandwidth = kind[d].bandwidth, .tier = d};
    }
    assert(fabric_check(fabric));
    return fabric;
}

/* Hops from place @a to @b on a circle of @size; negative: backwards. */
static int32_t turn(int32_t a, int32_t b, int32_t size)
{
    int32_t forward = (b - a + size) % size;
    return 2 * forward <= size ? forward : forward - size;
}

/* Dimension after dimension, of which ranks @stride apart are neighbours. */
static void route_torus(const struct layout *layout, int32_t from, int32_t to, struct route *route)
{
    int32_t at = from, stride = 1;
    route->latency = layout->latency_between;
    for (int32_t d = 0; d < layout->dimensions; d++) {
        int32_t size = layout->extent[d], place = at / stride % size;
        int32_t hops = turn(place, to / stride % size, size), step = hops < 0 ? -1 : 1;
        for (; hops != 0; hops -= step) {
            assert(route->count < FABRIC_ROUTE_LIMIT);
            route->link[route->count++] = at * 2 * layout->dimensions + 2 * d + (step < 0);
            route->latency += layout->hop_latency[d];
            int32_t next = (place + step + size) % size;
            at += (next - place) * stride;
            place = next;
        }
        stride *= size;
    }
}

/* --- cluster --- */

static void make_room(struct layout *layout, int32_t count)
{
    layout->pool = base_grow(layout->pool, layout->pool_count + count, &layout->pool_capacity,
                             sizeof(*layout->pool));
}

/* @arrived is what wiring_explore() found from @from. */
static struct way add_way(struct layout *layout, const struct cluster_plan *plan,
                          const int32_t *arrived, int32_t from, int32_t to)
{
    struct way way = {.begin = layout->pool_count};
    make_room(layout, wiring_vertices(plan->wiring));
    way.count = wiring_follow(plan->wiring, arrived, from, to, layout->pool + way.begin);
    assert(way.count >= 0);
    for (int32_t i = 0; i < way.count; i++) {
        int32_t cable = layout->pool[way.begin + i] / 2;
        way.latency += plan->cable[plan->wiring->cable[cable].kind].latency;
    }
    layout->pool_count += way.count;
    return way;
}

/* The links of a node: two a cable, then up and down of each NIC. */
static int32_t nic_link(const struct wiring *wiring, int32_t nic, int32_t down)
{
    return 2 * (wiring->cable_count + nic) + down;
}

/* From @device to the network through @nic, or from there @in. */
static struct way add_way_to_network(struct layout *layout, const struct cluster_plan *plan,
                                     int32_t *arrived, int32_t device, int32_t nic, bool in)
{
    int32_t card = wiring_first(plan->wiring, VERTEX_NIC) + nic;
    struct way way;
    wiring_explore(plan->wiring, in ? card : device, arrived);
    if (!in)
        way = add_way(layout, plan, arrived, device, card);
    make_room(layout, 1);
    layout->pool[layout->pool_count++] = nic_link(plan->wiring, nic, in);
    if (in)
        way = add_way(layout, plan, arrived, card, device);
    way.begin -= in;
    way.count++;
    way.latency += plan->nic.latency;
    return way;
}

static void add_ways_to_network(struct layout *layout, const struct cluster_plan *plan,
                                int32_t *arrived)
{
    const struct wiring *wiring = plan->wiring;
    layout->nic = base_alloc(wiring->count[VERTEX_DEVICE], sizeof(*layout->nic));
    wiring_assign_nics(wiring, layout->nic);
    for (int32_t d = 0; d < plan->devices_per_node; d++) {
        layout->out[d] = add_way_to_network(layout, plan, arrived, d, layout->nic[d], false);
        layout->in[d] = add_way_to_network(layout, plan, arrived, d, layout->nic[d], true);
    }
}

static void add_ways(struct layout *layout, const struct cluster_plan *plan)
{
    int32_t devices = plan->devices_per_node;
    AUTOFREE int32_t *arrived = base_alloc(wiring_vertices(plan->wiring), sizeof(*arrived));
    layout->inside = base_alloc((int64_t)devices * devices, sizeof(struct way));
    layout->out = base_alloc(devices, sizeof(struct way));
    layout->in = base_alloc(devices, sizeof(struct way));
    for (int32_t a = 0; a < devices; a++) {
        wiring_explore(plan->wiring, a, arrived);
        for (int32_t b = 0; b < devices; b++)
            layout->inside[a * devices + b] = add_way(layout, plan, arrived, a, b);
    }
    if (plan->nodes > 1)
        add_ways_to_network(layout, plan, arrived);
}

static void name_node_links(struct layout *layout, const struct wiring *wiring)
{
    layout->node_link_name = base_alloc(layout->node_links, sizeof(char *));
    for (int32_t i = 0; i < 2 * wiring->cable_count; i++) {
        const struct cable *cable = &wiring->cable[i / 2];
        struct text name = {0};
        wiring_print_vertex(&name, wiring, cable->end[i % 2]);
        text_add(&name, "-");
        wiring_print_vertex(&name, wiring, cable->end[1 - i % 2]);
        layout->node_link_name[i] = name.data;
    }
    for (int32_t nic = 0; nic < wiring->count[VERTEX_NIC]; nic++)
        for (int32_t down = 0; down < 2; down++)
            layout->node_link_name[nic_link(wiring, nic, down)] =
                base_format("nic%d.%s", nic, down ? "down" : "up");
}

/* Tiers are numbered: kinds of cable, the NIC, the groups from the bottom up. */
static void fill_node_links(struct fabric *fabric, const struct cluster_plan *plan)
{
    const struct layout *layout = fabric->layout;
    for (int32_t i = 0; i < plan->nodes * layout->node_links; i++) {
        int32_t cable = i % layout->node_links / 2;
        int32_t tier =
            cable < plan->wiring->cable_count ? plan->wiring->cable[cable].kind : plan->cable_count;
        double bandwidth =
            tier < plan->cable_count ? plan->cable[tier].bandwidth : plan->nic.bandwidth;
        fabric->link[i] = (struct link){.bandwidth = bandwidth, .tier = tier};
    }
}

static int32_t at_least_one(int32_t count)
{
    return count > 1 ? count : 1;
}

/* Links of all groups up to the last one in use. */
static int32_t uplinks(const struct cluster_plan *plan, int32_t level)
{
    const struct link_group *group = &plan->group[level];
    int32_t last = plan->nodes - 1;
    for (int32_t i = 0; i < plan->nodes && plan->place; i++)
        last = plan->place[i] > last ? plan->place[i] : last;
    return 2 * (last / group->nodes + 1) * at_least_one(group->rails) * at_least_one(group->pipes);
}

static void add_level(struct fabric *fabric, const struct cluster_plan *plan, int32_t level,
                      int32_t first)
{
    struct layout *layout = fabric->layout;
    const struct link_group *group = &plan->group[level];
    struct level *l = &layout->level[layout->level_count++];
    *l = (struct level){.nodes = group->nodes,
                        .rails = at_least_one(group->rails),
                        .pipes = at_least_one(group->pipes),
                        .first = first,
                        .latency = group->uplink.latency};
    memcpy(l->name, group->name, sizeof(l->name));
    fabric->chooses = fabric->chooses || l->pipes > 1;
    int32_t tier = add_tier(fabric, group->uplink.name);
    for (int32_t i = 0; i < uplinks(plan, level); i++)
        fabric->link[first + i] = (struct link){.bandwidth = group->uplink.bandwidth, .tier = tier};
}

struct fabric *fabric_lay_cluster(const struct cluster_plan *plan)
{
    const struct wiring *wiring = plan->wiring;
    int32_t node_links = 2 * (wiring->cable_count + wiring->count[VERTEX_NIC]);
    int32_t links = plan->nodes * node_links;
    for (int32_t i = 0; i < plan->group_count; i++)
        links += uplinks(plan, i);
    struct fabric *fabric =
        new_fabric(plan->nodes * plan->devices_per_node, plan->devices_per_node, links);
    struct layout *layout = fabric->layout;
    layout->latency_inside = plan->latency_inside;
    layout->latency_between = plan->latency_between;
    layout->node_links = node_links;
    layout->nics = wiring->count[VERTEX_NIC];
    layout->routing = plan->routing;
    layout->routing_seed = (uint64_t)plan->routing_seed;
    layout->place = base_alloc(plan->nodes, sizeof(*layout->place));
    for (int32_t i = 0; i < plan->nodes; i++)
        layout->place[i] = plan->place ? plan->place[i] : i;
    for (int32_t i = 0; i < plan->cable_count; i++)
        add_tier(fabric, plan->cable[i].name);
    fabric->nic_tier = add_tier(fabric, plan->nic.name);
    fill_node_links(fabric, plan);
    name_node_links(layout, wiring);
    add_ways(layout, plan);
    int32_t first = plan->nodes * node_links;
    for (int32_t i = 0; i < plan->group_count; i++) {
        add_level(fabric, plan, i, first);
        first += uplinks(plan, i);
    }
    assert(fabric_check(fabric));
    return fabric;
}

static void follow(const struct layout *layout, const struct way *way, int32_t node,
                   struct route *route)
{
    assert(route->count + way->count <= FABRIC_ROUTE_LIMIT);
    for (int32_t i = 0; i < way->count; i++)
        route->link[route->count++] = node * layout->node_links + layout->pool[way->begin + i];
    route->latency += way->latency;
}

/* Where a device meets the network: its own number, and its NIC's, among those of all places. */
struct port {
    int32_t device, nic;
    int32_t node;
};

static struct port port_of(const struct layout *layout, int32_t devices, int32_t at)
{
    int32_t device = at % devices, node = layout->place[at / devices];
    return (struct port){
        .device = node * devices + device,
        .nic = node * layout->nics + layout->nic[device],
        .node = node,
    };
}

static int32_t switch_of(const struct layout *layout, const struct level *level, struct port port)
{
    return port.node / level->nodes * level->rails + port.nic % layout->nics % level->rails;
}

/* Which of the pipes of a switch a message takes. */
static int32_t choose_pipe(const struct layout *layout, int32_t level, struct port from,
                           struct port to)
{
    int32_t pipes = layout->level[level].pipes;
    if (layout->routing != ROUTING_HASHED)
        return to.nic % pipes;
    return (int32_t)(base_uniform(layout->routing_seed, (uint64_t)from.device, (uint64_t)to.device,
                                  (uint64_t)level) *
                     pipes);
}

/* Up to the lowest switch both ports share, and down again. */
static void cross(const struct layout *layout, struct port from, struct port to,
                  struct route *route)
{
    int32_t top = 0, pipe[FABRIC_TIER_LIMIT];
    for (; top < layout->level_count; top++) {
        const struct level *level = &layout->level[top];
        int32_t below = switch_of(layout, level, from);
        if (below == switch_of(layout, level, to))
            break;
        pipe[top] = choose_pipe(layout, top, from, to);
        route->link[route->count++] = level->first + 2 * (below * level->pipes + pipe[top]);
        route->latency += 2 * level->latency;
    }
    while (top-- > 0) {
        const struct level *level = &layout->level[top];
        int32_t below = switch_of(layout, level, to);
        route->link[route->count++] = level->first + 2 * (below * level->pipes + pipe[top]) + 1;
    }
}

static void route_cluster(const struct layout *layout, int32_t devices, int32_t from, int32_t to,
                          struct route *route)
{
    int32_t a = from / devices, b = to / devices;
    if (a == b) {
        route->latency = layout->latency_inside;
        follow(layout, &layout->inside[from % devices * devices + to % devices], a, route);
        return;
    }
    route->latency = layout->latency_between;
    follow(layout, &layout->out[from % devices], a, route);
    cross(layout, port_of(layout, devices, from), port_of(layout, devices, to), route);
    follow(layout, &layout->in[to % devices], b, route);
}

void fabric_set_order(struct fabric *fabric, struct grid grid, enum rank_order order)
{
    struct layout *layout = fabric->layout;
    assert(layout->dimensions == 0 && grid_ranks(grid) == fabric->ranks);
    layout->grid = grid;
    layout->order = order;
}

/* --- both --- */

void fabric_route(const struct fabric *fabric, int32_t from, int32_t to, struct route *route)
{
    assert(from >= 0 && from < fabric->ranks && to >= 0 && to < fabric->ranks && from != to);
    const struct layout *layout = fabric->layout;
    route->count = 0;
    if (layout->dimensions > 0)
        route_torus(layout, from, to, route);
    else
        route_cluster(layout, fabric->devices_per_node,
                      grid_place(layout->grid, layout->order, from),
                      grid_place(layout->grid, layout->order, to), route);
}

int32_t fabric_rings(const struct fabric *fabric, struct grid grid, enum axis axis)
{
    const struct layout *layout = fabric->layout;
    int32_t ranks = grid_axis_size(grid, axis), each = fabric->devices_per_node;
    for (int32_t rank = 0; rank < fabric->ranks && fabric->mesh; rank++) {
        int32_t first = grid_axis_rank(grid, axis, rank, 0);
        if (grid_place(layout->grid, layout->order, rank) / each !=
            grid_place(layout->grid, layout->order, first) / each)
            return 1;
    }
    return !fabric->mesh || ranks < 3 ? 1 : ranks == 4 || ranks == 6 ? ranks - 2 : ranks - 1;
}

static bool route_check(const struct fabric *fabric, const struct route *route)
{
    for (int32_t i = 0; i < route->count; i++) {
        if (route->link[i] < 0 || route->link[i] >= fabric->link_count)
            return false;
        for (int32_t k = 0; k < i; k++)
            if (route->link[k] == route->link[i])
                return false;
    }
    return route->count > 0 && route->latency >= 0;
}

bool fabric_check(const struct fabric *fabric)
{
    for (int32_t i = 0; i < fabric->link_count; i++)
        if (!(fabric->link[i].bandwidth > 0) || fabric->link[i].tier < 0 ||
            fabric->link[i].tier >= fabric->tier_count)
            return false;
    for (int32_t rank = 1; rank < fabric->ranks; rank++) {
        struct route route;
        fabric_route(fabric, rank - 1, rank, &route);
        if (!route_check(fabric, &route))
            return false;
    }
    return true;
}

double fabric_route_bandwidth(const struct fabric *fabric, const struct route *route)
{
    double narrowest = fabric->link[route->link[0]].bandwidth;
    for (int32_t i = 1; i < route->count; i++)
        if (fabric->link[route->link[i]].bandwidth < narrowest)
            narrowest = fabric->link[route->link[i]].bandwidth;
    return narrowest;
}

static char *uplink_name(const struct layout *layout, int32_t link)
{
    const struct level *level = &layout->level[layout->level_count - 1];
    while (link < level->first)
        level--;
    int32_t index = (link - level->first) / 2;
    AUTOFREE char *pipe =
        level->pipes == 1 ? base_copy("") : base_format("%d", index % level->pipes);
    return base_format("%s%d.%s%s", level->name, index / level->pipes,
                       (link - level->first) % 2 ? "down" : "up", pipe);
}

char *fabric_link_name(const struct fabric *fabric, int32_t link)
{
    assert(link >= 0 && link < fabric->link_count);
    const struct layout *layout = fabric->layout;
    int32_t per_rank = 2 * layout->dimensions;
    if (per_rank > 0)
        return base_format("rank%d.%s", link / per_rank, direction_names[link % per_rank]);
    int32_t nodes = fabric->ranks / fabric->devices_per_node;
    if (link >= nodes * layout->node_links)
        return uplink_name(layout, link);
    return base_format("node%d.%s", layout->place[link / layout->node_links],
                       layout->node_link_name[link % layout->node_links]);
}

void fabric_free(struct fabric *fabric)
{
    if (!fabric)
        return;
    AUTOFREE struct layout *layout = fabric->layout;
    for (int32_t i = 0; i < layout->node_links && layout->node_link_name; i++)
        free(layout->node_link_name[i]);
    free(layout->node_link_name);
    free(layout->pool);
    free(layout->inside);
    free(layout->out);
    free(layout->in);
    free(layout->nic);
    free(layout->place);
    free(fabric->link);
    free(fabric);
}
