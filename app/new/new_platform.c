#include "app/cli/option.h"
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
    struct device device;  /* where no platform has it; owned */
    struct new_inside inside;
    char *inside_source; /* owned */
    double slot;         /* of cards [bytes/s] */
    enum fabric_kind fabric;
    bool fabric_given;
    struct text *out;
};

/* "8xh100": the number, and what follows it; NULL: no such text. */
static const char *read_times(const char *text, int32_t *count)
{
    int length = 0;
    if (!text || sscanf(text, "%9dx%n", count, &length) != 1 || !length || *count < 1 ||
        *count > 256)
        return NULL;
    return text + length;
}

static int read_nics(struct machine *machine, struct err *err)
{
    const struct new_request *request = machine->request;
    if (!request->nics)
        return 0;
    AUTORELEASE(err) struct err found = {0};
    const char *rate = read_times(request->nics, &machine->nics);
    int failed = !rate || unit_parse(UNIT_BYTES_PER_SECOND, rate, &machine->rate, &found) ||
                 machine->rate < 1;
    if (!failed && machine->rate > 201e9)
        return err_usage(err,
                         "--nics: no network card has %s; a card of 400 Gb/s is 400Gb/s or 50GB/s",
                         unit_text(UNIT_BYTES_PER_SECOND, machine->rate));
    const char *reason = err_reason(&found);
    if (failed)
        err_usage(err,
                  "--nics: expected 1 to 256 network cards and the rate of one, as in 8x400Gb/s, "
                  "got '%s'%s%s",
                  request->nics, *reason ? ": " : "", reason);
    return failed ? -1 : 0;
}

static const struct device *device_of(const struct machine *machine)
{
    return machine->near ? &machine->near->device : &machine->device;
}

/* Chips of a torus are nodes of one, without cards. */
static bool is_torus(const struct machine *machine)
{
    enum device_links links = (enum device_links)device_of(machine)->links.kind;
    return (links == LINKS_TORUS2D || links == LINKS_TORUS3D) && !machine->request->inside;
}

static int need_nics(const struct machine *machine, struct err *err)
{
    if (machine->nics || machine->request->nodes == 1 || is_torus(machine))
        return 0;
    return err_usage(err, "%d nodes need the network cards of a node, as in --nics 8x400Gb/s",
                     machine->request->nodes);
}

static int check_leaves(const struct machine *machine, struct err *err)
{
    const struct new_request *request = machine->request;
    if (request->leaves && (request->nodes % request->leaves || !machine->nics))
        return err_usage(err, "--leaves: %d leaves do not share %d nodes with cards evenly",
                         request->leaves, request->nodes);
    return 0;
}

/* A platform with the same nodes, else one with the same device; or the device alone. */
static int find_near(struct machine *machine, bool *same, struct err *err)
{
    const struct {
        int32_t gpus, nics;
        double rate;
    } like[] = {{machine->gpus, machine->nics, machine->rate},
                {machine->gpus, machine->nics, 0},
                {machine->gpus, 0, 0},
                {0, 0, 0}};
    size_t i = 0;
    while (i < ARRAY_SIZE(like) && !(machine->near_name = platform_like(
                                         machine->gpu, like[i].gpus, like[i].nics, like[i].rate)))
        i++;
    *same = i < 2 && !machine->request->inside;
    if (!machine->near_name)
        return device_read(&machine->device, machine->gpu, err);
    machine->near = platform_read(machine->near_name, err);
    *same = *same || (machine->near && is_torus(machine));
    return machine->near ? 0 : -1;
}

/* ---- what joins devices and nodes ---- */

int new_read_inside(struct new_inside *inside, const char *given, struct err *err)
{
    AUTOFREE char *text = base_copy(given);
    int generation = 0, length = 0;
    *inside = (struct new_inside){0};
    if (sscanf(text, "pcie%1d%n", &generation, &length) == 1 && !text[length] && generation > 2 &&
        generation < 8) {
        inside->pcie = generation;
        inside->bandwidth = device_slot_bandwidth(generation);
        return 0;
    }
    char *rate = strchr(text, ':'), *mesh = rate ? strchr(rate, '@') : NULL;
    if (rate)
        *rate++ = '\0';
    if (mesh)
        *mesh++ = '\0';
    int32_t kind = base_find_word(text, device_links_names);
    AUTORELEASE(err) struct err found = {0};
    if (!rate || kind < LINKS_NVLINK || kind > LINKS_SOCKET || (mesh && strcmp(mesh, "mesh")) ||
        unit_parse(UNIT_BYTES_PER_SECOND, rate, &inside->bandwidth, &found) ||
        inside->bandwidth < 1)
        return err_usage(err,
                         "expected nvlink, xgmi, roce or socket with the rate of a device one way, "
                         "as in nvlink:900GB/s, or of each link of a mesh, as in xgmi:64GB/s@mesh; "
                         "or pcie3 to pcie7; got '%s'",
                         given);
    inside->links = (enum device_links)kind;
    inside->mesh = mesh;
    return 0;
}

/* As the device file says. */
static int take_inside(struct machine *machine, bool same, struct err *err)
{
    const struct device *device = device_of(machine);
    struct new_inside *inside = &machine->inside;
    *inside = (struct new_inside){(enum device_links)device->links.kind, device->links.mesh,
                                  device->links.bandwidth.value, 0};
    if ((inside->links == LINKS_NEURON || is_torus(machine)) && !same)
        return err_add_code(err, 65,
                            "%s: its links make a torus, which is not drafted: begin with a copy "
                            "of platform %s",
                            device->name,
                            inside->links == LINKS_NEURON    ? "trn2"
                            : inside->links == LINKS_TORUS2D ? "tpu-v5e-pod"
                                                             : "tpu-v4-pod");
    if (is_torus(machine) && (machine->gpus > 1 || machine->nics))
        return err_usage(err,
                         "chips of a torus are nodes of one without cards: use --nodes with their "
                         "number and --gpus 1x%s",
                         machine->gpu);
    if (!is_torus(machine) && (inside->links == LINKS_NONE || machine->gpus == 1))
        *inside = (struct new_inside){.bandwidth = machine->slot};
    machine->inside_source =
        inside->links == LINKS_NONE
            ? base_format("%s: PCI Express %lld.0, 16 lanes", device->name, (long long)device->pcie)
            : base_format("%s: %s", device->name, device->links.bandwidth.source);
    if (inside->bandwidth > 0)
        return 0;
    return err_usage(
        err,
        "%s: its file does not say what joins the devices of a node (links) or its slot (pcie); "
        "give it, as in --inside nvlink:900GB/s, --inside xgmi:64GB/s@mesh or --inside pcie5",
        device->name);
}

static int find_inside(struct machine *machine, bool same, struct err *err)
{
    const struct device *device = device_of(machine);
    const char *given = machine->request->inside;
    machine->slot = device->pcie ? device_slot_bandwidth(device->pcie) : 0;
    if (!given && take_inside(machine, same, err))
        return -1;
    if (given && new_read_inside(&machine->inside, given, err))
        return -1;
    if (given)
        machine->inside_source = base_copy("given to foretrain new");
    if (machine->inside.pcie)
        machine->slot = machine->inside.bandwidth;
    else if (!(machine->slot > 0))
        machine->slot = device_slot_bandwidth(5);
    return 0;
}

/* Networks of less than 56 Gb/s a card are hardly InfiniBand today. */
static int find_fabric(struct machine *machine, struct err *err)
{
    const char *given = machine->request->fabric;
    machine->fabric = machine->rate < 7e9 ? FABRIC_TCP : FABRIC_INFINIBAND;
    machine->fabric_given = given;
    int32_t word = given ? base_find_word(given, fabric_names) : FABRIC_INFINIBAND;
    if (word <= FABRIC_UNKNOWN)
        return option_unknown(err, "--fabric", given, fabric_names + 1);
    if (given)
        machine->fabric = (enum fabric_kind)word;
    return 0;
}

/* Part of the links' bandwidth that payload gets. */
static double find_efficiency(const struct machine *machine, enum device_links links,
                              const char **source)
{
    static const struct row {
        enum device_links links;
        int32_t from; /* compute capability */
        double efficiency;
        const char *source;
    } rows[] = {
        {LINKS_NVLINK, 100, .802, "NCCL 2.28 src/graph/topo.h: SM100_NVLINK_BW 40.1 GB/s of 50"},
        {LINKS_NVLINK, 90, .824, "NCCL 2.28 src/graph/topo.h: SM90_NVLINK_BW 20.6 GB/s of 25"},
        {LINKS_NVLINK, 70, .8, "NCCL 2.28 src/graph/topo.h: SM80_NVLINK_BW 20.0 GB/s of 25"},
        {LINKS_NVLINK, 0, .9, "NCCL 2.28 src/graph/topo.h: SM60_NVLINK_BW 18.0 GB/s of 20"},
        {LINKS_XGMI, 0, .75, "RCCL 2.27 src/graph/topo.h: GFX94X_XGMI_WIDTH 48 GB/s of 64"},
        {LINKS_ROCE, 0, .96, "as a network card"},
        {LINKS_SOCKET, 0, .7, "nobody published what MPI reaches over it"},
        {LINKS_NONE, 0, .762,
         "NCCL 2.28 src/graph/topo.h: PCI_BW 12.0 GB/s for Gen3 x16 of 15.754"},
    };
    const struct row *row = rows;
    while (row->links != links || row->from > device_of(machine)->compute_capability)
        row++;
    *source = row->source;
    return row->efficiency;
}

/* A network: half of the way through its switches, what software adds to a message, and the part of
 * a card's bandwidth that payload gets. */
static const struct network {
    double latency;
    const char *latency_source;
    double between, spread; /* between 0: NCCL's figure */
    const char *between_source;
    double efficiency;
    const char *efficiency_source;
} networks[FABRIC_COUNT] = {
    [FABRIC_INFINIBAND] = {195e-9, "half of leaf, spine, leaf at 130 ns a switch", 0, .4,
                           "over InfiniBand", .96,
                           "NCCL 2.28 src/graph/topo.h: NET_BW 12.0 GB/s of 12.5 for 100 Gb/s"},
    [FABRIC_ROCE] = {1.2e-6, "half of leaf, spine, leaf at 0.8 us an Ethernet switch", 0, .4,
                     "over RoCE", .96,
                     "NCCL 2.28 src/graph/topo.h: NET_BW 12.0 GB/s of 12.5 for 100 Gb/s"},
    [FABRIC_EFA] = {0, "contained in transport.between", 34e-6, .49,
                    "over EFA: 15 us of MPI (AWS, recalled) to 75 us of aws-ofi-nccl's "
                    "platform-aws.cpp for p5, geometric mean",
                    .96, "as InfiniBand of the same rate"},
    [FABRIC_SLINGSHOT] = {525e-9, "half of three switches at 350 ns (De Sensi et al., SC20)",
                          5.3e-6, .59,
                          "over Slingshot: 2 us of MPI (De Sensi et al., SC20, recalled) to 14 us "
                          "of NCCL's Simple, geometric mean",
                          .96, "as InfiniBand of the same rate"},
    [FABRIC_OMNI_PATH] = {165e-9, "half of leaf, spine, leaf at 110 ns a switch (recalled)", 2e-6,
                          .4, "MPI over Omni-Path, about 1 us, with its copy", .96,
                          "as InfiniBand of the same rate"},
    [FABRIC_TCP] = {1.2e-6, "half of leaf, spine, leaf at 0.8 us an Ethernet switch", 27e-6, .37,
                    "over TCP: 15 to 50 us through the kernels of both ends, geometric mean", .941,
                    "1448 bytes of payload in a frame of 1538"},
};

static void add_number(struct text *out, int32_t indent, const char *key, enum unit unit,
                       double value, const char *source)
{
    field_write_quantity(out, indent, key, PROVENANCE_ASSUMED, 0, source, "%s",
                         unit_text(unit, value));
}

static bool has_plane(const struct machine *machine)
{
    return machine->inside.links != LINKS_NONE && machine->inside.links != LINKS_SOCKET;
}

/* ---- sections ---- */

/* The first @count called @end, or pairs of each with its part of @groups called @to. */
static void add_edges(const struct machine *machine, const char *link, const char *end,
                      int32_t count, const char *to, int32_t first, int32_t groups)
{
    text_add(machine->out, "    - {link: %s, %s: [", link, to ? "connect" : "all_to_all");
    for (int32_t i = 0; i < count; i++) {
        text_add(machine->out, "%s%s%d", i ? ", " : "", end, i);
        if (to)
            text_add(machine->out, "-%s%d", to, first + (int32_t)((int64_t)i * groups / count));
    }
    text_add(machine->out, "]}\n");
}

/* Of a kind of cable or an uplink, whose latency something else contains. */
static void add_rates(struct text *out, double bandwidth, const char *source, double efficiency,
                      const char *efficiency_source, const char *latency_source)
{
    add_number(out, 6, "bandwidth", UNIT_BYTES_PER_SECOND, bandwidth, source);
    add_number(out, 6, "efficiency", UNIT_FRACTION, efficiency, efficiency_source);
    add_number(out, 6, "latency", UNIT_SECONDS, 0, latency_source);
}

static void add_links(const struct machine *machine)
{
    const char *source;
    double efficiency = find_efficiency(machine, machine->inside.links, &source);
    text_add(machine->out, "  links:\n    - name: inside\n");
    add_rates(machine->out, machine->inside.bandwidth, machine->inside_source, efficiency, source,
              "contained in transport");
    if (machine->inside.links == LINKS_NONE || !machine->nics)
        return;
    efficiency = find_efficiency(machine, LINKS_NONE, &source);
    text_add(machine->out, "    - name: pcie\n");
    add_rates(machine->out, machine->slot,
              device_of(machine)->pcie ? "the slot of the device: PCI Express, 16 lanes"
                                       : "PCI Express 5.0, 16 lanes: the device file does not say",
              efficiency, source, "contained in transport");
}

/* Devices meet in a plane of switches or a mesh, and share switches of PCIe with the cards; or at
 * the processor. */
static void add_node(const struct machine *machine)
{
    struct text *out = machine->out;
    bool plane = has_plane(machine), mesh = plane && machine->inside.mesh;
    int32_t groups = machine->nics < machine->gpus ? machine->nics : machine->gpus;
    text_add(out, "\nnode:\n  devices: %d\n", machine->gpus);
    if (!plane)
        text_add(out, "  cpus: 1\n");
    else if (!mesh)
        text_add(out,
                 "  switches: %d    # switch0 joins all devices; the others devices and cards\n",
                 1 + groups);
    else if (groups)
        text_add(out, "  switches: %d    # of PCIe, for devices and cards\n", groups);
    if (machine->nics)
        text_add(out, "  nics: %d\n", machine->nics);
    add_links(machine);
    text_add(out, "  edges:\n");
    const char *hub = plane ? "switch" : "cpu";
    add_edges(machine, "inside", "gpu", machine->gpus, mesh ? NULL : hub, 0, 1);
    if (plane && machine->nics)
        add_edges(machine, "pcie", "gpu", machine->gpus, hub, !mesh, groups);
    if (machine->nics)
        add_edges(machine, machine->inside.links == LINKS_NONE ? "inside" : "pcie", "nic",
                  machine->nics, hub, plane && !mesh, plane ? groups : 1);
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
    add_rates(machine->out, machine->rate, "as a network card", 0.96, "as a network card",
              "contained in the network card's latency");
}

static void add_limits(const struct machine *machine)
{
    if (machine->rate > machine->slot)
        text_add(machine->out, "    # Faster than PCIe to it (%.4g GB/s), which limits it.\n",
                 1e-9 * machine->slot);
    double staged = NCCL_SOCKETS_BANDWIDTH / (machine->nics * machine->rate);
    if (machine->nics < machine->gpus && staged < 0.96)
        text_add(machine->out,
                 "    # Fewer cards than devices: where messages pass through host memory, all "
                 "cards of a\n    # node carry about %g GB/s (efficiency: %.0f %%).\n",
                 1e-9 * NCCL_SOCKETS_BANDWIDTH, 100 * staged);
}

/* @same: what the platform that is extended says of its network stays, if none is given. */
static void add_network(const struct machine *machine, bool same)
{
    struct text *out = machine->out;
    const struct network *network = &networks[machine->fabric];
    bool tiers = same && !machine->request->leaves && platform_uplinks(machine->near, 0) > 0;
    if (!machine->nics) {
        text_add(out, tiers ? "\nnetwork:\n  tiers: null\n" : "");
        return;
    }
    bool whole = !same || machine->fabric_given;
    text_add(out, "\nnetwork:\n");
    if (whole)
        text_add(out, "  fabric: %s%s\n", fabric_names[machine->fabric],
                 machine->fabric_given ? "" : "    # assumed: --fabric names another");
    text_add(out, "  nic:\n");
    add_number(out, 4, "bandwidth", UNIT_BYTES_PER_SECOND, machine->rate, "given to foretrain new");
    add_limits(machine);
    if (whole) {
        add_number(out, 4, "efficiency", UNIT_FRACTION, network->efficiency,
                   network->efficiency_source);
        add_number(out, 4, "latency", UNIT_SECONDS, network->latency, network->latency_source);
    }
    text_add(out, tiers ? "  tiers: null\n" : "");
    add_tiers(machine);
}

/* What software adds to a message: NCCL's hop by LL128, which needs links, or by Simple. */
static void add_transport(const struct machine *machine, bool same)
{
    struct text *out = machine->out;
    const struct network *network = &networks[machine->fabric];
    bool sockets = device_of(machine)->links.kind == LINKS_SOCKET, plane = has_plane(machine);
    double between = network->between > 0 ? network->between
                     : sockets            ? 2e-6
                     : plane              ? 4e-6
                                          : 14e-6;
    AUTOFREE char *source = base_format(
        "%s%s%s",
        network->between > 0 ? ""
        : sockets            ? "MPI, about 1 us, with its copy, "
        : plane              ? "NCCL 2.28 src/graph/tuning.cc: a ring's hop by LL128, "
                             : "NCCL 2.28 src/graph/tuning.cc: a ring's hop by Simple, ",
        network->between_source, machine->fabric_given ? "" : "; --fabric was not given");
    text_add(out, "\ntransport:    # what software adds to every message\n");
    if (!same)
        add_number(out, 2, "inside", UNIT_SECONDS,
                   sockets ? 1e-6
                   : plane ? 1.9e-6
                           : 5.7e-6,
                   sockets ? "MPI through shared memory"
                   : plane ? "NCCL 2.28 src/graph/tuning.cc: a ring's hop over NVLink by LL128"
                           : "NCCL 2.28 src/graph/tuning.cc: a ring's hop over PCIe by Simple");
    field_write_quantity(out, 2, "between", PROVENANCE_ASSUMED, network->spread, source, "%s",
                         unit_text(UNIT_SECONDS, between));
}

static void add_nccl(const struct machine *machine)
{
    const struct device *device = device_of(machine);
    int64_t capability = device->compute_capability;
    if (!capability)
        return;
    bool plane = has_plane(machine);
    text_add(machine->out,
             "\nnccl:    # for allreduce.algorithm: nccl\n"
             "  intra: %s\n"
             "  channels: %d    # assumed: as of such nodes in this library\n  sharp: false%s\n",
             plane ? "nvlink" : "pci",
             !plane             ? 2
             : capability >= 90 ? 16
             : capability >= 80 ? 24
                                : 12,
             machine->fabric == FABRIC_INFINIBAND
                 ? "    # true where the switches of the network reduce"
                 : "");
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
    if (is_torus(machine))
        return;
    text_add(out, "nodes: %d\n", request->nodes);
    if (!same)
        add_node(machine);
    add_network(machine, same);
    if (!same || machine->fabric_given)
        add_transport(machine, same);
    if (!same)
        add_nccl(machine);
    else if (device_of(machine)->compute_capability)
        text_add(out,
                 "\nnccl:\n  sharp: false    # true where the switches of the network reduce\n");
}

int new_platform(const struct new_request *request, struct text *out, struct err *err)
{
    struct machine machine = {.request = request, .out = out};
    bool same = false;
    machine.gpu = read_times(request->gpus, &machine.gpus);
    if (request->nodes < 1 || !machine.gpu || !*machine.gpu)
        return err_usage(
            err,
            "a platform needs --nodes N, --gpus with 1 to 256 of a device and, for several nodes, "
            "--nics, as in: foretrain new platform --nodes 16 --gpus 8xh100 --nics 8x400Gb/s");
    int failed = read_nics(&machine, err) || find_near(&machine, &same, err) ||
                 find_inside(&machine, same, err) || need_nics(&machine, err) ||
                 check_leaves(&machine, err) || find_fabric(&machine, err);
    if (!failed)
        add_platform(&machine, same);
    platform_free(machine.near);
    device_release(&machine.device);
    free(machine.near_name);
    free(machine.inside_source);
    return failed ? -1 : 0;
}
