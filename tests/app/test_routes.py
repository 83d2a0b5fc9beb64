"""Routes over the uplinks of a cluster: refused keys, and all-reduces on ABCI against max-min shares found here."""
import unittest

import support
from support import ROOT, answer, run

EDR = 12e9  # bytes/s: 100 Gb/s, of which NCCL counts 96 %
BYTES = 51.1e6  # ResNet-50 in fp16
MASK = 2**64 - 1

# abci-routes without latencies, so that bytes alone count.
BYTES_ONLY = """\
extends: abci-routes
name: bytes-only
network:
  nic: {latency: 0 us}
  routing: ROUTING
  tiers:
    - {name: leaf, nodes: 17, rails: 2, uplinks: 36, bandwidth: 12.5 GB/s, efficiency: 96 %, latency: 0 us}
    - {name: rack, nodes: 34, uplinks: 24, bandwidth: 12.5 GB/s, efficiency: 96 %, latency: 0 us}
transport: {inside: 0 us, between: 0 us}
"""


def mix(x):
    """SplitMix64 (Steele, Lea, Flood 2014)."""
    x = (x + 0x9e3779b97f4a7c15) & MASK
    x = ((x ^ x >> 30) * 0xbf58476d1ce4e5b9) & MASK
    x = ((x ^ x >> 27) * 0x94d049bb133111eb) & MASK
    return x ^ x >> 31


def uniform(seed, a, b, c):
    """A number between 0 and 1 by seed and three counters."""
    return ((mix(mix(mix(mix(seed) ^ a) ^ b) ^ c) >> 12) + 0.5) / 2**52


def links(source, target, routing, seed):
    """The links between the nodes of two GPUs, and what each carries.

    A leaf is for one card of 17 nodes and has 18 cables up, a rack has 24.
    """
    (a, b), (card_a, card_b) = (source // 4, target // 4), (source % 4 // 2, target % 4 // 2)
    way = [(("out", a, card_a), EDR), (("in", b, card_b), EDR)]
    leaves, racks = (2 * (a // 17) + card_a, 2 * (b // 17) + card_b), (a // 34, b // 34)
    for tier, (ends, cables) in enumerate(((leaves, 18), (racks, 24))):
        if ends[0] == ends[1]:
            break
        if routing == "ideal":
            cable, width = 0, cables * EDR
        elif routing == "static":
            cable, width = (2 * b + card_b) % cables, EDR
        else:
            cable, width = int(uniform(seed, source, target, tier) * cables), EDR
        way += [(("up", tier, ends[0], cable), width), (("down", tier, ends[1], cable), width)]
    return way


def slowest(flows):
    """The rate of the slowest of these flows with max-min fair shares.

    Bertsekas, Gallager: Data Networks, 6.5.2.  The narrowest link divides what it has among its
    flows, and so on with what is left.
    """
    left, users = {}, {}
    for flow, way in enumerate(flows):
        for link, width in way:
            left[link] = width
            users.setdefault(link, set()).add(flow)
    rates = {}
    while users:
        narrow = min(users, key=lambda link: left[link] / len(users[link]))
        rate = left[narrow] / len(users[narrow])
        for flow in list(users[narrow]):
            rates[flow] = rate
            for link, _ in flows[flow]:
                left[link] -= rate
                users[link].discard(flow)
        users = {link: those for link, those in users.items() if those}
    return min(rates.values())


def expected(columns, rows, routing, seed):
    """Seconds of all bytes of torus2d, in order of ranks: each round waits for its slowest flow."""
    ranks = range(columns * rows)
    row = [(r, r - r % columns + (r + 1) % columns) for r in ranks]
    column = [(r, (r + columns) % (columns * rows)) for r in ranks]
    rate = [slowest([links(a, b, routing, seed) for a, b in pairs if a // 4 != b // 4])
            for pairs in (row, column)]
    return (2 * (columns - 1) / columns * BYTES / rate[0] +
            2 * (rows - 1) / rows * BYTES / columns / rate[1])


class Abci(support.Case):
    """Bytes of rows and columns of ResNet-50, nodes in order."""

    def took(self, columns, rows, routing, backend="analytic"):
        """Seconds by the program."""
        platform = self.write("mine.yaml", BYTES_ONLY.replace("ROUTING", routing))
        return answer("collective", "--platform", platform, f"--grid={columns}x{rows}", "-atorus2d",
                      "--bytes=51.1MB", f"--backend={backend}")["rows"][0]["time_s"]

    def hold(self, grids, routing, seed, least, most):
        """The program's seconds are those of the shares, and between these milliseconds."""
        words = f"{routing}\n  routing_seed: {seed}" if seed else routing
        for columns, rows in grids:
            with self.subTest(columns=columns, rows=rows, routing=words):
                seconds = self.took(columns, rows, words)
                self.assertAlmostEqual(seconds / expected(columns, rows, routing, seed), 1, 6)
                self.assertTrue(least <= 1e3 * seconds <= most, seconds)

    GRIDS = (32, 32), (34, 32), (34, 64), (34, 96), (48, 72)

    def test_even_loads_leave_rows_the_whole_card(self):
        self.hold(self.GRIDS, "ideal", 0, 8.6, 8.9)

    def test_static_routes_take_two_to_three_times_as_long(self):
        self.hold(self.GRIDS, "static", 0, 17, 28)

    def test_hashed_routes_take_three_to_seven_times_as_long(self):
        for seed in 1, 2:
            self.hold(self.GRIDS[:3:2], "hashed", seed, 25, 61)

    def test_the_simulator_is_near(self):
        if not support.has_simulator():
            self.skipTest("no foretrain-sim")
        for routing in "static", "hashed":
            ratio = self.took(34, 8, routing, "sim") / self.took(34, 8, routing)
            self.assertTrue(0.95 < ratio < 1.05, ratio)


class Keys(support.Case):
    """What has no effect or makes no sense is refused at its place."""

    def refuse(self, base, network, message):
        """The check of a platform that extends @base fails so."""
        path = self.write("mine.yaml", f"extends: {base}\nnetwork: {network}\n")
        self.assertIn(message, self.refused(65, "check", "--platform", path))

    def test_keys_without_an_effect(self):
        for base, network, message in (
                ("dgx-1", "{routing: static}", "2:11: error: 'network.routing' has no effect without network.tiers"),
                ("dgx-1", "{placement: scattered}", "'network.placement' has no effect without network.tiers"),
                ("abci", "{routing_seed: 3}", "'network.routing_seed' has no effect without 'network.routing: hashed'"),
                ("abci", "{routing: static, routing_seed: 3}", "'network.routing_seed' has no effect without"),
                ("abci", "{placement_seed: 3}", "has no effect without 'network.placement: scattered'"),
                ("t1-torus", "{routing: static}", "'network' has no effect on a torus")):
            self.refuse(base, network, message)

    def test_one_uplink_leaves_no_choice(self):
        path = self.write("base.yaml", (ROOT / "platforms" / "abci.yaml").read_text(
            encoding="utf-8").replace("uplinks: 24", "uplinks: 1"))
        self.refuse(path, "{routing: hashed}", "'network.routing' has no effect where every switch has one uplink")

    def test_rails_divide_cards_and_uplinks(self):
        tier = "{tiers: [{name: rack, nodes: 34, uplinks: 24, rails: %d, bandwidth: 1 GB/s, efficiency: 1, latency: 0 s}]}"
        self.refuse("abci", tier % 5, "5 switches do not share 24 uplinks evenly")
        self.refuse("abci", tier % 4, "4 switches do not share the 2 network cards of a node evenly")

    def test_words(self):
        self.refuse("abci", "{routing: statik}", "static")

    def test_show_platform_says_how_messages_go(self):
        shown = run("show", "platform", "abci-routes").stdout
        self.assertIn("a leaf is 2 switches side by side", shown)
        self.assertIn("a message takes one uplink, by its destination", shown)
        path = self.write("mine.yaml", "extends: abci\nnetwork: {routing: hashed, placement: scattered}\n")
        said = answer("show", "platform", path)
        self.assertEqual((said["routing"], said["placement"]), ("hashed", "scattered"))
        shown = run("show", "platform", path).stdout
        self.assertIn("by a hash of both devices (seed 1)", shown)
        self.assertIn("a job's nodes are a random sample (seed 1)", shown)


if __name__ == "__main__":
    unittest.main()
