"""Slurm's topology.conf, topology.yaml, and what `scontrol show topology` prints: racks and tiers.

Lines are cut as Slurm cuts them (src/common/parse_config.c): '#' begins a comment, a backslash at the end
continues a line, keys have any case.
"""
import re

import hostlist
from draft import Refused, plain
from switches import LIMIT, Network

PAIR = re.compile(r'\s*(?P<key>[\w.]+)\s*=\s*(?P<value>"[^"]*"|[^\s"]*)')
KEYS = {"switchname", "blockname", "nodes", "switches", "linkspeed", "blocksizes", "level", "blockindex", "blocksize"}


class Topology:
    """A file as it is read."""

    def __init__(self):
        self.network = Network()
        self.names = 0  # so far: one that is listed again costs as much time as a new one
        self.children = []  # (switch, child, line)
        self.defined = set()

    def expand(self, text, line, column):
        """The names of a list."""
        try:
            found = hostlist.expand(text, max(LIMIT - self.names - 1, 0))
        except hostlist.Fault as fault:
            raise Refused(f"{fault.what}; expected a list of names such as tux[0-3,12],rack[0-7]_n[00-41], of at most "
                          f"{LIMIT} names in a file", line, column + fault.at) from None
        self.names += len(found) + 1  # the switch's
        return found

    def add(self, name, line, nodes, switches):
        """A switch with lists of what is below; each is None, or (text, line, column)."""
        self.network.switch(name)
        self.defined.add(name)
        if nodes and nodes[0].upper() == "ALL":
            raise Refused("ALL does not say how many nodes there are: list them, as in Nodes=tux[0-63]", *nodes[1:])
        for host in self.expand(*nodes) if nodes else ():
            self.network.host(host, name)
        for child in self.expand(*switches) if switches else ():
            self.children.append((name, child, line))

    def finish(self):
        """Connect the switches."""
        for name, child, line in self.children:
            if child not in self.defined:
                raise Refused(f"'{name}' has the child '{child}', which no line defines", line)
        for name, child, _ in self.children:
            self.network.switch(child).above = name
        for name, _, line in self.children:
            at, steps = name, 0
            while at is not None:
                at, steps = self.network.switch(at).above, steps + 1
                if steps > len(self.defined):
                    raise Refused(f"the switches above '{name}' form a circle", line)


# ---- topology.conf ----

def logical_lines(text):
    """(line, text, places) of each line with its continuations; places are (offset, line, column)."""
    pending, places, first = "", [], 0
    for number, line in enumerate(text.split("\n"), 1):
        body = line.split("#", 1)[0].rstrip("\r")
        first = first or number
        places.append((len(pending), number))
        stripped = body.rstrip()
        if stripped.endswith("\\"):
            pending += stripped[:-1] + " "
            continue
        yield pending + body, places
        pending, places, first = "", [], 0
    if pending:
        yield pending, places


def place(places, offset):
    """The line and column of a character."""
    start, line = next(pair for pair in reversed(places) if pair[0] <= offset)
    return line, offset - start + 1


def read_line(topology, text, places):
    """One line."""
    at, found = 0, {}
    while text[at:].strip():
        begin = at + len(text[at:]) - len(text[at:].lstrip())
        pair = PAIR.match(text, at)
        word = text[begin:].split()[0]
        if not pair or pair.end() < len(text) and not text[pair.end()].isspace():
            what = ("Include is not followed: put the lines of that file here" if word.lower() == "include" else
                    "expected KEY=VALUE, as in 'SwitchName=s0 Nodes=tux[0-3]'")
            raise Refused(what + f", got '{plain(word)}'", *place(places, begin))
        key = pair["key"].lower()
        if key not in KEYS:
            raise Refused(f"unknown key '{pair['key']}'; expected SwitchName, BlockName, Nodes, Switches, LinkSpeed or "
                          "BlockSizes", *place(places, begin))
        quoted = pair["value"].startswith('"')
        found[key] = (pair["value"].strip('"'), *place(places, pair.start("value") + quoted))
        at = pair.end()
    name = found.get("switchname", found.get("blockname"))
    lists = [found.get("nodes"), found.get("switches")]
    if not name:
        if any(lists):
            raise Refused("names without SwitchName= or BlockName= before them", *next(filter(None, lists))[1:])
        return
    if lists[1] and found.get("level", ("0",))[0] != "0":
        lists[0] = None  # scontrol repeats all nodes below
    topology.add(name[0], name[1], *lists)


# ---- topology.yaml ----

def yaml_tree(text):
    """The root node of a YAML text, with the places of its parts."""
    try:
        import yaml  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise Refused("topology.yaml is read with PyYAML: apt-get install python3-yaml", code=69) from None
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise Refused(f"not YAML: {error.problem}", mark and mark.line + 1, mark and mark.column + 1) from None


def member(node, key):
    """The value of a mapping's key, or None."""
    pairs = node.value if node is not None and node.id == "mapping" else ()
    return next((value for name, value in pairs if name.value == key), None)


def read_members(topology, members, key):
    """A list of {switch: s0, nodes: ..., children: ...} or {block: b0, nodes: ...}."""
    for item in members.value if members is not None and members.id == "sequence" else ():
        name = member(item, key)
        line = item.start_mark.line + 1
        if name is None or name.id != "scalar":
            raise Refused("expected a mapping with 'switch' or 'block', its name", line, item.start_mark.column + 1)
        lists = []
        for word in ("nodes", "children"):
            value = member(item, word)
            scalar = value is not None and value.id == "scalar"
            mark = value.start_mark if scalar else None
            lists.append((value.value, mark.line + 1, mark.column + 1 + (value.style in ("'", '"'))) if scalar else None)
        topology.add(name.value, line, *lists)


def read_yaml(topology, text):
    """The first topology with hosts; whether its top switches are joined."""
    root = yaml_tree(text)
    for item in root.value if root is not None and root.id == "sequence" else ():
        read_members(topology, member(member(item, "tree"), "switches"), "switch")
        joined = not topology.network.hosts
        if joined:
            read_members(topology, member(member(item, "block"), "blocks"), "block")
        if topology.network.hosts:
            return joined
    raise Refused("expected a list of topologies, one with tree.switches or block.blocks, as in Slurm's topology.yaml",
                  root.start_mark.line + 1 if root else 1, root.start_mark.column + 1 if root else 1)


def read(draft, text, _ranks, _nodes):
    """Fill @draft."""
    topology = Topology()
    if re.match(r"(#.*\n|\s*\n)*(---|-\s)", text):
        joined = read_yaml(topology, text)
    else:
        for line, places in logical_lines(text):
            read_line(topology, line, places)
        joined = not re.search(r"(?im)^\s*switchname\s*=", text)
        if not topology.network.hosts:
            raise Refused("no line 'SwitchName=... Nodes=...' up to here: give Slurm's topology.conf or topology.yaml",
                          text.rstrip("\n").count("\n") + 1 + text.endswith("\n\n"))
    topology.finish()
    topology.network.understand(draft, joined)
    draft.put(description="from Slurm's topology")
    draft.note("Slurm's LinkSpeed is for people only and is not taken")
