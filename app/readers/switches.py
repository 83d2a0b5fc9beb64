"""Switches with hosts below, and their racks and tiers as a platform.

Above the highest group of a platform everything is one switch without limits, so the top of a tree with
one root is no tier.  A platform's groups are equal: unequal ones are all set to the largest, with a note.
"""
from draft import Refused, plural

LIMIT = 100000  # hosts and switches
DEPTH_LIMIT = 16  # switches above a host
TIERS = ("rack", "pod", "hall", "site")


class Switch:
    """A switch."""

    def __init__(self):
        self.above = None  # the name of the switch above
        self.uplinks = 0  # cables to the switches above; 0: not known
        self.speed = 0.0  # of the slowest of these [bytes/s]; 0: not known
        self.rails = 1  # switches that this one stands for
        self.height = self.below = 0


class Network:
    """Hosts and switches by name."""

    def __init__(self):
        self.hosts = {}  # name: {leaf: cards}, in the order of the file
        self.switches = {}

    def switch(self, name):
        """The switch called @name."""
        if name not in self.switches:
            self.switches[name] = Switch()
            self.check_size()
        return self.switches[name]

    def host(self, name, leaf):
        """One more card of host @name, on switch @leaf."""
        leaves = self.hosts.setdefault(name, {})
        leaves[leaf] = leaves.get(leaf, 0) + 1
        self.check_size()

    def check_size(self):
        """Refuses what is too large."""
        if len(self.hosts) + len(self.switches) > LIMIT:
            raise Refused(f"more than {LIMIT} hosts and switches")

    # ---- several leaves a host ----

    def join_rails(self, draft):
        """Leaves whose hosts are mostly on all of them become one switch with rails; of other hosts on several
        leaves the last one counts."""
        sets, below = {}, {}
        for host in self.hosts.values():
            sets.setdefault(frozenset(host), []).append(sum(host.values()))
            for leaf, cards in host.items():
                below[leaf] = below.get(leaf, 0) + cards
        first, order = {}, {name: place for place, name in enumerate(self.switches)}
        for leaves in sorted((one for one in sets if len(one) > 1), key=lambda one: -sum(sets[one])):
            if sum(sets[leaves]) > sum(below[leaf] for leaf in leaves) / 2 and not leaves & first.keys():
                self.join(sorted(leaves, key=order.get), first)
        odd = sum(len(hosts) for leaves, hosts in sets.items() if len({first.get(leaf, leaf) for leaf in leaves}) > 1)
        for host in self.hosts.values():
            last, cards = first.get(list(host)[-1], list(host)[-1]), sum(host.values())
            host.clear()
            host[last] = cards
        if odd:
            draft.warn(f"{plural(odd, 'node')} below several leaf switches that share few others: the last one counts")

    def join(self, leaves, first):
        """One switch of several; @first gets the name that each has now."""
        whole, parts = self.switch(leaves[0]), [self.switch(leaf) for leaf in leaves]
        whole.rails = len(leaves)
        whole.uplinks = sum(part.uplinks for part in parts)
        whole.speed = min((part.speed for part in parts if part.speed), default=0.0)
        for leaf in leaves:
            first[leaf] = leaves[0]
        for leaf in leaves[1:]:
            del self.switches[leaf]

    # ---- heights ----

    def climb(self, name):
        """The switches above a host, lowest first."""
        found, at = [], next(iter(self.hosts[name]))
        while at is not None:
            found.append(at)
            if len(found) > DEPTH_LIMIT:
                raise Refused(f"more than {DEPTH_LIMIT} switches above '{name}': they form a circle")
            at = self.switches[at].above
        return found

    def largest_part(self, draft, joined):
        """Keep the hosts below the root that has most; others cannot be reached from them."""
        parts = {}
        for host in self.hosts:
            parts.setdefault(self.climb(host)[-1], []).append(host)
        if joined or len(parts) < 2:
            return
        best = max(parts.values(), key=len)
        sizes = ", ".join(str(len(part)) for part in parts.values())
        draft.warn(f"no switch is above all nodes: {len(parts)} parts of {sizes} nodes, which no job can span; the "
                   f"platform is the largest, {len(best)} nodes; a line 'SwitchName=root Switches=...' joins them")
        self.hosts = {host: self.hosts[host] for host in best}

    def understand(self, draft, joined=True):
        """Nodes and tiers; @joined: switches without one above are connected."""
        if not self.hosts:
            raise Refused("no host is below a switch: nothing to import")
        total = len(self.switches)
        self.join_rails(draft)
        self.largest_part(draft, joined)
        for host in self.hosts:
            for height, name in enumerate(self.climb(host), 1):
                switch = self.switches[name]
                switch.height = max(switch.height, height)
                switch.below += 1
        draft.document["understood"].insert(0, f"{len(self.hosts)} nodes below {total} switches")
        draft.put(nodes=len(self.hosts))
        self.tiers(draft)

    def tiers(self, draft):
        """Groups of each height with more than one."""
        found, under = [], 1
        for height in range(1, max(switch.height for switch in self.switches.values()) + 1):
            level = [switch for switch in self.switches.values() if switch.height == height]
            count = sum(switch.rails for switch in level)
            if count < 2 or len(found) == len(TIERS):
                continue
            least, most = min(switch.below for switch in level), max(switch.below for switch in level)
            draft.note(f"{count} switches at height {height}, {least} to {most} nodes below each")
            nodes = (most + under - 1) // under * under
            if (nodes >= len(self.hosts) and count == len(level)) or (found and nodes == under):
                continue
            name = TIERS[len(found)]
            if least != nodes:
                draft.assume(f"every {name} has {nodes} nodes, as the largest")
            found.append(self.tier(draft, name, nodes, level))
            under = nodes
        if not found:
            draft.note("one switch for all, as far as a platform can tell: no tiers")
        draft.put(tiers=found)

    def tier(self, draft, name, nodes, level):
        """One kind of group."""
        speed = min((switch.speed for switch in level if switch.speed), default=0)
        numbers = [switch.rails for switch in level]
        rails = max(set(numbers), key=numbers.count)
        uplinks = min((switch.uplinks for switch in level if switch.uplinks and switch.rails == rails), default=0)
        tier = {"name": name, "nodes": nodes, "rails": rails, "uplinks": uplinks - uplinks % rails}
        if max(numbers) > 1:
            other = len(numbers) - numbers.count(rails)
            draft.note(f"a {name} has {rails} leaf switches, its rails" + (f", but {other} of {len(numbers)} have another number"
                                                                           if other else ""))
        if speed:
            tier["bandwidth"] = (speed, "datasheet", f"{draft.name}: the slowest uplink")
        return tier

    def cards(self):
        """Cards of most nodes."""
        return sorted(sum(leaves.values()) for leaves in self.hosts.values())[len(self.hosts) // 2]
