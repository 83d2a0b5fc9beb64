#include "core/platform/platform.h"

enum {
    CLUSTER = 1 << PLATFORM_CLUSTER,
    TORUS = 1 << PLATFORM_TORUS,
    RING = 1 << PLATFORM_RING,
    ANY = CLUSTER | TORUS | RING,
};

enum { NAME_LIMIT = FABRIC_NAME_LIMIT - 8 }; /* "rack uplink" must fit a tier's name */

#define LINK(path, shapes)                                                                         \
    {path ".bandwidth", shapes, ANY}, {path ".efficiency", shapes, ANY},                           \
    {                                                                                              \
        path ".latency", shapes, ANY                                                               \
    }

/* The shapes that need a key, and those for which it has an effect. */
static const struct rule {
    const char *path;
    int32_t needed, effect;
} rules[] = {
    {"nodes", CLUSTER, CLUSTER},
    {"node", 0, CLUSTER},
    {"node.devices", CLUSTER, ANY},
    {"network", 0, CLUSTER},
    {"transport.inside", CLUSTER, CLUSTER},
    {"transport.between", CLUSTER, ANY},
    {"transport.eager", 0, CLUSTER},
    {"torus", 0, TORUS},
    LINK("torus.row", TORUS),
    LINK("torus.column", TORUS),
    LINK("torus.depth", 0),
    {"ring", 0, RING},
    LINK("ring", RING),
    {"nccl", 0, CLUSTER},
};

/* What every check needs. */
struct check {
    struct platform *platform;
    const struct node *root;
    struct err *err;
};

static const struct origin *origin_of(const struct check *check, const char *path)
{
    const struct node *node = field_origin(check->root, path);
    return node ? &node->origin : &check->root->origin;
}

/* A fault at the value of @key of item @index of list @list. */
__attribute__((format(printf, 5, 6))) static int fault_in(const struct check *check,
                                                          const char *list, int32_t index,
                                                          const char *key, const char *format, ...)
{
    AUTOFREE char *path = base_format("%s.%d.%s", list, index, key);
    va_list arguments;
    va_start(arguments, format);
    AUTOFREE char *message = base_format_list(format, arguments);
    va_end(arguments);
    return origin_error(origin_of(check, path), check->err, "%s", message);
}

static int needs(const struct check *check, const char *path, const char *why)
{
    if (field_origin(check->root, path))
        return 0;
    return origin_error(origin_of(check, "kind"), check->err, "%s needs the key '%s'", why, path);
}

static int check_keys(const struct check *check)
{
    static const char *const nouns[] = {"a cluster", "a torus", "a ring"};
    const char *noun = nouns[check->platform->kind];
    int32_t shape = 1 << check->platform->kind;
    int result = 0;
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        const struct node *node = field_origin(check->root, rules[i].path);
        if (node && !(rules[i].effect & shape))
            result |= origin_error(&node->key_origin, check->err, "'%s' has no effect on %s",
                                   rules[i].path, noun);
        else if (rules[i].needed & shape)
            result |= needs(check, rules[i].path, noun);
    }
    bool several = check->platform->nodes > 1;
    bool network = several || check->platform->node.count[VERTEX_NIC] > 0;
    bool nccl = field_origin(check->root, "nccl"), depth = field_origin(check->root, "torus.depth");
    const char *who = several ? "a cluster of several nodes" : "a node with network cards";
    const struct {
        const char *path;
        bool needed;
        const char *who;
    } also[] = {
        {"node.nics", network, who},
        {"network.nic.bandwidth", network, who},
        {"network.nic.efficiency", network, who},
        {"network.nic.latency", network, who},
        {"nccl.intra", nccl, "section 'nccl'"},
        {"nccl.channels", nccl, "section 'nccl'"},
        {"torus.depth.bandwidth", depth, "a torus of three dimensions"},
        {"torus.depth.efficiency", depth, "a torus of three dimensions"},
        {"torus.depth.latency", depth, "a torus of three dimensions"},
        {"nccl.measured_nodes", field_origin(check->root, "nccl.corrections"),
         "the list 'nccl.corrections'"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(also); i++)
        if (also[i].needed)
            result |= needs(check, also[i].path, also[i].who);
    return result;
}

/* The name of item @index of a list of records that begin with their name. */
static const char *name_at(const struct field_list *list, size_t size, int32_t index)
{
    return *(char *const *)(const void *)((const char *)list->item + (size_t)index * size);
}

static int check_names(const struct check *check, const char *path, const struct field_list *list,
                       size_t size)
{
    int result = 0;
    for (int32_t i = 0; i < list->count; i++) {
        const char *name = name_at(list, size, i);
        if (strlen(name) > NAME_LIMIT)
            result |=
                fault_in(check, path, i, "name", "a name has at most %d characters", NAME_LIMIT);
        for (int32_t k = 0; k < i; k++)
            if (strcmp(name, name_at(list, size, k)) == 0)
                result |= fault_in(check, path, i, "name", "'%s' is the name of item %d as well",
                                   name, k + 1);
    }
    return result;
}

/* A what-if about a cable moves no ring of NCCL that the file bounds by itself. */
static void warn_of_rings(const struct check *check)
{
    const struct node *rings = field_origin(check->root, "nccl.intra_bandwidth");
    for (int32_t i = 0; rings && rings->origin.line && i < check->platform->node.links.count; i++) {
        AUTOFREE char *path = base_format("node.links.%d.bandwidth", i);
        if (!origin_of(check, path)->line)
            err_warn(check->err,
                     "warning: --set %s: NCCL's rings keep nccl.intra_bandwidth of %s:%d; set it "
                     "as well, or to null, where the links decide",
                     path, rings->origin.file, rings->origin.line);
    }
}

static int check_kinds_of_link(const struct check *check)
{
    int32_t kinds = check->platform->node.links.count + check->platform->tiers.count + 1;
    if (kinds <= FABRIC_TIER_LIMIT)
        return 0;
    return origin_error(origin_of(check, "node.links"), check->err,
                        "%d kinds of link with the NIC and the tiers; at most %d are supported",
                        kinds, FABRIC_TIER_LIMIT);
}

/* The uplinks and the cards of a node are divided among the rails, and rails among those above. */
static int check_rails(const struct check *check, int32_t i)
{
    const struct tier_record *tier = check->platform->tiers.item;
    long long rails = tier[i].rails, nics = check->platform->node.count[VERTEX_NIC];
    if (tier[i].uplinks % rails)
        return fault_in(check, "network.tiers", i, "rails",
                        "%lld switches do not share %lld uplinks evenly", rails,
                        (long long)tier[i].uplinks);
    if (rails > 1 && nics % rails)
        return fault_in(check, "network.tiers", i, "rails",
                        "%lld switches do not share the %lld network cards of a node evenly", rails,
                        nics);
    if (i > 0 && tier[i - 1].rails % rails)
        return fault_in(check, "network.tiers", i, "rails",
                        "%lld switches do not divide the %lld of the tier below evenly", rails,
                        (long long)tier[i - 1].rails);
    return 0;
}

/* Keys without an effect beside the others. */
static int check_routes(const struct check *check)
{
    const struct platform *platform = check->platform;
    const struct tier_record *tier = platform->tiers.item;
    bool choice = false;
    for (int32_t i = 0; i < platform->tiers.count; i++)
        choice = choice || tier[i].uplinks > tier[i].rails;
    const struct {
        const char *path;
        bool effect;
        const char *why;
    } key[] = {
        {"network.routing", platform->tiers.count > 0, "without network.tiers"},
        {"network.routing", platform->routing == ROUTING_IDEAL || choice,
         "where every switch has one uplink"},
        {"network.routing_seed", platform->routing == ROUTING_HASHED,
         "without 'network.routing: hashed'"},
        {"network.placement", platform->tiers.count > 0, "without network.tiers"},
        {"network.placement_seed", platform->placement == PLACEMENT_SCATTERED,
         "without 'network.placement: scattered'"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(key); i++) {
        const struct node *node = field_origin(check->root, key[i].path);
        if (node && !key[i].effect)
            return origin_error(&node->key_origin, check->err, "'%s' has no effect %s", key[i].path,
                                key[i].why);
    }
    return 0;
}

static int check_tiers(const struct check *check)
{
    const struct platform *platform = check->platform;
    const struct tier_record *tier = platform->tiers.item;
    int result = check_names(check, "network.tiers", &platform->tiers, sizeof(*tier));
    for (int32_t i = 0; i < platform->tiers.count; i++) {
        if (tier[i].nodes > platform->nodes)
            result |= fault_in(check, "network.tiers", i, "nodes",
                               "a group of %lld nodes in a cluster of %lld",
                               (long long)tier[i].nodes, (long long)platform->nodes);
        if (i > 0 && (tier[i].nodes <= tier[i - 1].nodes || tier[i].nodes % tier[i - 1].nodes))
            result |=
                fault_in(check, "network.tiers", i, "nodes",
                         "a %s of %lld nodes does not hold several whole groups of %lld, the "
                         "tier below (tiers stand smallest first)",
                         tier[i].name, (long long)tier[i].nodes, (long long)tier[i - 1].nodes);
        result |= check_rails(check, i);
    }
    return result;
}

/* --- the inside of a node --- */

static int32_t find_link(const struct platform *platform, const char *name)
{
    const struct link_record *link = platform->node.links.item;
    for (int32_t i = 0; i < platform->node.links.count; i++)
        if (strcmp(link[i].name, name) == 0)
            return i;
    return -1;
}

static int unknown_link(const struct check *check, int32_t edge, const char *name)
{
    const struct field_list *links = &check->platform->node.links;
    AUTOFREE const char **names = base_alloc(links->count + 1, sizeof(*names));
    for (int32_t i = 0; i < links->count; i++)
        names[i] = name_at(links, sizeof(struct link_record), i);
    const char *nearest = base_nearest(name, names);
    return fault_in(check, "node.edges", edge, "link", "there is no link '%s' in node.links%s%s%s",
                    name, nearest ? "; did you mean '" : "", nearest ? nearest : "",
                    nearest ? "'?" : "");
}

static bool has_cable(const struct wiring *wiring, int32_t a, int32_t b)
{
    for (int32_t i = 0; i < wiring->cable_count; i++) {
        const int32_t *end = wiring->cable[i].end;
        if ((end[0] == a && end[1] == b) || (end[0] == b && end[1] == a))
            return true;
    }
    return false;
}

/* One item of an edge: its place, and the name of its kind of link. */
struct item {
    const struct origin *origin;
    int32_t kind;
};

static int add_cable(const struct check *check, const struct item *item, const char *a,
                     const char *b)
{
    struct wiring *wiring = &check->platform->wiring;
    const char *name[2] = {a, b};
    int32_t end[2];
    for (int32_t i = 0; i < 2; i++) {
        end[i] = wiring_find(wiring, name[i]);
        if (end[i] < 0)
            return origin_error(item->origin, check->err,
                                "a node has no '%s'; it has %d gpu, %d switch, %d cpu and %d nic, "
                                "counted from 0",
                                name[i], wiring->count[VERTEX_DEVICE], wiring->count[VERTEX_SWITCH],
                                wiring->count[VERTEX_CPU], wiring->count[VERTEX_NIC]);
    }
    if (end[0] == end[1])
        return origin_error(item->origin, check->err, "a cable from %s to itself", a);
    if (has_cable(wiring, end[0], end[1]))
        return origin_error(item->origin, check->err,
                            "%s and %s have a cable already; a second one would never be used", a,
                            b);
    wiring_add(wiring, end[0], end[1], item->kind);
    return 0;
}

/* Whether node.nics is a what-if: cards that the cables of the file name beyond it are left out,
 * and more of them take turns at the places of those. */
static bool cards_assigned(const struct check *check)
{
    const struct node *node = field_origin(check->root, "node.nics");
    return node && !node->origin.line;
}

/* The number of the card in @pair, "nic3-switch0"; -1: there is none. */
static int32_t card_in(const char *pair)
{
    const char *name = strstr(pair, "nic");
    return name ? (int32_t)strtol(name + 3, NULL, 10) : -1;
}

static void add_cards(const struct check *check, int32_t described)
{
    struct wiring *wiring = &check->platform->wiring;
    int32_t first = wiring_first(wiring, VERTEX_NIC), cables = wiring->cable_count;
    if (described < 1 || described >= wiring->count[VERTEX_NIC])
        return;
    check->platform->described_cards = described;
    for (int32_t c = 0; c < cables; c++)
        for (int32_t e = 0; e < 2; e++) {
            struct cable cable = wiring->cable[c];
            for (int32_t k = cable.end[e] - first + described;
                 cable.end[e] >= first && k < wiring->count[VERTEX_NIC]; k += described)
                wiring_add(wiring, cable.end[!e], first + k, cable.kind);
        }
}

/* How many network cards the cables of the file name. */
static int32_t count_cards(const struct platform *platform)
{
    const struct edge_record *edge = platform->node.edges.item;
    int32_t count = 0;
    for (int32_t i = 0; i < platform->node.edges.count; i++)
        for (int32_t k = 0; k < edge[i].connect.count; k++) {
            int32_t card = card_in(((char *const *)edge[i].connect.item)[k]);
            count = card >= count ? card + 1 : count;
        }
    return count;
}

static bool reaches_card(struct wiring wiring, int32_t cables, int32_t place)
{
    int32_t v = wiring_first(&wiring, VERTEX_NIC), end = wiring_vertices(&wiring);
    AUTOFREE int32_t *arrived = base_alloc(end, sizeof(*arrived));
    wiring.cable_count = cables;
    wiring_explore(&wiring, place, arrived);
    while (v < end && arrived[v] < 0)
        v++;
    return v < end;
}

/* Where cards are left out, those that stay take the places of @connect from which the first
 * @cables lead to no card. */
static void share_cards(const struct check *check, int32_t cables, const struct field_list *connect,
                        int32_t kind)
{
    struct wiring *wiring = &check->platform->wiring;
    int32_t cards = wiring->count[VERTEX_NIC];
    for (int32_t i = 0; i < connect->count && cards; i++) {
        AUTOFREE char *pair = base_copy(((char *const *)connect->item)[i]);
        char *dash = strchr(pair, '-');
        int32_t card = card_in(pair), instead = wiring_first(wiring, VERTEX_NIC) + card % cards;
        if (card < cards || !dash)
            continue;
        *dash = '\0';
        int32_t place = wiring_find(wiring, strncmp(pair, "nic", 3) ? pair : dash + 1);
        if (place < 0 || reaches_card(*wiring, cables, place) || has_cable(wiring, place, instead))
            continue;
        wiring_add(wiring, place, instead, kind);
        check->platform->described_cards = count_cards(check->platform);
    }
}

static int add_connect(const struct check *check, int32_t edge, int32_t kind)
{
    const struct edge_record *record =
        &((const struct edge_record *)check->platform->node.edges.item)[edge];
    char *const *pair = record->connect.item;
    int result = 0;
    for (int32_t i = 0; i < record->connect.count; i++) {
        AUTOFREE char *path = base_format("node.edges.%d.connect.%d", edge, i);
        struct item item = {origin_of(check, path), kind};
        if (cards_assigned(check) && card_in(pair[i]) >= check->platform->node.count[VERTEX_NIC])
            continue;
        AUTOFREE char *a = base_copy(pair[i]);
        char *dash = strchr(a, '-');
        if (dash) {
            *dash = '\0';
            result |= add_cable(check, &item, a, dash + 1);
        } else {
            result |=
                origin_error(item.origin, check->err, "'%s' is not a pair such as gpu0-switch0", a);
        }
    }
    return result;
}

static int add_all_to_all(const struct check *check, int32_t edge, int32_t kind)
{
    const struct edge_record *record =
        &((const struct edge_record *)check->platform->node.edges.item)[edge];
    char *const *name = record->all_to_all.item;
    int result = 0;
    for (int32_t b = 1; b < record->all_to_all.count; b++) {
        AUTOFREE char *path = base_format("node.edges.%d.all_to_all.%d", edge, b);
        struct item item = {origin_of(check, path), kind};
        for (int32_t a = 0; a < b; a++)
            result |= add_cable(check, &item, name[a], name[b]);
    }
    return result;
}

static int add_edges(const struct check *check)
{
    const struct platform *platform = check->platform;
    const struct edge_record *edge = platform->node.edges.item;
    bool used[FABRIC_TIER_LIMIT] = {false};
    int result = 0;
    for (int32_t i = 0; i < platform->node.edges.count; i++) {
        int32_t kind = find_link(platform, edge[i].link);
        if (kind < 0) {
            result |= unknown_link(check, i, edge[i].link);
            continue;
        }
        used[kind] = true;
        if (edge[i].connect.count == 0 && edge[i].all_to_all.count < 2)
            result |= fault_in(check, "node.edges", i, "link",
                               "this edge has no cables: give 'connect' or 'all_to_all'");
        result |= add_connect(check, i, kind);
        result |= add_all_to_all(check, i, kind);
    }
    if (cards_assigned(check)) {
        add_cards(check, count_cards(platform));
        int32_t cables = platform->wiring.cable_count;
        for (int32_t i = 0; i < platform->node.edges.count; i++)
            share_cards(check, cables, &edge[i].connect, find_link(platform, edge[i].link));
    }
    for (int32_t i = 0; i < platform->node.links.count; i++)
        if (!used[i] && !result)
            result = fault_in(check, "node.links", i, "name", "no edge uses this link");
    return result;
}

static int unreachable(const struct check *check, int32_t from, int32_t to)
{
    AUTORELEASE(text) struct text a = {0}, b = {0};
    wiring_print_vertex(&a, &check->platform->wiring, from);
    wiring_print_vertex(&b, &check->platform->wiring, to);
    return origin_error(origin_of(check, "node.edges"), check->err,
                        "there is no path from %s to %s (devices and NICs do not forward)", a.data,
                        b.data);
}

static bool reached_by_some_device(const struct wiring *wiring, int32_t vertex, int32_t *path)
{
    for (int32_t device = 0; device < wiring->count[VERTEX_DEVICE]; device++)
        if (wiring_path(wiring, device, vertex, path) >= 0)
            return true;
    return false;
}

/* Every device must reach every other, and some device must use everything else. */
static int check_reach(const struct check *check)
{
    const struct wiring *wiring = &check->platform->wiring;
    int32_t vertices = wiring_vertices(wiring), devices = wiring->count[VERTEX_DEVICE];
    AUTOFREE int32_t *path = base_alloc(vertices, sizeof(*path));
    AUTOFREE int32_t *arrived = base_alloc(vertices, sizeof(*arrived));
    int result = 0;
    for (int32_t a = 0; a < devices && !result; a++) {
        wiring_explore(wiring, a, arrived);
        for (int32_t b = 0; b < devices && !result; b++)
            if (wiring_follow(wiring, arrived, a, b, path) < 0)
                result = unreachable(check, a, b);
    }
    for (int32_t v = devices; v < vertices && !result; v++)
        if (!reached_by_some_device(wiring, v, path))
            result = unreachable(check, 0, v);
    return result;
}

static int check_nics(const struct check *check)
{
    const struct wiring *wiring = &check->platform->wiring;
    int32_t devices = wiring->count[VERTEX_DEVICE];
    AUTOFREE int32_t *nic = base_alloc(devices, sizeof(*nic));
    int result = 0;
    wiring_assign_nics(wiring, nic);
    for (int32_t d = 0; d < devices && check->platform->nodes > 1 && !result; d++)
        if (nic[d] < 0)
            result = unreachable(check, d, wiring_first(wiring, VERTEX_NIC));
    return result;
}

/* SHARP is InfiniBand's. */
static int check_sharp(const struct check *check)
{
    const struct platform *platform = check->platform;
    if (!platform->nccl.sharp || platform->fabric == FABRIC_UNKNOWN ||
        platform->fabric == FABRIC_INFINIBAND)
        return 0;
    return origin_error(origin_of(check, "nccl.sharp"), check->err,
                        "switches of %s do not reduce: SHARP is of InfiniBand alone",
                        fabric_names[platform->fabric]);
}

static int check_node(const struct check *check)
{
    struct platform *platform = check->platform;
    for (enum vertex_kind kind = 0; kind < VERTEX_KIND_COUNT; kind++)
        platform->wiring.count[kind] = (int32_t)platform->node.count[kind];
    if (check_kinds_of_link(check) ||
        check_names(check, "node.links", &platform->node.links, sizeof(struct link_record)) ||
        add_edges(check))
        return -1;
    return check_reach(check) || check_nics(check) ? -1 : 0;
}

int platform_check(struct platform *platform, const struct node *root, struct err *err)
{
    struct check check = {.platform = platform, .root = root, .err = err};
    int result = check_keys(&check);
    if (!field_origin(root, "transport.payload"))
        platform->transport.payload = -1;
    if (platform->kind != PLATFORM_CLUSTER || result)
        return result;
    warn_of_rings(&check);
    result |= check_node(&check);
    result |= check_tiers(&check) || check_routes(&check) || check_sharp(&check);
    return result;
}
