"""hwloc's topology (lstopo --of xml): a node.

PCI classes alone do not tell a GPU from the board's screen, nor a card of the fabric from one of management:
what drivers say of a device (OSDev) counts first, then vendors and devices, then classes.
"""
import re

import tree
from draft import VERTEX_LIMIT, Refused, number, plural

TYPE = re.compile(r"(?P<kind>\w{4}) \[(?P<vendor>\w{4}):(?P<device>\w{4})\]")
ACCELERATOR = re.compile(r"(cuda|nvml|rsmi|ze|ve|mic|hl)\d")
FABRIC = re.compile(r"(mlx\d|hfi\d|rdmap|efa_|ib|cxi|hsn|qib|roce|usnic)")
NVIDIA, AMD, HYGON, INTEL = "10de", "1002", "1d94", "8086"
SLINGSHOT = "17db"
# Virtual functions of network cards.  Source: the PCI ID repository, pci.ids.
VIRTUAL = {"15b3:1004", "15b3:1014", "15b3:1016", "15b3:1018", "15b3:101a", "15b3:101c", "15b3:101e", "8086:10ca",
           "8086:10ed", "8086:1515", "8086:1520", "8086:154c", "8086:1889", "8086:37cd", "1137:00cf", "1138:00cf"}
SPEED_LIMIT = 1e4  # of PCI [GB/s]


class Device:
    """A PCI device and what drivers call it."""

    def __init__(self, element, version):
        found = TYPE.match(element.get("pci_type"))
        self.element, self.version = element, version
        self.kind, vendor, device = found.groups() if found else ("", "", "")
        self.vendor, self.id = vendor.lower(), f"{vendor}:{device}".lower()
        self.speed = element.number("pci_link_speed", 0, SPEED_LIMIT)
        self.drivers = [child for child in element.walk() if child.get("type") == "OSDev"]
        self.model = tree.MODELS.get(self.id) or info(element, "PCIDevice") or next(
            filter(None, (info(driver, "GPUModel") for driver in self.drivers)), "")

    def named(self, pattern):
        """Whether a driver has such a name."""
        return any(pattern.match(driver.get("name")) for driver in self.drivers)

    def opens_fabrics(self):
        """Whether a driver is of OpenFabrics: type 3, or bit 5 since hwloc 3."""
        types = [int(driver.get("osdev_type")) for driver in self.drivers if driver.get("osdev_type").isdigit()]
        return any(one & 32 if self.version >= 3 else one == 3 for one in types)

    def is_gpu(self):
        """Screens of boards are none."""
        if self.named(ACCELERATOR) or self.id in tree.MODELS:
            return True
        if self.kind == "0300":  # of AMD, GPUs from Southern Islands on; before, and processors with graphics, screens
            large = self.vendor == AMD and "6600" <= self.id[5:] < "8000"
            return self.vendor == NVIDIA or large
        return (self.kind == "0302" or self.kind[:2] == "12" or
                self.kind == "0380" and self.vendor in (NVIDIA, AMD, HYGON, INTEL))

    def is_card(self):
        """Networks but wireless ones."""
        return self.kind[:2] == "02" and self.kind != "0280"

    def is_fabric(self):
        """Whether drivers or its vendor say that messages of jobs pass it."""
        return (self.opens_fabrics() or self.named(FABRIC) or self.vendor == SLINGSHOT or self.kind in ("0207", "0208"))


def info(element, key):
    """The value of a child <info name=key>, or ""."""
    return next((child.get("value") for child in element.children if child.name == "info" and child.get("name") == key), "")


def virtual(device, devices):
    """Whether it is a function of a port that is there itself."""
    beside = [one for one in devices if one.vendor == device.vendor and one.element.parent is device.element.parent]
    return device.id in VIRTUAL and any(one.id not in VIRTUAL for one in devices if one.vendor == device.vendor) or (
        device.speed == 0 and not device.drivers and any(one.speed > 0 for one in beside))


class Machine(tree.Node):
    """A node on its way into a draft."""

    def __init__(self, draft, root):
        super().__init__(draft)
        self.version = number(root.get("version")) or 1
        self.objects = [one for one in root.walk() if one.name == "object"]
        self.adopted = False

    def count(self, kind):
        """Objects of a type."""
        return sum(one.get("type") == kind for one in self.objects)

    def collect(self):
        """All vertices."""
        packages = [one for one in self.objects if one.get("type") in ("Package", "Socket")]
        if not packages and self.objects:
            packages = self.objects[:1]
            self.draft.assume("one package: the file names none, as of virtual machines")
        for package in packages:
            self.add("cpus", package)
        devices = [Device(one, self.version) for one in self.objects if one.get("type") == "PCIDev"]
        self.gpus = [one for one in devices if one.is_gpu()]
        for one in self.gpus:
            self.add("devices", one.element)
        for one in self.cards(devices):
            self.add("nics", one.element)
        used = set(self.found) - set(packages)
        for one in self.objects:
            if one.get("type") == "Bridge" and one.get("bridge_type") == "1-1":
                branches = [child for child in one.children if used & set(child.walk())]
                if len(branches) > 1:
                    self.add("switches", one)
        self.bridges = self.draft.counts["switches"]
        slots = [one for kind in ("devices", "nics") for one in self.elements[kind]
                 if one.parent not in self.elements["switches"]]
        self.share(slots, "pci_busid")

    def cards(self, devices):
        """The cards that messages of jobs pass."""
        cards = [one for one in devices if one.is_card()]
        real = [one for one in cards if not virtual(one, cards)]
        fabric = [one for one in real if one.is_fabric()] or real
        if len(real) < len(cards):
            self.draft.note(f"{plural(len(cards) - len(real), 'virtual function')} of cards left out")
        if len(fabric) < len(real):
            self.draft.note(f"{plural(len(real) - len(fabric), 'card')} left out, as there are others with OpenFabrics")
        return fabric

    def above(self, element):
        """The nearest vertex around @element; the first package where there is none."""
        found = super().above(element)
        self.adopted = self.adopted or not found
        return found or ("cpus", 0)

    def cable(self, element):
        """The kind of cable upwards; pci_link_speed is in GB/s, after encoding."""
        speed = element.number("pci_link_speed", 0, SPEED_LIMIT)
        if speed > 0.01:
            return self.draft.link(f"pcie-{speed:.0f}GB", bandwidth=(
                speed * 1e9, "datasheet", f"{self.draft.name}: pci_link_speed"))
        return self.draft.link("pcie-unknown", bandwidth=(
            15.754e9, "assumed", f"line {element.line} says no speed: PCIe Gen3 x16"))

    def connect_cores(self, cores):
        """Without GPUs every core is a device, connected to the others by its package's memory."""
        self.draft.counts["devices"] = devices = min(cores, VERTEX_LIMIT)
        self.lost += cores - devices
        link = self.draft.link("memory", bandwidth=(10e9, "assumed", "nobody measured: about what one core copies"))
        for i in range(devices):
            self.draft.connect(("devices", i), ("cpus", i * self.draft.counts["cpus"] // devices), link)
        self.draft.assume(f"devices: the {devices} cores, as there is no GPU")


def read(draft, text, _ranks, nodes):
    """Fill @draft."""
    root = tree.parse(text)
    if root.name != "topology":
        raise Refused(f"expected <topology>, got <{root.name}>: give what 'lstopo --of xml' writes", root.line)
    machine = Machine(draft, root)
    machine.collect()
    gpus, cores = draft.counts["devices"], machine.count("Core") or machine.count("PU")
    if not gpus and not cores:
        raise Refused("no object Core or PU, and no GPU: give what 'lstopo --of xml' writes", root.line)
    draft.document["understood"].insert(
        0, ", ".join(plural(count, word) for count, word in (
            (draft.counts["cpus"], "package"), (machine.count("Core"), "core"), (machine.count("NUMANode"), "NUMA node"),
            (gpus, "GPU"), (draft.counts["nics"], "card"))) + f", {machine.bridges} PCI switches")
    if not gpus:
        machine.connect_cores(cores)
    else:
        models = [gpu.model for gpu in machine.gpus if gpu.model]
        draft.put(model=models[0] if models else f"PCI {machine.gpus[0].id}")
    machine.connect(machine.cable)
    machine.connect_cpus(10e9)
    if machine.adopted:
        draft.assume("PCI devices below no package hang on the first")
    machine.tell_lost()
    if gpus:
        draft.note("links between GPUs are not taken from hwloc: import nccl-topo does")
    draft.put(description="from hwloc", nodes=nodes)
