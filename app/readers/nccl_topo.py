"""NCCL's topology (NCCL_TOPO_DUMP_FILE), also as RCCL writes it: a node."""
import itertools

import tree
from draft import Refused, plural

KNOWN = {"system", "cpu", "pci", "gpu", "nvlink", "xgmi", "nic", "net", "c2c"}
GEN3_X16 = 15.754e9  # PCI Express 3.0 with 16 lanes [bytes/s]
# NVLink by compute capability: GB/s each way of a link, and reached.  Source: NVIDIA P100, V100, A100, RTX A6000,
# H100 and B200 data sheets (recalled); NCCL 2.28 src/graph/topo.h, SM60_NVLINK_BW to SM100_NVLINK_BW.
NVLINK = ((100, 50, 40.1), (90, 25, 20.6), (86, 14.0625, 12), (80, 25, 20), (70, 25, 20), (60, 20, 18))
# xGMI the same.  Source: AMD Instinct data sheets MI100, MI250X, MI300X, MI350X (recalled); RCCL src/graph/topo.h,
# VEGA_XGMI_WIDTH, MI200_XGMI_WIDTH, GFX94X_XGMI_WIDTH.
XGMI = (("95", 76.8, 48), ("94", 64, 48), ("90a", 50, 36), ("91", 50, 36), ("", 46, 24))
GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
CPU_CLASSES = ("0x0604", "0x0b80", "0x0b40", "0x0600")


def encoding(gigatransfers):
    """A lane's payload [bit/transfer].  Source: PCI Express base specifications 1.0 to 6.0."""
    return 0.8 if gigatransfers < 6 else 128 / 130 if gigatransfers < 48 else 242 / 256


class Topology(tree.Node):
    """A node as NCCL sees it, on its way into a draft."""

    def __init__(self, draft, root):
        super().__init__(draft)
        self.root = root
        self.plane = None  # the switch that stands for all NVSwitches
        self.amd = False

    # ---- vertices ----

    def collect(self):
        """All vertices, in the order of platforms."""
        everything = list(self.root.walk())
        nets = [one for one in everything if one.name == "net"]
        self.speed = max((net.number("speed", 10, 3.3e6) for net in nets), default=0)
        fast = [net for net in nets if net.number("speed", 10, 3.3e6) == self.speed]
        self.slower = len(nets) - len(fast)
        links = [one for one in everything if one.name in ("nvlink", "xgmi")]
        self.links = sum(one.number("count", 1, 64) for one in links)
        hosts = list(dict.fromkeys(cpu.get("host_hash") for cpu in everything if cpu.name == "cpu"))
        self.hosts = max(len(hosts), 1)
        gpus = [one for one in everything if one.name == "gpu"]
        gpus.sort(key=lambda gpu: (hosts.index(gpu.inside("cpu").get("host_hash")) if gpu.inside("cpu") else 0,
                                   gpu.number("dev", 0, 1e6)))
        for gpu in gpus:
            self.add("devices", gpu)
        if any(one.get("tclass").startswith("0x0680") for one in links):
            self.plane = ("switches", 0)
            self.draft.counts["switches"] = 1
        for element in everything:
            if element.name == "cpu":
                self.add("cpus", element)
            elif element.name == "pci" and any(child.name == "pci" for child in element.children):
                self.add("switches", element)
        self.bridges = len(self.elements["switches"])
        for net in fast:
            self.add("nics", net)
        self.share([pci for pci in (net.inside("pci") for net in self.elements["nics"]) if pci], "busid")
        names = sorted({one.name for one in everything} - KNOWN)
        for name in names:
            count = sum(one.name == name for one in everything)
            self.draft.note(f"{plural(count, 'element')} <{name}> not known and left out")

    # ---- cables ----

    def pcie(self, element):
        """The kind of cable from the PCI function of @element upwards."""
        pci = element if element.name == "pci" else element.inside("pci")
        speed = pci.number("link_speed", 1, 128) if pci else 0
        width = pci.number("link_width", 1, 32) if pci else 0
        efficiency = (0.762, "published", "NCCL 2.28 src/graph/topo.h: PCI_BW 12.0 GB/s for Gen3 x16 of 15.754")
        if speed and width:
            rate = speed * 1e9 / 8 * width * encoding(speed)
            return self.draft.link(f"pcie-{speed:g}x{width:g}", efficiency=efficiency, bandwidth=(
                rate, "datasheet", f"{self.draft.name}: {width:g} lanes of {speed:g} GT/s; PCI Express encoding"))
        place = f"line {pci.line} of the file says no speed, as in virtual machines" if pci else "a card outside PCI"
        return self.draft.link("pcie-unknown", efficiency=efficiency,
                               bandwidth=(GEN3_X16, "assumed", f"{place}: Gen3 x16"))

    def rate(self, gpu):
        """GB/s of a link of this GPU to others, and reached, with their name and source."""
        if self.amd:
            arch = gpu.get("gcn").removeprefix("gfx")
            _, wire, reached = next(row for row in XGMI if arch.startswith(row[0]))
            return "xgmi", wire, reached, "RCCL src/graph/topo.h"
        sm = gpu.number("sm", 1, 999)
        exact = [row for row in NVLINK if row[0] == 86 == sm] or [row for row in NVLINK if row[0] <= sm and row[0] != 86]
        _, wire, reached = exact[0] if exact else NVLINK[-1]
        return "nvlink", wire, reached, "NCCL 2.28 src/graph/topo.h"

    def fast_link(self, gpu, count):
        """The kind of cable of @count NVLinks or xGMI links."""
        name, wire, reached, source = self.rate(gpu)
        return self.draft.link(
            f"{name}-x{count:g}", bandwidth=(count * wire * 1e9, "datasheet", f"{self.draft.name}: {count:g} links; "
                                             f"{wire:g} GB/s each way a link of this generation"),
            efficiency=(reached / wire, "published", f"{source}: {reached:g} GB/s a link of {wire:g}"))

    def connect_gpu(self, gpu, places, lost):
        """Its NVLinks; returns how many go to NVSwitches, and {GPU: how many}."""
        plane, others = 0, {}
        for link in gpu.children:
            count = link.number("count", 1, 64)
            if link.name == "c2c" and gpu.inside("cpu") in self.found:
                rate = count * link.number("bw", 1, 1e6) * 1e6
                if rate:
                    self.draft.connect(self.found[gpu], self.found[gpu.inside("cpu")], self.draft.link(
                        "c2c", bandwidth=(rate, "datasheet", f"{self.draft.name}: {count:g} links of c2c")))
            if link.name not in ("nvlink", "xgmi") or not count:
                continue
            kind, target = link.get("tclass")[:6], places.get((self.host(gpu), link.get("target").lower()))
            if kind == "0x0680":
                plane += count
            elif target:
                others[target] = others.get(target, 0) + count
            elif kind in CPU_CLASSES and gpu.inside("cpu") in self.found:
                self.draft.connect(self.found[gpu], self.found[gpu.inside("cpu")], self.fast_link(gpu, count))
            else:
                lost[link.get("tclass") or "no class"] = lost.get(link.get("tclass") or "no class", 0) + count
        for target, count in others.items():
            self.draft.connect(self.found[gpu], target, self.fast_link(gpu, count))
        if plane:
            self.draft.connect(self.found[gpu], self.plane, self.fast_link(gpu, plane))
        return plane, others

    def host(self, element):
        """The host of an element; "" where the file has one."""
        return element.inside("cpu").get("host_hash") if element.inside("cpu") else ""

    def connect_everything(self):
        """All cables; returns of each GPU its links to NVSwitches and to other GPUs."""
        gpus = self.elements["devices"]
        places = {(self.host(gpu), gpu.inside("pci").get("busid").lower()): self.found[gpu] for gpu in gpus if gpu.inside("pci")}
        lost = {}
        reach = [self.connect_gpu(gpu, places, lost) for gpu in gpus]
        for kind, count in lost.items():
            self.draft.note(f"{plural(int(count), 'link')} of GPUs to what is not in the file (class {kind}) left out")
        self.connect(self.pcie)
        amd = any(cpu.get("vendor") in ("AuthenticAMD", "AMD") for cpu in self.elements["cpus"])
        self.connect_cpus(16e9 if amd else 10e9, efficiency=(1, "assumed", "as NCCL counts it"))
        return reach

    # ---- NCCL ----

    def rings(self, reach):
        """Links of each GPU that rings of all GPUs can use; 0: links do not join them all."""
        count = len(reach)
        if all(plane for plane, _ in reach):
            return min(plane for plane, _ in reach)
        edges = {}
        for index, (_, others) in enumerate(reach):
            for (_, other), links in others.items():
                edges[frozenset((index, other))] = int(links)
        if len(edges) == count * (count - 1) // 2 and len(set(edges.values())) == 1:
            return sum(reach[0][1].values())  # a full mesh
        if count > 10:
            return 0
        circles = [(0, *rest) for rest in itertools.permutations(range(1, count)) if rest[0] < rest[-1]] if count < 9 else \
            list(walks(count, edges))
        circles = [[frozenset(pair) for pair in zip(circle, (*circle[1:], 0))] for circle in circles]
        used = 0
        while True:
            left = [circle for circle in circles if all(edges.get(edge, 0) > 0 for edge in circle)]
            if not left:
                return used
            for edge in max(left, key=lambda circle: sum(edges[edge] for edge in circle)):
                edges[edge] -= 1
            used += 2

    def section(self, reach):
        """What NCCL makes of the node."""
        count = len(reach)
        links = self.rings(reach) if count > 1 else 0
        if count < 2 or self.amd:
            return
        if links:
            sm = self.elements["devices"][0].number("sm", 1, 999)
            _, _, reached, _ = self.rate(self.elements["devices"][0])
            self.draft.put(nccl={
                "intra": "nvlink", "channels": 16 if sm >= 90 else int(min(2 * links, 64)),
                "why": "as on DGX; NCCL's log (NCCL_DEBUG=INFO) has the number",
                "bandwidth": (links * reached * 1e9, "published", f"{self.draft.name}: {links:g} NVLinks of a GPU to "
                              f"others in rings; NCCL 2.28 src/graph/topo.h: {reached:g} GB/s a link")})
            return
        if self.links:
            self.draft.note("NVLinks do not join all GPUs: rings cross PCI")
        values = [self.draft.value(link) for gpu in range(count)
                  for link in self.draft.path(("devices", gpu), ("devices", (gpu + 1) % count))]
        if values:
            self.draft.put(nccl={
                "intra": "pci", "channels": 2,
                "why": "as on other nodes without NVLink; NCCL's log (NCCL_DEBUG=INFO) has the number",
                "bandwidth": (min(values), "assumed", "the narrowest cable between neighbouring GPUs")})

    # ---- the device ----

    def device(self):
        """What the first GPU is: by its PCI id; in files without one by its compute capability."""
        kinds = {}
        for gpu in self.elements["devices"]:
            pci = gpu.inside("pci")
            ident = ":".join(pci.get(key).lower().removeprefix("0x") for key in ("vendor", "device")) if pci else ":"
            kinds.setdefault((ident, gpu.get("sm"), gpu.get("gcn")), []).append(gpu)
        if len(kinds) > 1:
            self.draft.note("GPUs differ: the first one's device counts")
        ident, sm, gcn = next(iter(kinds))
        if ident in tree.MODELS:
            self.draft.put(model=tree.MODELS[ident])
            return
        if gcn or ident != ":":
            self.draft.put(model=f"PCI {ident}" if ident != ":" else f"gcn {gcn}")
            return
        names = {"90": ("h100-sxm5-80gb", "h100-pcie-80gb"), "80": ("a100-sxm4-80gb", "a100-pcie-80gb"),
                 "70": ("v100-sxm2-16gb", "v100-pcie-16gb"), "60": ("p100-sxm2-16gb", "p100-sxm2-16gb")}
        if sm in names:
            name = names[sm][not self.links]
            self.draft.put(device=name)
            self.draft.assume(f"device: {name}, as the file says only compute capability {int(sm) / 10:.1f}")


def walks(count, edges):
    """All circles through every vertex, from 0, by their edges."""
    beside = {at: [next(iter(edge - {at})) for edge in edges if at in edge] for at in range(count)}
    paths = [(0,)]
    while paths:
        path = paths.pop()
        if len(path) == count and path[1] < path[-1] and 0 in beside[path[-1]]:
            yield path
        paths += [(*path, to) for to in beside[path[-1]] if to not in path]


def read(draft, text, _ranks, nodes):
    """Fill @draft."""
    root = tree.parse(text)
    if root.name != "system":
        raise Refused(f"expected <system>, got <{root.name}>: give the file that NCCL writes with NCCL_TOPO_DUMP_FILE",
                      root.line)
    topology = Topology(draft, root)
    topology.collect()
    gpus = topology.elements["devices"]
    if not gpus:
        raise Refused("there is no <gpu> in this <system>: dump it where the job runs", root.line)
    topology.amd = any(gpu.get("gcn") for gpu in gpus)
    counts = draft.counts
    cards = f", {plural(counts['nics'], 'card')} of {topology.speed / 1000:g} Gb/s" if counts["nics"] else ""
    plane = ", NVSwitches as one" if topology.plane else ""
    draft.document["understood"].insert(0, f"a node of {plural(counts['devices'], 'GPU')}, {plural(counts['cpus'], 'CPU')}, "
                                        f"{topology.bridges} PCI switches{plane}{cards}")
    if topology.slower:
        draft.document["understood"].insert(1, f"{plural(topology.slower, 'slower card')} left out: a platform has one kind")
    if topology.hosts > 1:
        draft.note(f"{topology.hosts} hosts that NVLink joins are one node, as NCCL sees them")
    topology.tell_lost()
    topology.section(topology.connect_everything())
    topology.device()
    if topology.amd:
        draft.note("no section of NCCL, whose model is not RCCL's")
    draft.put(description="from NCCL's topology", nodes=nodes)
    nic = {"efficiency": (0.96, "published", "NCCL 2.28 src/graph/topo.h: NET_BW 12.0 GB/s of 12.5 for 100 Gb/s")}
    if topology.speed:
        nic["bandwidth"] = (topology.speed * 1e6 / 8, "datasheet", f"{draft.name}: speed of net")
    draft.put(nic=nic)
