"""Routes over the uplinks of a cluster: refused keys, and what is shown.  Shares are tested in sim/test_routes.c."""

import support
from support import ROOT, answer, run


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
