#include "core/platform/device_table.h"

const char *const platform_kind_names[] = {"cluster", "torus", "ring", NULL};
static_assert(ARRAY_SIZE(platform_kind_names) == PLATFORM_KIND_COUNT + 1, "one name a kind");

const char *const placement_names[] = {"contiguous", "scattered", NULL};
static_assert(ARRAY_SIZE(placement_names) == PLACEMENT_COUNT + 1, "one name a placement");

const char *const device_links_names[] = {"none",   "nvlink",  "xgmi",    "roce", "socket",
                                          "neuron", "torus2d", "torus3d", NULL};
static_assert(ARRAY_SIZE(device_links_names) == LINKS_COUNT + 1, "one name each");

const char *const fabric_names[] = {"unknown",   "infiniband", "roce", "efa",
                                    "slingshot", "omni-path",  "tcp",  NULL};
static_assert(ARRAY_SIZE(fabric_names) == FABRIC_COUNT + 1, "one name each");

#define ROW(...) FIELD_ROW(__VA_ARGS__)
#define TEXT(key, record, member, meaning)                                                         \
    ROW(key, record, member, REQUIRED, meaning, .kind = FIELD_TEXT)
#define COUNTED(key, record, member, missing, high, meaning)                                       \
    ROW(key, record, member, missing, meaning, .kind = FIELD_INTEGER, .minimum = 1, .maximum = high)
#define REQUIRED NULL
#define OPTIONAL ""

#define QUANTITY(key, record, member, missing, measure, low, high, meaning)                        \
    ROW(key, record, member, missing, meaning, .kind = FIELD_QUANTITY, .unit = measure,            \
        .minimum = low, .maximum = high)
#define BANDWIDTH(key, record, member, missing)                                                    \
    QUANTITY(key, record, member, missing, UNIT_BYTES_PER_SECOND, 1, 1e15,                         \
             "what the cable carries in one direction")
#define EFFICIENCY(key, record, member, missing)                                                   \
    QUANTITY(key, record, member, missing, UNIT_FRACTION, 1e-3, 1,                                 \
             "the part of the bandwidth that is left for payload")
#define LATENCY(key, record, member, missing)                                                      \
    QUANTITY(key, record, member, missing, UNIT_SECONDS, 0, 1,                                     \
             "time from one end to the other, with the switch behind it")

static const struct field link_rows[] = {
    TEXT("name", link_record, name, "what edges call this kind of link"),
    BANDWIDTH("bandwidth", link_record, bandwidth, REQUIRED),
    EFFICIENCY("efficiency", link_record, efficiency, REQUIRED),
    LATENCY("latency", link_record, latency, REQUIRED),
};
static const struct field_table link_table = FIELD_TABLE("link", link_rows, struct link_record);

static const struct field edge_rows[] = {
    TEXT("link", edge_record, link, "the kind of link of these cables"),
    ROW("connect", edge_record, connect, OPTIONAL, "pairs such as gpu0-switch0, one cable each",
        .kind = FIELD_TEXTS),
    ROW("all_to_all", edge_record, all_to_all, OPTIONAL, "vertices of which every pair has a cable",
        .kind = FIELD_TEXTS),
};
static const struct field_table edge_table = FIELD_TABLE("edge", edge_rows, struct edge_record);

static const struct field tier_rows[] = {
    TEXT("name", tier_record, name, "what one group is called, such as rack"),
    COUNTED("nodes", tier_record, nodes, REQUIRED, 1e6, "nodes in one group"),
    COUNTED("uplinks", tier_record, uplinks, REQUIRED, 1e6,
            "cables from one group to the switches above"),
    COUNTED("rails", tier_record, rails, "1", 64,
            "switches side by side in one group: card k of a node is on switch k modulo this "
            "number, with its part of the uplinks"),
    BANDWIDTH("bandwidth", tier_record, uplink.bandwidth, REQUIRED),
    EFFICIENCY("efficiency", tier_record, uplink.efficiency, REQUIRED),
    LATENCY("latency", tier_record, uplink.latency, REQUIRED),
};
static const struct field_table tier_table = FIELD_TABLE("tier", tier_rows, struct tier_record);

static const struct field correction_rows[] = {
    ROW("protocol", nccl_correction, protocol, REQUIRED, "of NCCL", .kind = FIELD_WORD,
        .words = nccl_protocol_names),
    ROW("transfer", nccl_correction, transfer, REQUIRED,
        "what the bytes take at the bandwidth of NCCL's model", .kind = FIELD_REAL,
        .unit = UNIT_SECONDS, .minimum = 1e-15, .maximum = 1e6),
    ROW("factor", nccl_correction, factor, REQUIRED, "the time measured over the model's",
        .kind = FIELD_REAL, .unit = UNIT_FRACTION, .minimum = 1e-3, .maximum = 1e3),
};
static const struct field_table correction_table =
    FIELD_TABLE("correction", correction_rows, struct nccl_correction);

#define LINK(key, member)                                                                          \
    BANDWIDTH(key ".bandwidth", platform, member.bandwidth, OPTIONAL),                             \
        EFFICIENCY(key ".efficiency", platform, member.efficiency, OPTIONAL),                      \
        LATENCY(key ".latency", platform, member.latency, OPTIONAL)
#define VERTICES(key, which, meaning)                                                              \
    COUNTED(key, platform, node.count[which], OPTIONAL, 256, meaning)

#define SEED(key, member, meaning)                                                                 \
    ROW(key, platform, member, "1", meaning, .kind = FIELD_INTEGER, .minimum = 0, .maximum = 0x1p53)

static const struct field platform_rows[] = {
    COUNTED("version", platform, version, REQUIRED, 1, "of this format"),
    TEXT("name", platform, name, "the file's name without .yaml"),
    TEXT("description", platform, description, "one line for people"),
    ROW("kind", platform, kind, REQUIRED, "the shape of the network", .kind = FIELD_WORD,
        .words = platform_kind_names),
    TEXT("device", platform, device_name, "a file of platforms/devices without .yaml, or a path"),
    COUNTED("nodes", platform, nodes, OPTIONAL, 1e6, "how many there are, of a cluster"),
    VERTICES("node.devices", VERTEX_DEVICE, "devices in a node: gpu0, gpu1, ..."),
    VERTICES("node.switches", VERTEX_SWITCH, "switches in a node: switch0, ..."),
    VERTICES("node.cpus", VERTEX_CPU, "CPU sockets in a node: cpu0, ..."),
    VERTICES("node.nics", VERTEX_NIC, "network cards in a node: nic0, ..."),
    ROW("node.links", platform, node.links, OPTIONAL, "kinds of cable inside a node",
        .kind = FIELD_LIST, .table = &link_table),
    ROW("node.edges", platform, node.edges, OPTIONAL, "the cables inside a node",
        .kind = FIELD_LIST, .table = &edge_table),
    QUANTITY("node.contention", platform, node.contention, OPTIONAL, UNIT_FRACTION, 0, 10,
             "how much longer a device computes while all others of its node compute"),
    COUNTED("node.cores", platform, node.cores, OPTIONAL, 64,
            "devices that compute at once, where more are ranks that take turns"),
    QUANTITY("node.mtbf", platform, node.mtbf, OPTIONAL, UNIT_SECONDS, 1, 1e12,
             "mean time between failures of one node that end a job"),
    ROW("network.fabric", platform, fabric, "unknown",
        "what the network is; switches can reduce (nccl.sharp) on InfiniBand alone",
        .kind = FIELD_WORD, .words = fabric_names),
    LINK("network.nic", nic),
    ROW("network.tiers", platform, tiers, OPTIONAL, "groups of nodes with uplinks, smallest first",
        .kind = FIELD_LIST, .table = &tier_table),
    ROW("network.routing", platform, routing, "ideal",
        "how a message finds its way among the uplinks: over all of them evenly, over one by the "
        "destination (D-mod-k), or over one by a hash of both devices (ECMP)",
        .kind = FIELD_WORD, .words = routing_names),
    SEED("network.routing_seed", routing_seed, "of the hash"),
    ROW("network.placement", platform, placement, "contiguous",
        "the nodes of a job: the first ones, or a random sample in random order",
        .kind = FIELD_WORD, .words = placement_names),
    SEED("network.placement_seed", placement_seed, "of the random sample"),
    QUANTITY(
        "network.mtbf", platform, network_mtbf, OPTIONAL, UNIT_SECONDS, 1, 1e12,
        "mean time between failures of what all nodes share, which end any job of several nodes"),
    QUANTITY("transport.inside", platform, transport.inside, OPTIONAL, UNIT_SECONDS, 0, 1,
             "what software adds to every message inside a node"),
    QUANTITY("transport.between", platform, transport.between, OPTIONAL, UNIT_SECONDS, 0, 1,
             "what software adds to every message between nodes"),
    QUANTITY("transport.eager", platform, transport.eager, OPTIONAL, UNIT_BYTES, 0, 1e12,
             "messages up to this size are handed over at once: their sender need not wait for "
             "their arrival"),
    ROW("transport.payload", platform, transport.payload, OPTIONAL,
        "the type in which gradients travelled while the links were measured", .kind = FIELD_WORD,
        .words = dtype_names),
    LINK("torus.row", row),
    LINK("torus.column", column),
    LINK("torus.depth", depth),
    LINK("ring", ring),
    ROW("nccl.intra", platform, nccl.intra, OPTIONAL, "how NCCL's rings run inside a node",
        .kind = FIELD_WORD, .words = nccl_intra_names),
    COUNTED("nccl.channels", platform, nccl.channels, OPTIONAL, 64,
            "rings or trees that NCCL runs side by side"),
    QUANTITY("nccl.intra_bandwidth", platform, nccl.intra_bandwidth, OPTIONAL,
             UNIT_BYTES_PER_SECOND, 1, 1e15,
             "of all of NCCL's rings inside a node together, where they reach less than the links "
             "of a device, which count when not given"),
    ROW("nccl.sharp", platform, nccl.sharp, OPTIONAL, "whether the network's switches can reduce",
        .kind = FIELD_BOOLEAN),
    ROW("nccl.version", platform, nccl.version, OPTIONAL,
        "of NCCL where it was measured, 100 * major + minor; the default of this platform",
        .kind = FIELD_INTEGER, .minimum = 203, .maximum = 399),
    COUNTED("nccl.measured_nodes", platform, nccl.measured_nodes, OPTIONAL, 1e6,
            "nodes on which the corrections were measured"),
    ROW("nccl.corrections", platform, nccl.corrections, OPTIONAL,
        "what a measurement showed, beside NCCL's model: 'foretrain import nccl-tests' writes them",
        .kind = FIELD_LIST, .table = &correction_table),
};
const struct field_table platform_table = FIELD_TABLE("platform", platform_rows, struct platform);

static const struct field device_rows[] = {
    TEXT("name", device, name, "the file's name without .yaml"),
    TEXT("description", device, description, "one line for people"),
    QUANTITY("peak.fp32", device, peak[DTYPE_FP32], REQUIRED, UNIT_FLOPS, 1, 1e21,
             "arithmetic on fp32"),
    QUANTITY("peak.fp16", device, peak[DTYPE_FP16], OPTIONAL, UNIT_FLOPS, 1, 1e21,
             "matrix arithmetic on fp16; without it the device has none"),
    QUANTITY("peak.bf16", device, peak[DTYPE_BF16], OPTIONAL, UNIT_FLOPS, 1, 1e21,
             "matrix arithmetic on bf16; without it the device has none"),
    QUANTITY("peak.tf32", device, peak_tf32, OPTIONAL, UNIT_FLOPS, 1, 1e21,
             "matrix arithmetic on fp32 that is rounded to tf32, where the software does so"),
    QUANTITY("peak.fp8", device, peak_products[PRODUCTS_FP8], OPTIONAL, UNIT_FLOPS, 1, 1e21,
             "matrix arithmetic on fp8; without it the device has none"),
    QUANTITY("peak.fp4", device, peak_products[PRODUCTS_FP4], OPTIONAL, UNIT_FLOPS, 1, 1e21,
             "matrix arithmetic on fp4; without it the device has none"),
    QUANTITY("sustained", device, sustained, OPTIONAL, UNIT_FRACTION, 1e-3, 1,
             "the part of the peak that its best matrix product reaches for a second: the ceiling "
             "under software that knows kinds of kernels"),
    QUANTITY("sustained_fp8", device, sustained_fp8, OPTIONAL, UNIT_FRACTION, 1e-3, 1,
             "the part of peak.fp8 and peak.fp4 that the best product on fp8 reaches; sustained "
             "when not given"),
    QUANTITY("memory_bandwidth", device, memory_bandwidth, REQUIRED, UNIT_BYTES_PER_SECOND, 1, 1e18,
             "of the device's own memory"),
    QUANTITY("memory", device, memory, REQUIRED, UNIT_BYTES, 1, 1e15, "of the device"),
    QUANTITY("math_efficiency", device, math_efficiency, OPTIONAL, UNIT_FRACTION, 1e-3, 1,
             "the part of the peak that a large kernel reaches; as of the devices with runs when "
             "not given, like the next two"),
    QUANTITY("memory_efficiency", device, memory_efficiency, OPTIONAL, UNIT_FRACTION, 1e-3, 1,
             "the part of the memory bandwidth that a large kernel reaches"),
    QUANTITY("kernel_overhead", device, kernel_overhead, OPTIONAL, UNIT_SECONDS, 0, 1,
             "added to every kernel: launch, ramp-up, tail"),
    QUANTITY("iteration_overhead", device, iteration_overhead, OPTIONAL, UNIT_SECONDS, 0, 1,
             "added to every training step: from its last kernel to the next one's first"),
    QUANTITY("compute_slowdown", device, compute_slowdown, OPTIONAL, UNIT_FRACTION, 0, 1,
             "how much longer a device computes while a collective of it is in flight"),
    QUANTITY("communication_slowdown", device, communication_slowdown, OPTIONAL, UNIT_FRACTION, 0,
             1, "how much longer a collective takes while its device computes"),
    QUANTITY("launch", device, launch, OPTIONAL, UNIT_SECONDS, 0, 1,
             "what the host takes to launch a kernel: a step takes at least that for each of its "
             "kernels"),
    QUANTITY("experts_launch", device, experts_launch, OPTIONAL, UNIT_SECONDS, 0, 1,
             "the same of networks with experts, whose numbers of positions the host waits for"),
    QUANTITY("collective_launch", device, collective_launch, OPTIONAL, UNIT_SECONDS, 0, 1,
             "what the host takes to launch a collective, before its first message"),
    QUANTITY("jitter", device, jitter, OPTIONAL, UNIT_FRACTION, 0, 1,
             "coefficient of variation of its step time, where noise.compute_cv does not say one"),
    ROW("other_networks", device, other_networks, "55 %",
        "relative standard deviation of what a network of shapes takes that were not measured, "
        "beside those under 'measured'",
        .kind = FIELD_REAL, .unit = UNIT_FRACTION, .minimum = 0, .maximum = 10),
    COUNTED("compute_capability", device, compute_capability, OPTIONAL, 200,
            "of a device that runs CUDA: 10 * major + minor"),
    COUNTED("multiprocessors", device, multiprocessors, OPTIONAL, 1e5,
            "of the device, all of which a matrix product of many tiles keeps busy; without it "
            "small products are as fast as large ones"),
    ROW("pcie", device, pcie, OPTIONAL,
        "generation of its PCI Express slot of 16 lanes, for 'foretrain new platform'",
        .kind = FIELD_INTEGER, .minimum = 3, .maximum = 7),
    ROW("links.kind", device, links.kind, "none",
        "what joins the devices of a node, for 'foretrain new platform'", .kind = FIELD_WORD,
        .words = device_links_names),
    ROW("links.mesh", device, links.mesh, "false",
        "whether each device of a node has a link to each other one, instead of to switches",
        .kind = FIELD_BOOLEAN),
    QUANTITY("links.bandwidth", device, links.bandwidth, OPTIONAL, UNIT_BYTES_PER_SECOND, 1, 1e15,
             "of a device to all others together, one way (data sheets of NVLink count both); in a "
             "mesh to one of them"),
    ROW("fusion", device, fusion, OPTIONAL,
        "which operations the software merges into one kernel; when not given as of the devices "
        "with runs: mainloop from compute capability 90 on, else stats",
        .kind = FIELD_WORD, .words = fusion_names),
    ROW("profiles", device, profiles, OPTIONAL,
        "what the classes were fitted to: a step of such a network and batch is as uncertain as "
        "the profile, others as the numbers of the device",
        .kind = FIELD_LIST, .table = &device_profile_table),
    ROW("classes", device, classes, OPTIONAL,
        "what each class of steps reaches; others reach what the efficiencies above say",
        .kind = FIELD_LIST, .table = &device_class_table),
    ROW("measured.source", device, measured.source, OPTIONAL, "who measured the steps, and how",
        .kind = FIELD_TEXT),
    COUNTED("measured.threads", device, measured.threads, OPTIONAL, 4096,
            "threads that a rank computed with"),
    ROW("measured.steps", device, measured.steps, OPTIONAL,
        "steps that were measured: they go before the roofline", .kind = FIELD_LIST,
        .table = &device_row_table),
};
const struct field_table device_table = FIELD_TABLE("device", device_rows, struct device);
