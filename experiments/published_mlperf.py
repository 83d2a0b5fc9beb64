"""Runs of ResNet-50 in MLPerf Training as jobs, by rules that use only a row's own cells.

An empty cell has a usual value where the kind of node leaves little choice, marked as assumed in the
platform; otherwise the row is refused with the name of the missing fact.

What a run of several nodes leaves open is not decided silently: the first way to fill it is the
prediction, and all ways, each as likely as any other (assumed), make its interval:

  - the number of all-reduces that Horovod's cycle makes, if collectives take 30 % less or more than
    assumed: 6 to 17 for v0.5; "16-20 groups": 16 to 20;
  - whether messages are staged in host memory, where that is slower than the network cards;
  - whether switches reduced (SHARP), on InfiniBand from v1.0 on, where no known configuration says it;
  - whether batch norm was grouped where a device has few images, by others than NVIDIA.

No measured time of a run of several nodes had a part in these.
"""
import dataclasses
import functools
import json
import math
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]

NEEDED = {"round", "system", "acc_family", "n_acc", "step_ms"}
TEXTS = ("round", "submitter", "system", "acc_family", "form", "intra_link", "intra_topology", "fabric",
         "allreduce_scheduling")
# GB/s are of one device in both directions; nic_Gbps of one card, node_inter_Gbps of all of a node; trust 3: several
# runs that agree on known hardware, less: doubts; warmup_excess_s: time beside epochs and evaluations.
NUMBERS = ("n_nodes", "acc_per_node", "n_acc", "intra_GBps", "nics_per_node", "nic_Gbps", "node_inter_Gbps",
           "global_batch", "per_acc_batch", "steps_per_epoch", "step_ms", "ips", "ips_per_acc", "epochs_mean",
           "ttt_min_scored", "trust", "eval_s_total", "warmup_excess_s")
SIGNED = ("warmup_excess_s",)  # a difference
IGNORED = ("tier", "series", "ttt_min_std", "notes", "year", "source")
BACKEND = "sim"

EPOCH = 1281167  # images of ImageNet's training set
GRADIENT_BYTES = 51114064  # of ResNet-50 in half precision
TENSORS = 161
NORM_GROUP_BATCH = 18  # NVIDIA groups batch norm over two devices only where a device has 15 or 16 images
ASSUMED = 0.3  # how wrong an assumed number may be, as in app/predict/uncertainty.c
NET_PART = 0.96  # payload of a network card.  Source: NCCL 2.5.7 src/graph/topo.h: NET_WIDTH 12 GB/s of 12.5
SOCKETS = 16e9  # [B/s] between sockets.  Source: NCCL 2.18 src/graph/topo.h: AMD_BW
TRUSTED = 3


class Refused(Exception):
    """Which fact of a row is missing or unknown."""


@dataclasses.dataclass
class Mapped:
    """A row as jobs: files by name, of which `names` are the ways to fill what it leaves open."""
    files: dict
    names: list
    refused: str  # why it cannot be predicted, though it was measured
    without_extra: dict  # sets that leave out what the job has beside the device's own kernels
    measured: float  # [s] of a step
    steps: float  # of the whole training; NAN: not known
    role: str  # "calibration": devices were fitted to it; "check": no constant may come from it
    open: str
    nodes: int
    devices: int
    batch: int
    software: str
    family: str
    measured_evaluation: float
    measured_train: float
    network: str = ""  # of other networks than resnet50
    device: str = ""
    precision: str = ""
    passes: int = 1
    memory: float = math.nan  # [bytes] of a device, measured
    sets: dict = dataclasses.field(default_factory=dict)  # values that no job says


# ---- facts ----

# By family, whether on PCIe, and devices of a node (0: any): the link, GB/s of a device in both directions, network
# cards (0: too different from node to node) and Gb/s of each.
USUAL = (
    ("V100", False, 16, "NVLink2", 300, 8, 100),  # DGX-2
    ("V100", False, 8, "NVLink2", 300, 4, 100),  # DGX-1
    ("V100", False, 4, "NVLink2", 300, 2, 100),  # ABCI
    ("V100", True, 0, "PCIe3", 32, 1, 100),
    ("V100S", True, 0, "PCIe3", 32, 1, 100),
    ("P100", False, 8, "NVLink1", 160, 4, 100),  # DGX-1
    ("A100", False, 8, "NVLink3", 600, 8, 200),  # DGX A100
    ("A100", False, 4, "NVLink3", 600, 2, 200),  # Dell XE8545
    ("A100", True, 0, "PCIe4", 64, 1, 100),  # Dell R750xa
    ("A30", True, 0, "PCIe4", 64, 1, 100),
    ("H100", False, 8, "NVLink4", 900, 8, 400),  # DGX H100
    ("H100", False, 4, "NVLink4", 900, 4, 400),  # Dell XE8640
    ("H100", True, 0, "PCIe5", 128, 1, 200),
    ("H200", False, 8, "NVLink4", 900, 8, 400),
    ("B200", False, 8, "NVLink5", 1800, 8, 400),
    ("L40S", True, 0, "PCIe4", 64, 2, 200),
    ("L40", True, 0, "PCIe4", 64, 1, 200),
    *((family, True, 0, "PCIe4", 64, 0, 0) for family in ("A40", "A10G", "A5000", "L4", "RTX3090", "RTX4090")))

# Whether NVLink, NCCL's figure over the data sheet's of the same link, B/s of PCIe in one direction, the PCIe beside
# it, and the source of the figure.
_PCI = "NCCL 2.18 src/graph/topo.h: PCI_BW 12 GB/s of 16"
LINKS = {
    "NVLink1": (True, 0.90, 0, "PCIe3", "NCCL 2.5.7 src/graph/topo.h: 18 GB/s of 20"),
    "NVLink2": (True, 0.84, 0, "PCIe3", "NCCL 2.5.7 src/graph/topo.h: 21 GB/s of 25"),
    "NVLink3": (True, 0.80, 0, "PCIe4", "NCCL 2.18 src/graph/topo.h: SM80_NVLINK_BW 20 GB/s of 25"),
    "NVLink4": (True, 0.824, 0, "PCIe5", "NCCL 2.18 src/graph/topo.h: SM90_NVLINK_BW 20.6 GB/s of 25"),
    "NVLink5": (True, 0.802, 0, "PCIe5", "NCCL 2.28 src/graph/topo.h: SM100_NVLINK_BW 40.1 GB/s of 50"),
    "PCIe3": (False, 0.75, 16e9, "PCIe3", _PCI),
    "PCIe4": (False, 0.75, 32e9, "PCIe4", _PCI + ", per generation"),
    "PCIe5": (False, 0.75, 64e9, "PCIe5", _PCI + ", per generation"),
}

# By family, form, what the system's name contains and the round, before which no larger memory was sold (0: any);
# the first that fits.
DEVICES = (
    ("V100", "PCIe", "", 0, "v100-pcie-16gb"), ("V100", "", "dgx2h", 0, "v100-sxm3-32gb-450w"),
    ("V100", "", "dgx2", 0, "v100-sxm3-32gb"), ("V100", "", "", 0, "v100-sxm2-16gb"),
    ("V100S", "", "", 0, "v100s-pcie-32gb"), ("A100", "PCIe", "80GB", 0, "a100-pcie-80gb"),
    ("A100", "PCIe", "40GB", 0, "a100-pcie-40gb"), ("A100", "PCIe", "", 1.1, "a100-pcie-40gb"),
    ("A100", "PCIe", "", 0, "a100-pcie-80gb"), ("A100", "", "80GB", 0, "a100-sxm4-80gb"),
    ("A100", "", "40GB", 0, "a100-sxm4-40gb"), ("A100", "", "", 1.0, "a100-sxm4-40gb"),
    ("A100", "", "", 0, "a100-sxm4-80gb"), ("A30", "", "", 0, "a30"), ("H100", "PCIe", "", 0, "h100-pcie-80gb"),
    ("H100", "", "", 0, "h100-sxm5-80gb"), ("H200", "", "", 0, "h200-sxm-141gb"), ("L40S", "", "", 0, "l40s"),
    ("L40", "", "", 0, "l40"), ("L4", "", "", 0, "l4"), ("A40", "", "", 0, "a40"), ("A10G", "", "", 0, "a10g"),
    ("A5000", "", "", 0, "a5000"), ("RTX3090", "", "", 0, "rtx-3090"), ("RTX4090", "", "", 0, "rtx-4090"),
    ("P100", "", "", 0, "p100-sxm2-16gb"), ("P40", "", "", 0, "p40"))

ROUNDS = (4.0, 3.1, 3.0, 2.1, 2.0, 1.1, 1.0, 0.7, 0.6, 0.5)


def round_of(row):
    """1.1 of "v1.1"; NAN: it is none of MLPerf's."""
    return float(row["round"][1:]) if re.fullmatch(r"v\d+(\.\d*)?", row["round"]) else math.nan


def software_of(row):
    """The software profile: that of the round, or of the latest before it."""
    if math.isnan(round_of(row)):
        return row["round"]
    return f"mlperf-v{next((at for at in ROUNDS if round_of(row) >= at), 0.5)}"


def device_of(row):
    """The device's name."""
    def fits(family, form, contains, before, _):
        return (family.lower() == row["acc_family"].lower() and (not form or form.lower() == row["form"].lower())
                and contains.lower() in row["system"].lower() and (not before or round_of(row) < before))
    found = next((rule[-1] for rule in DEVICES if fits(*rule)), None)
    if not found:
        raise Refused(f"{row['system']}: there is no device of acc_family '{row['acc_family']}', form '{row['form']}'")
    return found


@functools.cache
def profile(software, device):
    """Start-up [s], jitter [%] and cost of a kernel [us] of a software; (None, 0, 0): there is no such profile."""
    path = pathlib.Path(os.environ.get("FORETRAIN_DATADIR") or ROOT) / "platforms" / "software" / f"{software}.yaml"
    if not path.is_file():
        return None, 0, 0
    text = path.read_text("utf-8")

    def value(key, part):
        found = re.search(rf"^ *{key}: {{value: (\S+) ", part, re.MULTILINE)
        return float(found[1]) if found else None
    fit = re.search(rf"^  - device: {device}\n(?:    .*\n)*", text, re.MULTILINE)
    rest = re.search(r"^fallback:\n(?:  .*\n)*", text, re.MULTILINE)
    return value("startup", text), value("jitter", text), value("kernel_overhead", (fit or rest)[0])


def is_abci(row):
    """Whether the platform is one of the library."""
    return "abci" in row["system"].lower() and row["acc_per_node"] == 4


def by_nvidia(row):
    """Of NVIDIA, with or without a partner."""
    return row["submitter"].lower().startswith("nvidia")


def on_infiniband(row):
    """Several nodes, as far as the row tells."""
    return row["n_nodes"] > 1 and (not row["fabric"] or "infiniband" in row["fabric"].lower())


def has_sharp(row):
    """Configurations with SHARP.  Source: the published configurations and logs of MLPerf Training: NVIDIA v3.0 n64,
    n96, n448; v3.1 n8; v4.0 n316, and not v3.0 n8; Azure v2.0 n8.  NVIDIA's of v1.0 to v2.0 ask Slurm for the
    network's SHARP but set no NCCL_COLLNET_ENABLE, which is off by default."""
    if row["submitter"].lower() == "azure":
        return on_infiniband(row) and round_of(row) >= 2.0
    least = 8 if round_of(row) >= 3.1 else 64
    return on_infiniband(row) and by_nvidia(row) and round_of(row) >= 3.0 and row["n_nodes"] >= least


def sharp_is_open(row):
    """Whether no known configuration says it."""
    known = (round_of(row) <= 2.0 or round_of(row) >= 3.0 if by_nvidia(row)
             else row["submitter"].lower() == "azure" and round_of(row) >= 2.0)
    return on_infiniband(row) and round_of(row) >= 1.0 and not known


# ---- what a row has ----


def fill(row, product, a, b):
    """Numbers follow from each other: nodes x devices per node = devices, and so on."""
    if math.isnan(row[product]) and row[a] > 0 and row[b] > 0:
        row[product] = row[a] * row[b]
    if math.isnan(row[a]) and row[product] > 0 and row[b] > 0:
        row[a] = row[product] / row[b]
    if math.isnan(row[b]) and row[product] > 0 and row[a] > 0:
        row[b] = row[product] / row[a]


def check_count(row, column, limit):
    """A whole number from 1 to @limit."""
    value = row[column]
    if math.isnan(value):
        raise Refused(f"{row['system']}: the row does not give {column}")
    if not 1 <= value <= limit or value != int(value):
        raise Refused(f"{row['system']}: {column} is {value:g}; it must be a whole number from 1 to {limit}")


def complete(row):
    """The row with what follows from its cells."""
    row = dict(row)
    if math.isnan(row["n_nodes"]) and row["n_acc"] == 1:
        row["n_nodes"] = 1.0
    fill(row, "n_acc", "n_nodes", "acc_per_node")
    fill(row, "global_batch", "per_acc_batch", "n_acc")
    check_count(row, "n_nodes", 100000)
    check_count(row, "acc_per_node", 64)
    devices, batch, every = row["n_acc"], row["per_acc_batch"], row["global_batch"]
    if devices != row["n_nodes"] * row["acc_per_node"]:
        raise Refused(f"{row['system']}: n_acc is {devices:g}, but {row['n_nodes']:g} nodes of {row['acc_per_node']:g} "
                      f"have {row['n_nodes'] * row['acc_per_node']:g}")
    if every % devices > 0:
        raise Refused(f"{row['system']}: global_batch: {every:g} images cannot be divided evenly among {devices:g} "
                      "devices")
    check_count(row, "per_acc_batch", 100000)
    if every != batch * devices:
        raise Refused(f"{row['system']}: global_batch is {every:g}, but {devices:g} devices with {batch:g} images have "
                      f"{batch * devices:g}")
    return row


@dataclasses.dataclass
class Node:
    """A node, with what is assumed of it."""
    link: str = "PCIe4"  # of LINKS; one device in a node needs none
    bandwidth: float = 64e9  # [B/s] of a device, both directions
    assumed_link: bool = True
    nics: int = 0
    nic_bandwidth: float = 0.0  # [B/s] of one
    assumed_nics: bool = False


def missing(row, what, columns):
    """Refuse a row that leaves too much open."""
    raise Refused(f"{row['system']}: the row does not give {what} ({columns}), and there is no usual value for "
                  f"{row['acc_per_node']:g} {row['acc_family']} {row['form']}")


def node_of(row):
    """The links and cards of a node."""
    node = Node()
    usual = next((rule[3:] for rule in USUAL if rule[0] == row["acc_family"]
                  and rule[1] == (row["form"].lower() == "pcie") and rule[2] in (0, row["acc_per_node"])), None)
    if row["acc_per_node"] > 1:
        known = next((name for name in LINKS if name.lower() == row["intra_link"].lower()), None)
        if row["intra_link"] and not known:
            raise Refused(f"{row['system']}: intra_link '{row['intra_link']}' is not known")
        node.assumed_link = not known or math.isnan(row["intra_GBps"])
        if node.assumed_link and not usual:
            missing(row, "how devices of a node are connected", "intra_link, intra_GBps")
        node.link = known or usual[0]
        node.bandwidth = 1e9 * (usual[1] if node.assumed_link else row["intra_GBps"])
    if row["n_nodes"] > 1:
        nics, each, together = row["nics_per_node"], row["nic_Gbps"], row["node_inter_Gbps"]
        if not nics > 0 and together > 0:
            nics = max(1, int(together / each + 0.5)) if each > 0 else 1
        if not each > 0 and nics > 0:
            each = together / nics
        node.assumed_nics = not (nics > 0 and each > 0)
        if node.assumed_nics and not (usual and usual[2]):
            missing(row, "how a node reaches the network", "nics_per_node, nic_Gbps")
        node.nics = usual[2] if node.assumed_nics else int(nics)
        node.nic_bandwidth = 1e9 / 8 * (usual[3] if node.assumed_nics else each)
    return node


# ---- what a row leaves open ----


def staged_part(row, node):
    """What staging in host memory leaves of the cards' bandwidth."""
    apart = round_of(row) >= 1.0 and node.nics < row["acc_per_node"]
    return SOCKETS / (node.nics * node.nic_bandwidth) if apart and node.nics else math.inf


def groups_of(row, longer=1.0):
    """The number of all-reduces of a step, if a collective takes @longer times as long as assumed.

    Rounds before v1.0 began them during the backward pass, but they are modelled after it: NVIDIA's batch norm of that
    time is a persistent kernel, which does not progress while NCCL uses a part of the device, so that little or nothing
    overlaps.  From v1.0 on they no longer overlap.  Source: NVIDIA/nccl issues 338 and 661 (MXNet ResNet-50: 4 to 8 ms
    instead of 2 ms, complete only when the collective is); "Default is no NCCL and BWD overlap" in the configurations
    of v1.0.

    Horovod 0.15 collects ready gradients every 5 ms; a V100 took 0.79 ms per image on one node, two thirds of it in the
    backward pass (v0.5, dgx1_ngc18.11).  That pass continues while no collective runs; a collective takes 6 us per rank
    (NCCL 2.4.8 src/init.cc, ncclTreeThreshold())."""
    cycle, backward, rank = 5, 0.79 * 2 / 3, 6e-3  # [ms]
    text, many, at = row["allreduce_scheduling"].lower(), row["n_nodes"] > 1, round_of(row)
    if "per-tensor" in text or (not text and at < 0.6):
        return min(TENSORS, math.ceil(row["per_acc_batch"] * backward / max(cycle - longer * rank * row["n_acc"],
                                                                            cycle / 10)))
    if "20 groups (1 node) / 1 group" in text or (not text and at == 0.7):
        return 1 if many else 20
    if "16-20 groups" in text or (not text and at < 0.7):
        return 20 if not many or longer > 1 else 16
    return 1


@dataclasses.dataclass
class Way:
    """One way to fill it."""
    groups: int
    staged: bool
    sharp: bool
    norm_group: int


def ways_of(row, node):
    """All ways, the first of which is the prediction, and what is open, in words."""
    many = row["n_nodes"] > 1
    groups = groups_of(row)
    low, high = (groups_of(row, 1 - ASSUMED), groups_of(row, 1 + ASSUMED)) if many else (groups, groups)
    plain = many and not is_abci(row)  # a platform of the library is known
    stages, sharp = plain and staged_part(row, node) < NET_PART, plain and sharp_is_open(row)
    grouped = round_of(row) >= 1.0 and many and row["per_acc_batch"] <= NORM_GROUP_BATCH and row["acc_per_node"] % 2 == 0
    norm = grouped and not by_nvidia(row)
    words = [(high > low, f"{low} to {high} all-reduces"), (stages, "staging in host memory"), (sharp, "SHARP"),
             (norm, "groups of batch norm")]
    ways = [Way(number, not other_staged, has_sharp(row) != other_sharp, 2 if grouped != other_norm else 1)
            for other_norm in (False, True)[:1 + norm] for other_sharp in (False, True)[:1 + sharp]
            for other_staged in (False, True)[:1 + stages]
            for number in [groups, *(k for k in range(low, high + 1) if k != groups)]]
    return ways, ", ".join(word for is_open, word in words if is_open)


# ---- the platform ----


def quantity(value, source, assumed=False):
    """A number with its source."""
    return f"{{value: {value}, source: {json.dumps(source)}, kind: {'assumed' if assumed else 'published'}}}"


NOTHING = quantity("0 us", "contained in transport", True)


def add_link(out, name, bandwidth, assumed, link):
    """A kind of cable."""
    source = "usual for such nodes" if assumed else "column intra_GBps, one direction"
    out += [f"    - name: {name}", f"      bandwidth: {quantity(f'{bandwidth / 1e9:.9g} GB/s', source, assumed)}",
            f"      efficiency: {quantity(f'{100 * link[1]:.4g} %', link[4])}", f"      latency: {NOTHING}"]


def add_node(out, row, node, link):
    """Devices on NVLink reach each other directly or through switch0; on PCIe all meet in the last switch, since the
    row does not give their switches and CPUs.  NCCL's cost depends on the section nccl, not on these cables."""
    devices, many = int(row["acc_per_node"]), row["n_nodes"] > 1
    nvlink = link if devices > 1 and link[0] else None
    pcie = LINKS[link[3]] if many or (devices > 1 and not link[0]) else None
    mesh = nvlink and "direct mesh" in row["intra_topology"].lower()
    out += ["node:", f"  devices: {devices}"]
    if not nvlink and not pcie:
        return
    switches = bool(nvlink and not mesh) + bool(pcie)
    out += [f"  switches: {switches}"] * bool(switches) + [f"  nics: {node.nics}"] * many + ["  links:"]
    each, gpus = node.bandwidth / 2, [f"gpu{k}" for k in range(devices)]
    if nvlink:
        add_link(out, "nvlink", each / (devices - 1) if mesh else each, node.assumed_link, nvlink)
    if pcie:
        add_link(out, "pcie", pcie[2], bool(nvlink) or node.assumed_link, pcie)
    out += ["  edges:"]
    if nvlink:
        out += [f"    - {{link: nvlink, all_to_all: [{', '.join(gpus)}]}}" if mesh else
                f"    - {{link: nvlink, connect: [{', '.join(f'{gpu}-switch0' for gpu in gpus)}]}}"]
    if pcie:
        ends = gpus + [f"nic{k}" for k in range(node.nics)] * many
        out += [f"    - {{link: pcie, connect: [{', '.join(f'{end}-switch{switches - 1}' for end in ends)}]}}"]


def add_network(out, row, node, way):
    """The cards of a node."""
    part = min(NET_PART, staged_part(row, node) if way.staged else NET_PART)
    source = "usual for such nodes" if node.assumed_nics else "column nic_Gbps"
    efficiency = (quantity(f"{100 * part:.4g} %", "no GPUDirect RDMA: staged in host memory, NCCL 2.18 "
                           "src/graph/topo.h: AMD_BW 16 GB/s between sockets", True) if part < NET_PART else
                  quantity(f"{100 * part:.4g} %", "NCCL 2.5.7 src/graph/topo.h: NET_WIDTH 12 GB/s of 12.5"))
    out += ["network:", "  nic:",
            f"    bandwidth: {quantity(f'{node.nic_bandwidth / 1e9:.9g} GB/s', source, node.assumed_nics)}",
            f"    efficiency: {efficiency}", f"    latency: {NOTHING}"]


def channels_of(row, node):
    """Of NCCL's rings inside a node."""
    many = 12 if row["acc_per_node"] >= 8 else 8
    return {"NVLink4": 16, "NVLink3": 24}.get(node.link, many) if LINKS[node.link][0] else 2


def add_nccl(out, row, node, way):
    """Over PCIe a ring crosses the link between the sockets once each way.  Source: NCCL 2.18 src/graph/topo.h,
    SKL_QPI_BW and, for Sapphire Rapids, which came with PCIe 5, SRP_QPI_BW."""
    link = LINKS[node.link]
    port = node.bandwidth / 2 * link[1]
    ring = port if link[0] else min(port, 22e9 if node.link == "PCIe5" else 10e9)
    source = link[4] if link[0] else "NCCL 2.18 src/graph/topo.h: the link between sockets, or the port when narrower"
    out += ["nccl:", f"  intra: {'nvlink' if link[0] else 'pci'}", f"  channels: {channels_of(row, node)}",
            f"  sharp: {'true' if way.sharp else 'false'}",
            f"  intra_bandwidth: {quantity(f'{ring / 1e9:.9g} GB/s', source, node.assumed_link)}"]


def platform_text(row, node, device, way):
    """The platform of a row."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", row["system"] or "unnamed")
    if is_abci(row):
        return f"version: 1\nextends: abci\nname: abci\ndevice: {device}\n"
    out = ["version: 1", f"name: {json.dumps(name)}", f"description: {json.dumps(f'{name}, MLPerf Training ' + row['round'])}",
           "kind: cluster", f"device: {device}", f"nodes: {row['n_nodes']:.0f}"]
    add_node(out, row, node, LINKS[node.link])
    if row["n_nodes"] > 1:
        add_network(out, row, node, way)
    latency = quantity("0 us", "NCCL's own latencies are used", True)
    out += ["transport:", f"  inside: {latency}", f"  between: {latency}"]
    if row["n_acc"] > 1:
        add_nccl(out, row, node, way)
    return "\n".join(out) + "\n"


# ---- the job ----


def measured_text(row, step):
    """What was measured, for published_fit.py."""
    parts = [f"step: {1e3 * step:.9g} ms", f"software: {json.dumps(software_of(row))}"]
    if not math.isnan(row["warmup_excess_s"]):
        parts.append(f"startup: {row['warmup_excess_s']:.9g} s")
    if row["trust"] < TRUSTED:
        parts.append("doubtful: true")
    return f"measured: {{{', '.join(parts)}}}"


def job_text(row, platform, way, step):
    """The job of a row."""
    startup, jitter, _ = profile(software_of(row), device_of(row))
    nodes, software = int(row["n_nodes"]), [f"software: {software_of(row)}"] * (jitter > 0)
    epochs = row["epochs_mean"] if row["epochs_mean"] > 0 else 35
    out = ["version: 1", "model: {network: resnet50, image: 224, precision: {compute: fp16, gradients: fp16, master: "
           "fp32}}", f"cluster: {{{', '.join([f'platform: {platform}', f'nodes: {nodes}', *software])}, "
           f"devices_per_node: {row['acc_per_node']:.0f}}}", "training:", "  dataset: imagenet", "  phases:",
           f"    - {{epochs: {epochs:.9g}, batch_per_device: {row['per_acc_batch']:.0f}}}",
           "  optimizer: {name: lars, momentum: 0.9, weight_decay: 5e-5}", "  evaluate_every: 4 epochs",
           f"  batch_norm: {{group: {way.norm_group}}}",
           f"  startup: {0.6 + startup / nodes if startup is not None else 0:.9g} s"]
    if row["n_acc"] > 1:
        out += ["allreduce:"] + (["  algorithm: torus2d", "  column_algorithm: nccl",
                                  f"  grid: {{columns: 4, rows: {nodes}}}"] if is_abci(row) else ["  algorithm: nccl"])
        out += [f"  bucket: {GRADIENT_BYTES // way.groups + 1} B"] * (way.groups > 1) + ["  overlap: none"]
    out += ["baseline: {nodes: 1}", f"noise: {{compute_cv: {jitter:.6g} %}}"]
    return "\n".join(out + [measured_text(row, step)] * (step > 0)) + "\n"


def copies(row, way):
    """[us] between iterations: until Horovod 0.21 brought one kernel for all (HOROVOD_BATCH_D2D_MEMCOPIES), each tensor
    was copied into the fusion buffer and out again by its own launch; nothing hides the copies of the last
    all-reduce."""
    one_by_one = round_of(row) < 1.0 and row["n_acc"] > 1
    return 2 * TENSORS / way.groups * profile(software_of(row), device_of(row))[2] if one_by_one else 0


def add_way(files, row, node, number, way, step):
    """The files of one way.  @return the name of its job."""
    stem = f"{row['line']:04d}" + (f"-{number + 1}" if number else "")
    extra, device = copies(row, way), device_of(row)
    if extra:
        files[f"devices/{stem}.yaml"] = (
            f"extends: {device}\niteration_overhead: "
            + quantity(f"{extra:.9g} us", "two launches for each tensor of the last all-reduce", True) + "\n")
    if extra or not is_abci(row):
        files[f"platforms/{stem}.yaml"] = platform_text(row, node, f"../devices/{stem}.yaml" if extra else device, way)
    name = f"ways/{stem}.yaml" if number else f"{stem}.yaml"
    place = f"{'..' if number else '.'}/platforms/{stem}.yaml" if extra or not is_abci(row) else "abci"
    files[name] = job_text(row, place, way, step)
    return name


def steps_of(row):
    """Of an epoch."""
    if row["steps_per_epoch"] >= 1:
        return int(min(row["steps_per_epoch"], EPOCH))
    return math.ceil(EPOCH // int(row["n_acc"]) / row["per_acc_batch"])


def measured_of(row):
    """Seconds of a step: from the row, else from its images per second, over all steps of an epoch; NAN: neither."""
    rate = row["ips_per_acc"] * row["n_acc"] if math.isnan(row["ips"]) else row["ips"]
    of_rate = EPOCH / rate / steps_of(row) if rate > 0 else math.nan
    return of_rate if math.isnan(row["step_ms"]) else 1e-3 * row["step_ms"]


def read(row):
    """The row as jobs."""
    row = complete(row)
    node, device = node_of(row), device_of(row)
    ways, left_open = ways_of(row, node)
    files, step = {}, measured_of(row)
    names = [add_way(files, row, node, number, way, step) for number, way in enumerate(ways)]
    refused = (f"{row['system']}: round '{row['round']}' must be one of MLPerf Training (v0.5 ... v4.0)"
               if math.isnan(round_of(row)) else None if profile(software_of(row), device)[1] else
               f"{row['system']}: there is no software '{software_of(row)}'")
    return Mapped(files=files, names=names, refused=refused,
                  without_extra={"device.iteration_overhead": "0 us"} if copies(row, ways[0]) else {},
                  measured=step, steps=row["epochs_mean"] * steps_of(row) if row["epochs_mean"] > 0 else math.nan,
                  role="check" if row["n_nodes"] > 1 else "calibration", open=left_open, nodes=int(row["n_nodes"]),
                  devices=int(row["n_acc"]), batch=int(row["per_acc_batch"]), software=software_of(row),
                  family=row["acc_family"], measured_evaluation=row["eval_s_total"],
                  measured_train=60 * row["ttt_min_scored"])
