"""XML files as a tree that keeps line numbers, and what PCI says of a device."""
import itertools
from xml.parsers import expat

from draft import VERTEX_LIMIT, Refused, number, plural

LEVEL_LIMIT, ELEMENT_LIMIT = 64, 100000


class Element:
    """An element of the tree."""

    def __init__(self, name, attributes, parent, line):
        self.name, self.attributes, self.parent, self.line = name, attributes, parent, line
        self.children = []

    def get(self, key):
        """An attribute, "" where there is none."""
        return self.attributes.get(key, "")

    def walk(self):
        """This and all below, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def above(self):
        """All around this, the nearest first."""
        at = self.parent
        while at:
            yield at
            at = at.parent

    def inside(self, name):
        """The nearest element around this that is called @name, or None."""
        return next((at for at in self.above() if at.name == name), None)

    def number(self, key, low, high):
        """The number that attribute @key begins with; 0 where there is none.  Refused: beyond low to high."""
        text = self.get(key).split()
        value = number(text[0]) if text and text[0] != "Unknown" else 0  # as Linux says
        if value is None or value and not low <= value <= high:
            raise Refused(f"<{self.name}> with {key}=\"{self.get(key)}\": expected {low:g} to {high:g}", self.line)
        return value


def parse(text):
    """The root of @text."""
    parser = expat.ParserCreate()
    open_, root, elements = [], [], 0

    def refuse(what):
        raise Refused(f"not the XML that was expected: {what}; write the file again",
                      parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)

    def begin(name, attributes):
        nonlocal elements
        elements += 1
        if len(open_) == LEVEL_LIMIT or elements > ELEMENT_LIMIT:
            refuse(f"more than {LEVEL_LIMIT} levels or {ELEMENT_LIMIT} elements")
        element = Element(name, attributes, open_[-1] if open_ else None, parser.CurrentLineNumber)
        (open_[-1].children if open_ else root).append(element)
        open_.append(element)

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda name: open_.pop()
    parser.EntityDeclHandler = lambda *words: refuse("entities of its own, which no topology has")
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise Refused(f"not the XML that was expected: {expat.ErrorString(error.code)}; write the file again",
                      error.lineno, error.offset + 1) from None
    return root[0]


# What drivers call devices, by PCI vendor and device.  Source: the PCI ID repository, pci.ids.
MODELS = {
    "10de:15f9": "Tesla P100-SXM2-16GB", "10de:15f7": "Tesla P100-PCIE-12GB", "10de:15f8": "Tesla P100-PCIE-16GB",
    "10de:1b38": "Tesla P40", "10de:1db1": "Tesla V100-SXM2-16GB", "10de:1db4": "Tesla V100-PCIE-16GB",
    "10de:1db5": "Tesla V100-SXM2-32GB", "10de:1db6": "Tesla V100-PCIE-32GB", "10de:1db8": "Tesla V100-SXM3-32GB",
    "10de:1df6": "Tesla V100S-PCIE-32GB", "10de:1eb8": "Tesla T4", "10de:20b0": "NVIDIA A100-SXM4-40GB",
    "10de:20b2": "NVIDIA A100-SXM4-80GB", "10de:20b5": "NVIDIA A100 80GB PCIe", "10de:20f1": "NVIDIA A100-PCIE-40GB",
    "10de:20b7": "NVIDIA A30", "10de:2235": "NVIDIA A40", "10de:2236": "NVIDIA A10", "10de:2237": "NVIDIA A10G",
    "10de:2230": "NVIDIA RTX A6000", "10de:2231": "NVIDIA RTX A5000", "10de:2204": "NVIDIA GeForce RTX 3090",
    "10de:2684": "NVIDIA GeForce RTX 4090", "10de:26b5": "NVIDIA L40", "10de:26b9": "NVIDIA L40S",
    "10de:27b8": "NVIDIA L4", "10de:2330": "NVIDIA H100 80GB HBM3", "10de:2331": "NVIDIA H100 PCIe",
    "10de:2321": "NVIDIA H100 NVL", "10de:2335": "NVIDIA H200", "10de:233b": "NVIDIA H200 NVL",
    "10de:2342": "NVIDIA GH200 480GB", "10de:2901": "NVIDIA B200", "10de:2941": "NVIDIA GB200",
    "10de:3182": "NVIDIA B300 SXM6", "10de:31c2": "NVIDIA GB300", "10de:2b85": "NVIDIA GeForce RTX 5090",
    "1002:66a0": "AMD Instinct MI60", "1002:66a1": "AMD Instinct MI50", "1002:738c": "AMD Instinct MI100",
    "1002:7408": "AMD Instinct MI250X", "1002:740c": "AMD Instinct MI250X", "1002:740f": "AMD Instinct MI210",
    "1002:74a0": "AMD Instinct MI300A", "1002:74a1": "AMD Instinct MI300X", "1002:74a5": "AMD Instinct MI325X",
    "1002:74b5": "AMD Instinct MI300X",  # in virtual machines
    "1002:75a0": "AMD Instinct MI350X", "1002:75a3": "AMD Instinct MI355X",
    "10de:20b1": "NVIDIA A100-PCIE-40GB", "10de:20b3": "NVIDIA A100-SXM-64GB", "10de:1e30": "Quadro RTX 8000",
    "10de:26b1": "NVIDIA RTX 6000 Ada", "10de:2bb1": "NVIDIA RTX PRO 6000", "10de:2bb5": "NVIDIA RTX PRO 6000",
    "10de:2329": "NVIDIA H20", "10de:232c": "NVIDIA H20 HBM3e", "10de:2324": "NVIDIA H800", "10de:26b7": "NVIDIA L20",
    "10de:26ba": "NVIDIA L20", "1da3:1020": "Habana Gaudi 2", "1da3:1060": "Habana Gaudi 3",
    "1d0f:7164": "AWS Trainium 1", "1d0f:7264": "AWS Inferentia 2", "1d0f:7364": "AWS Trainium 2",
    "1d0f:7564": "AWS Trainium 3", "1d0f:7565": "AWS Trainium 3",
    # Source of Google's: JAX, jax/_src/hardware_utils.py.
    "1ae0:0027": "Google TPU v2 or v3", "1ae0:005e": "Google TPU v4", "1ae0:0062": "Google TPU v5p",
    "1ae0:0063": "Google TPU v5e", "1ae0:006f": "Google TPU v6e",
}


class Node:
    """A node on its way into a draft, whose vertices are elements of a file."""

    def __init__(self, draft):
        self.draft = draft
        self.found = {}  # element: vertex
        self.elements = {"devices": [], "switches": [], "cpus": [], "nics": []}
        self.lost = 0

    def add(self, kind, element):
        """A vertex."""
        if self.draft.counts[kind] == VERTEX_LIMIT:
            self.lost += 1
            return
        self.found[element] = (kind, self.draft.counts[kind])
        self.elements[kind].append(element)
        self.draft.counts[kind] += 1

    def above(self, element):
        """The nearest vertex around @element, or None."""
        return next((self.found[at] for at in element.above() if at in self.found), None)

    def share(self, functions, address):
        """Functions of one PCI slot, and ports of one function, which is there once for each, share its cable: the
        slot becomes a switch.  @address is the key of their attribute."""
        groups, shared = {}, 0
        for one in functions:
            groups.setdefault((one.parent, one.get(address).lower().rsplit(".", 1)[0]), []).append(one)
        for group in groups.values():
            if len({one.get(address) for one in group}) > 1 or len(set(group)) < len(group):
                first = group[0]
                slot = Element(first.name, first.attributes, first.parent, first.line)
                self.add("switches", slot)
                shared += 1
                for one in group:
                    one.parent = slot
        if shared:
            self.draft.note(f"{plural(shared, 'slot')} with several ports: these share its PCI cable")

    def connect(self, cable):
        """Devices, switches and cards with what is above, by cable(element)."""
        for kind in ("devices", "switches", "nics"):
            for element in self.elements[kind]:
                if self.above(element):
                    self.draft.connect(self.found[element], self.above(element), cable(element))

    def connect_cpus(self, bandwidth, **more):
        """Every pair of one host."""
        for one, other in itertools.combinations(self.elements["cpus"], 2):
            if one.get("host_hash") == other.get("host_hash"):
                self.draft.connect(self.found[one], self.found[other], self.draft.link("cpus", bandwidth=(
                    bandwidth, "assumed", "the file says none: NCCL src/graph/topo.h between two sockets (recalled)"), **more))

    def tell_lost(self):
        """What did not fit."""
        if self.lost:
            self.draft.note(f"{self.lost} left out beyond {VERTEX_LIMIT} of a kind")
