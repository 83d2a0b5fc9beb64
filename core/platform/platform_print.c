#include "core/platform/platform.h"

/* One kind of link: their number, and the bandwidth of one. */
static void print_link(struct text *out, const char *name, const char *number,
                       const struct link_record *link)
{
    double payload = link->bandwidth.value * link->efficiency.value;
    text_add(out, "  %-16s %-24s %-12s %-12s %s\n", name, number,
             unit_text(UNIT_BYTES_PER_SECOND, link->bandwidth.value),
             unit_text(UNIT_BYTES_PER_SECOND, payload),
             unit_text(UNIT_SECONDS, link->latency.value));
}

static void print_heading(struct text *out, const char *heading)
{
    text_add(out, "\n%-18s %-24s %-12s %-12s %s\n", heading, "number", "each way", "payload",
             "latency");
}

static void print_node(struct text *out, const struct platform *platform)
{
    const struct link_record *link = platform->node.links.item;
    const struct wiring *wiring = &platform->wiring;
    print_heading(out, "inside a node");
    for (int32_t kind = 0; kind < platform->node.links.count; kind++) {
        int32_t cables = 0;
        for (int32_t i = 0; i < wiring->cable_count; i++)
            cables += wiring->cable[i].kind == kind;
        AUTOFREE char *number = base_format("%d a node", cables);
        print_link(out, link[kind].name, number, &link[kind]);
    }
}

static void print_nics(struct text *out, const struct wiring *wiring)
{
    AUTOFREE int32_t *nic = base_alloc(wiring->count[VERTEX_DEVICE], sizeof(*nic));
    wiring_assign_nics(wiring, nic);
    for (int32_t n = 0; n < wiring->count[VERTEX_NIC]; n++) {
        text_add(out, "  nic%d serves", n);
        for (int32_t d = 0; d < wiring->count[VERTEX_DEVICE]; d++)
            if (nic[d] == n)
                text_add(out, " gpu%d", d);
        text_add(out, "\n");
    }
}

/* Bandwidth out of a group, as a fraction of that of its network cards. */
static void print_bisection(struct text *out, const struct platform *platform,
                            const struct tier_record *tier)
{
    double up = (double)tier->uplinks * tier->uplink.bandwidth.value;
    double below =
        (double)tier->nodes * platform->wiring.count[VERTEX_NIC] * platform->nic.bandwidth.value;
    text_add(out, "  a %s: %lld nodes, %s from its network cards, %s up: ", tier->name,
             (long long)tier->nodes, unit_text(UNIT_BYTES_PER_SECOND, below),
             unit_text(UNIT_BYTES_PER_SECOND, up));
    if (up >= below)
        text_add(out, "full bisection\n");
    else if (2 * up > below)
        text_add(out, "%.3f of full bisection\n", up / below);
    else
        text_add(out, "%.3f, about 1/%.0f of full bisection\n", up / below, round(below / up));
}

static void print_routes(struct text *out, const struct platform *platform)
{
    const struct tier_record *tier = platform->tiers.item;
    for (int32_t i = 0; i < platform->tiers.count; i++)
        if (tier[i].rails > 1)
            text_add(out, "  a %s is %lld switches side by side, each for %lld cards of a node\n",
                     tier[i].name, (long long)tier[i].rails,
                     (long long)(platform->wiring.count[VERTEX_NIC] / tier[i].rails));
    if (platform->routing == ROUTING_STATIC)
        text_add(out, "  a message takes one uplink, by its destination\n");
    if (platform->routing == ROUTING_HASHED)
        text_add(out, "  a message takes one uplink, by a hash of both devices (seed %lld)\n",
                 (long long)platform->routing_seed);
    if (platform->placement == PLACEMENT_SCATTERED)
        text_add(out, "  a job's nodes are a random sample (seed %lld)\n",
                 (long long)platform->placement_seed);
}

static void print_network(struct text *out, const struct platform *platform)
{
    const struct tier_record *tier = platform->tiers.item;
    print_heading(out, "between nodes");
    AUTOFREE char *cards = base_format("%d a node", platform->wiring.count[VERTEX_NIC]);
    print_link(out, "nic", cards, &platform->nic);
    for (int32_t i = 0; i < platform->tiers.count; i++) {
        AUTOFREE char *name = base_format("%s uplink", tier[i].name);
        AUTOFREE char *number = base_format("%lld a %s of %lld nodes", (long long)tier[i].uplinks,
                                            tier[i].name, (long long)tier[i].nodes);
        print_link(out, name, number, &tier[i].uplink);
    }
    print_nics(out, &platform->wiring);
    for (int32_t i = 0; i < platform->tiers.count; i++)
        print_bisection(out, platform, &tier[i]);
    print_routes(out, platform);
}

static void print_messages(struct text *out, const struct platform *platform)
{
    text_add(out, "\na message costs ");
    if (platform->kind == PLATFORM_CLUSTER)
        text_add(out, "%s of software inside a node, ",
                 unit_text(UNIT_SECONDS, platform->transport.inside.value));
    text_add(out, "%s of software between nodes\n",
             unit_text(UNIT_SECONDS, platform->transport.between.value));
    if (platform->transport.eager.value > 0)
        text_add(out, "a message of up to %s is handed over at once\n",
                 unit_text(UNIT_BYTES, platform->transport.eager.value));
    if (platform->node.cores > 0)
        text_add(out, "%lld devices of a node compute at once; more take turns\n",
                 (long long)platform->node.cores);
    if (platform->transport.payload >= 0)
        text_add(out, "links were measured with gradients in %s\n",
                 dtype_names[platform->transport.payload]);
}

static void print_nccl(struct text *out, const struct platform *platform)
{
    double rings = platform->nccl.intra_bandwidth.value;
    text_add(out, "\nNCCL: %lld channels over %s, %s for all rings of a node%s\n",
             (long long)platform->nccl.channels, nccl_intra_names[platform->nccl.intra],
             rings > 0 ? unit_text(UNIT_BYTES_PER_SECOND, rings) : "the links of a device",
             platform->nccl.sharp ? ", switches that reduce" : "");
}

static void print_cluster(struct text *out, const struct platform *platform)
{
    int32_t devices = platform_devices_per_node(platform);
    text_add(out, "  %lld nodes x %d devices = %lld x %s\n", (long long)platform->nodes, devices,
             (long long)platform->nodes * devices, platform->device.description);
    if (platform->node.links.count > 0)
        print_node(out, platform);
    if (platform->nodes > 1)
        print_network(out, platform);
    if (platform->nccl.channels > 0)
        print_nccl(out, platform);
}

static void print_torus(struct text *out, const struct platform *platform)
{
    text_add(out, "  %s of any size, each rank %s\n", platform_kind_names[platform->kind],
             platform->device.description);
    print_heading(out, "from rank to rank");
    if (platform->kind == PLATFORM_RING) {
        print_link(out, "ring link", "2 a rank", &platform->ring);
        return;
    }
    print_link(out, "row link", "2 a rank", &platform->row);
    print_link(out, "column link", "2 a rank", &platform->column);
    if (platform_dimensions(platform) == 3)
        print_link(out, "depth link", "2 a rank", &platform->depth);
}

/* What print_quantity() needs. */
struct listing {
    struct text *out;
    bool assumed; /* print these, or the others */
};

static void print_quantity(void *context, const struct quantity *quantity, enum unit unit)
{
    const struct listing *listing = context;
    if ((quantity->provenance == PROVENANCE_ASSUMED) != listing->assumed)
        return;
    text_add(listing->out, "  %-9s %-32s %-14s %s\n", provenance_name(quantity->provenance),
             quantity->path, unit_text(unit, quantity->value), quantity->source);
}

/* Of a platform with its device, or of a device alone. */
static void print_quantities(struct text *out, const struct platform *platform,
                             const struct device *device)
{
    text_add(out, "\nevery number and its source, assumed ones first\n");
    for (int32_t pass = 0; pass < 2; pass++) {
        struct listing listing = {out, pass == 0};
        if (platform)
            platform_each_quantity(platform, print_quantity, &listing);
        else
            device_each_quantity(device, print_quantity, &listing);
    }
}

void platform_print(struct text *out, const struct platform *platform)
{
    text_add(out, "%s: %s\n", platform->name, platform->description);
    if (platform->kind == PLATFORM_CLUSTER)
        print_cluster(out, platform);
    else
        print_torus(out, platform);
    print_messages(out, platform);
    print_quantities(out, platform, NULL);
}

void device_print(struct text *out, const struct device *device)
{
    text_add(out, "%s: %s\n", device->name, device->description);
    if (device->compute_capability)
        text_add(out, "  compute capability %lld.%lld\n",
                 (long long)device->compute_capability / 10,
                 (long long)device->compute_capability % 10);
    text_add(out, "  fusion %s\n", fusion_names[device->fusion]);
    if (device->classes.count > 0)
        text_add(out, "  %d classes of steps with efficiencies of their own\n",
                 device->classes.count);
    if (device->measured.steps.count > 0)
        text_add(out, "  %d steps measured (%s)\n", device->measured.steps.count,
                 device->measured.source ? device->measured.source : "no source");
    print_quantities(out, NULL, device);
}

/* ---- for programs ---- */

struct number {
    const char *key, *kind, *source;
    double value;
};

struct numbers {
    const struct device *described;
    const struct platform *platform;
    const char *routing, *placement; /* NULL: no tiers */
    int64_t devices_per_node;
    struct number *item; /* (count) owned */
    int32_t count;
};

static void add_number(void *context, const struct quantity *quantity, enum unit unit)
{
    struct numbers *numbers = context;
    BASE_NEXT(numbers->item, numbers->count) = (struct number){
        quantity->path, provenance_name(quantity->provenance), quantity->source, quantity->value};
}

COLUMNS(number_columns, NULL, struct number)
{
    COLUMN("key", key, .help = "key of the file");
    COLUMN("value", value, .help = "in SI units");
    COLUMN("kind", kind, .help = "measured, datasheet, published or assumed");
    COLUMN("source", source, .null = true, .help = "source of the number");
}

COLUMNS(head_columns, NULL, struct platform)
{
    COLUMN("name", name, .help = "of the platform");
    COLUMN("description", description, .null = true, .help = "of the platform, in words");
    COLUMN("kind", kind, .words = platform_kind_names, .help = "cluster, torus or ring");
    COLUMN("device", device.name, .help = "name of its device");
    COLUMN("nodes", nodes, .help = "nodes that it has");
}

SHARED_COLUMNS(platform_columns, "platform-numbers/2", struct numbers)
{
    COLUMN_MEMBERS(platform, &head_columns);
    COLUMN("devices_per_node", devices_per_node, .help = "devices of a node");
    COLUMN("routing", routing, .null = true, .help = "how messages choose links; null: no tiers");
    COLUMN("placement", placement, .null = true, .help = "which nodes a job gets; null: no tiers");
    COLUMN_ITEMS("numbers", item, count, .table = &number_columns);
}

COLUMNS(described_columns, NULL, struct device)
{
    COLUMN("name", name, .help = "of the device");
    COLUMN("description", description, .null = true, .help = "of the device, in words");
    COLUMN("compute_capability", compute_capability, .zero = true,
           .help = "of an NVIDIA GPU, 70 for 7.0; null: another device");
    COLUMN("fusion", fusion, .words = fusion_names, .help = "which kernels are fused");
}

SHARED_COLUMNS(device_columns, "device-numbers/2", struct numbers)
{
    COLUMN_MEMBERS(described, &described_columns);
    COLUMN_ITEMS("numbers", item, count, .table = &number_columns);
}

void platform_print_json(struct text *out, const struct platform *platform)
{
    bool tiers = platform->tiers.count > 0;
    struct numbers numbers = {.platform = platform,
                              .routing = tiers ? routing_names[platform->routing] : NULL,
                              .placement = tiers ? placement_names[platform->placement] : NULL,
                              .devices_per_node = platform_devices_per_node(platform)};
    platform_each_quantity(platform, add_number, &numbers);
    answer_print(out, &platform_columns, &numbers);
    free(numbers.item);
}

void device_print_json(struct text *out, const struct device *device)
{
    struct numbers numbers = {.described = device};
    device_each_quantity(device, add_number, &numbers);
    answer_print(out, &device_columns, &numbers);
    free(numbers.item);
}
