#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/new/new.h"
#include "core/config/field_write.h"
#include "core/network/nccl.h"
#include "core/platform/platform.h"

/* The machine that is described. */
struct machine {
    const struct new_request *request;
    int32_t gpus, nics;
    const char *gpu;       /* as given */
    double rate;           /* of a card [bytes/s] */
    struct platform *near; /* of the library, with the same kind of device; owned */
    char *near_name;       /* owned */
    struct fabric *inside; /* one node of it; owned */
    struct device device;  /* where no platform has it; owned */
    struct text *out;
};

/* "8xh100": the number, and what follows it; NULL: no such text. */
static const char *read_times(const char *text, int32_t *count)
{
    int length = 0;
    if (!text || sscanf(text, "%9dx%n", count, &length) != 1 || !length || *count < 1 ||
        *count > 64)
        return NULL;
    return text + length;
}

static int read_nics(struct machine *machine, struct err *err)
{
    const struct new_request *request = machine->request;
    if (!request->nics && request->nodes == 1)
        return 0;
    if (!request->nics)
        return err_add_code(err, 64,
                            "%d nodes need the network cards of a node, as in --nics 8x400Gb/s",
                            request->nodes);
    AUTORELEASE(err) struct err found = {0};
    const char *rate = read_times(request->nics, &machine->nics);
    int failed = !rate || unit_parse(UNIT_BYTES_PER_SECOND, rate, &machine->rate, &found) ||
                 machine->rate < 1;
    const char *reason = err_reason(&found);
    if (failed)
        err_add_code(err, 64,
                     "--nics: expected 1 to 64 network cards and the rate of one, as in 8x400Gb/s, "
                     "got '%s'%s%s",
                     request->nics ? request->nics : "", *reason ? ": " : "", reason);
    return failed ? -1 : 0;
}

static int check_leaves(const struct machine *machine, struct err *err)
{
    const struct new_request *request = machine->request;
    if (request->leaves && (request->nodes % request->leaves || !machine->nics))
        return err_add_code(err, 64, "--leaves: %d leaves do not share %d nodes with cards evenly",
                            request->leaves, request->nodes);
    return 0;
}

/* A platform with the same nodes, else one with the same device, else a node of PCIe cards. */
static int find_near(struct machine *machine, bool *same, struct err *err)
{
    char *found = platform_like(machine->gpu, machine->gpus, machine->nics);
    *same = found;
    if (!found)
        found = platform_like(machine->gpu, machine->gpus, 0);
    if (!found)
        found = platform_like(machine->gpu, 0, 0);
    if (!found && device_read(&machine->device, machine->gpu, err))
        return -1;
    machine->near_name = found ? found : base_copy("l40s-node");
    machine->near = platform_read(machine->near_name, err);
    if (!machine->near)
        return -1;
    struct grid grid = grid_nearest_square(platform_devices_per_node(machine->near));
    machine->inside = platform_fabric(machine->near, 1, grid_ranks(grid), grid, err);
    return machine->inside ? 0 : -1;
}

static const struct device *device_of(const struct machine *machine)
{
    return machine->device.name ? &machine->device : platform_device(machine->near);
}

/* ---- numbers ---- */

struct wanted {
    const char *path;
    const struct quantity *found;
    enum unit unit;
};

static void look(void *context, const struct quantity *quantity, enum unit unit)
{
    struct wanted *wanted = context;
    if (!strcmp(quantity->path, wanted->path)) {
        wanted->found = quantity;
        wanted->unit = unit;
    }
}

static struct wanted find_number(const struct machine *machine, const char *path)
{
    struct wanted wanted = {.path = path};
    platform_each_quantity(machine->near, look, &wanted);
    return wanted;
}

static void add_number(struct text *out, int32_t indent, const char *key, enum unit unit,
                       double value, const char *source)
{
    field_write_quantity(out, indent, key, PROVENANCE_ASSUMED, 0, source, "%s",
                         unit_text(unit, value));
}

/* What the near platform says at @path. */
static void add_near(const struct machine *machine, int32_t indent, const char *key,
                     const char *path)
{
    struct wanted wanted = find_number(machine, path);
    if (!wanted.found)
        return;
    AUTOFREE char *source = base_format("as in %s: %s", machine->near_name, wanted.found->source);
    add_number(machine->out, indent, key, wanted.unit, wanted.found->value, source);
}

static double near_value(const struct machine *machine, const char *path)
{
    struct wanted wanted = find_number(machine, path);
    return wanted.found ? wanted.found->value : 0;
}

/* ---- sections ---- */

static void add_pairs(const struct machine *machine, const char *end, int32_t count, const char *to,
                      int32_t first, int32_t groups)
{
    text_add(machine->out, "[");
    for (int32_t i = 0; i < count; i++)
        text_add(machine->out, "%s%s%d-%s%d", i ? ", " : "", end, i, to,
                 first + (int32_t)((int64_t)i * groups / count));
    text_add(machine->out, "]}\n");
}

/* The kind of link that the near platform calls pcie. */
static int32_t near_pcie(const struct machine *machine)
{
    int32_t kind = 0;
    while (kind + 1 < machine->inside->tier_count &&
           strcmp(machine->inside->tier_name[kind], "pcie"))
        kind++;
    return kind;
}

/* What a device of the near platform sends to the others of its node over NVLink [bytes/s]: in a
 * mesh over several links. */
static double near_inside(const struct machine *machine)
{
    const struct fabric *fabric = machine->inside;
    int32_t pcie = near_pcie(machine);
    double sum = 0;
    AUTOFREE bool *seen = base_alloc(fabric->link_count, sizeof(*seen));
    for (int32_t rank = 1; rank < fabric->ranks; rank++) {
        struct route route;
        fabric_route(fabric, 0, rank, &route);
        const struct link *link = &fabric->link[route.link[0]];
        if (link->tier != pcie && !seen[route.link[0]])
            sum += link->bandwidth;
        seen[route.link[0]] = true;
    }
    return sum / near_value(machine, "node.links[0].efficiency");
}

static void add_inside(const struct machine *machine, bool nvlink)
{
    static const char path[] = "node.links[0].bandwidth";
    double one = near_value(machine, path), all = nvlink ? near_inside(machine) : one;
    text_add(machine->out, "    - name: inside\n");
    if (all > 1.001 * one) {
        AUTOFREE char *source =
            base_format("all links of a device, as in %s: %s", machine->near_name,
                        find_number(machine, path).found->source);
        add_number(machine->out, 6, "bandwidth", UNIT_BYTES_PER_SECOND, all, source);
    } else
        add_near(machine, 6, "bandwidth", path);
    add_near(machine, 6, "efficiency", "node.links[0].efficiency");
    add_near(machine, 6, "latency", "node.links[0].latency");
}

static void add_pcie(const struct machine *machine)
{
    static const char *const keys[] = {"bandwidth", "efficiency", "latency"};
    text_add(machine->out, "    - name: pcie\n");
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        AUTOFREE char *path = base_format("node.links[%d].%s", near_pcie(machine), keys[i]);
        add_near(machine, 6, keys[i], path);
    }
}

/* Devices meet in a plane of switches (NVLink) or at the processor (PCIe); cards are at PCIe. */
static void add_node(const struct machine *machine, bool nvlink)
{
    struct text *out = machine->out;
    int32_t groups = machine->nics < machine->gpus ? machine->nics : machine->gpus;
    text_add(out, "\nnode:\n  devices: %d\n", machine->gpus);
    if (nvlink)
        text_add(out,
                 "  switches: %d    # switch0 joins all devices; the others devices and cards\n",
                 1 + groups);
    else
        text_add(out, "  cpus: 1\n");
    if (machine->nics)
        text_add(out, "  nics: %d\n", machine->nics);
    text_add(out, "  links:\n");
    add_inside(machine, nvlink);
    if (nvlink && machine->nics)
        add_pcie(machine);
    text_add(out, "  edges:\n    - {link: inside, connect: ");
    add_pairs(machine, "gpu", machine->gpus, nvlink ? "switch" : "cpu", 0, 1);
    if (nvlink && machine->nics) {
        text_add(out, "    - {link: pcie, connect: ");
        add_pairs(machine, "gpu", machine->gpus, "switch", 1, groups);
    }
    if (machine->nics) {
        text_add(out, "    - {link: %s, connect: ", nvlink ? "pcie" : "inside");
        add_pairs(machine, "nic", machine->nics, nvlink ? "switch" : "cpu", nvlink,
                  nvlink ? groups : 1);
    }
}

static void add_tiers(const struct machine *machine)
{
    const struct new_request *request = machine->request;
    int32_t nodes = request->leaves ? request->nodes / request->leaves : 0;
    int32_t uplinks = request->uplinks ? request->uplinks : nodes * machine->nics;
    if (!request->leaves)
        return;
    text_add(machine->out,
             "  tiers:    # %d leaves: %d cards below each, %d uplink%s\n"
             "    - name: leaf\n"
             "      nodes: %d\n"
             "      uplinks: %d\n",
             request->leaves, nodes * machine->nics, uplinks, base_plural(uplinks), nodes, uplinks);
    add_number(machine->out, 6, "bandwidth", UNIT_BYTES_PER_SECOND, machine->rate,
               "as a network card");
    add_number(machine->out, 6, "efficiency", UNIT_FRACTION, 0.96, "as a network card");
    add_number(machine->out, 6, "latency", UNIT_SECONDS, 0,
               "contained in the network card's latency");
}

static void add_limits(const struct machine *machine)
{
    char *path = base_format("node.links[%d].bandwidth", near_pcie(machine));
    if (machine->rate > near_value(machine, path))
        text_add(machine->out, "    # Faster than PCIe to it (%.4g GB/s), which limits it.\n",
                 1e-9 * near_value(machine, path));
    free(path);
    double staged = NCCL_SOCKETS_BANDWIDTH / (machine->nics * machine->rate);
    if (machine->nics < machine->gpus && staged < 0.96)
        text_add(machine->out,
                 "    # Fewer cards than devices: where messages pass through host memory, all "
                 "cards of a\n    # node carry about %g GB/s (efficiency: %.0f %%).\n",
                 1e-9 * NCCL_SOCKETS_BANDWIDTH, 100 * staged);
}

static void add_network(const struct machine *machine, bool whole)
{
    bool tiers = !whole && !machine->request->leaves &&
                 near_value(machine, "network.tiers[0].bandwidth") > 0;
    if (!machine->nics) {
        text_add(machine->out, tiers ? "\nnetwork:\n  tiers: null\n" : "");
        return;
    }
    text_add(machine->out, "\nnetwork:\n  nic:\n");
    add_number(machine->out, 4, "bandwidth", UNIT_BYTES_PER_SECOND, machine->rate,
               "given to foretrain new");
    add_limits(machine);
    if (whole) {
        add_near(machine, 4, "efficiency", "network.nic.efficiency");
        add_near(machine, 4, "latency", "network.nic.latency");
    }
    text_add(machine->out, tiers ? "  tiers: null\n" : "");
    add_tiers(machine);
}

static void add_rest(const struct machine *machine, bool nvlink)
{
    struct text *out = machine->out;
    int64_t channels = machine->inside->nccl.channels;
    double inside =
        (nvlink ? near_inside(machine) : near_value(machine, "node.links[0].bandwidth")) *
        near_value(machine, "node.links[0].efficiency");
    text_add(out, "\ntransport:    # what software adds to every message\n");
    add_near(machine, 2, "inside", "transport.inside");
    add_near(machine, 2, "between", "transport.between");
    if (!device_of(machine)->compute_capability)
        return;
    text_add(out,
             "\nnccl:    # for allreduce.algorithm: nccl\n"
             "  intra: %s\n"
             "  channels: %lld    # assumed: as in %s\n",
             nvlink ? "nvlink" : "pci", (long long)(channels ? channels : 2), machine->near_name);
    add_number(out, 2, "intra_bandwidth", UNIT_BYTES_PER_SECOND, inside,
               "bandwidth of the link inside times its efficiency");
    text_add(out, "  sharp: false    # true where the switches of the network reduce\n");
}

/* By its name in the library, or the file that was given. */
static void add_device(const struct machine *machine)
{
    bool file = strpbrk(machine->gpu, "/.");
    AUTOFREE char *name =
        new_reference(machine->request, file ? machine->gpu : device_of(machine)->name);
    text_add(machine->out, "kind: cluster\ndevice: ");
    field_write_text(machine->out, name);
    text_add(machine->out, "    # foretrain list devices\n");
}

static void add_platform(const struct machine *machine, bool same)
{
    struct text *out = machine->out;
    const struct new_request *request = machine->request;
    AUTOFREE char *name = new_name(request);
    text_add(out,
             "# Written by foretrain new platform; man 5 foretrain-platform has all keys.\n"
             "# Give a number its source when you know it: {value: 400 Gb/s, source: \"data sheet "
             "of ...\", kind: datasheet}\n");
    text_add(out,
             same ? "extends: %s    # for everything that does not stand here\n" : "version: 1\n",
             machine->near_name);
    AUTORELEASE(text) struct text description = {0};
    text_add(&description, "%d node%s with %d x %s", request->nodes, base_plural(request->nodes),
             machine->gpus, device_of(machine)->name);
    if (machine->nics)
        text_add(&description, " and %d network card%s", machine->nics, base_plural(machine->nics));
    field_write_line(out, 0, "name", name);
    field_write_line(out, 0, "description", description.data);
    if (!same)
        add_device(machine);
    text_add(out, "nodes: %d\n", request->nodes);
    bool nvlink = machine->inside->nccl.intra == NCCL_NVLINK && machine->inside->nccl.channels > 0;
    if (!same)
        add_node(machine, nvlink);
    add_network(machine, !same);
    if (!same)
        add_rest(machine, nvlink);
    else if (machine->inside->nccl.channels > 0)
        text_add(out,
                 "\nnccl:\n  sharp: false    # true where the switches of the network reduce\n");
}

int new_platform(const struct new_request *request, struct text *out, struct err *err)
{
    struct machine machine = {.request = request, .out = out};
    bool same = false;
    machine.gpu = read_times(request->gpus, &machine.gpus);
    if (request->nodes < 1 || !machine.gpu || !*machine.gpu)
        return err_add_code(err, 64,
                            "a platform needs --nodes N, --gpus with 1 to 64 of a device and, for "
                            "several nodes, --nics, as in: foretrain new platform --nodes 16 "
                            "--gpus 8xh100 --nics 8x400Gb/s");
    int failed =
        read_nics(&machine, err) || check_leaves(&machine, err) || find_near(&machine, &same, err);
    if (!failed)
        add_platform(&machine, same);
    fabric_free(machine.inside);
    platform_free(machine.near);
    device_release(&machine.device);
    free(machine.near_name);
    return failed ? -1 : 0;
}
