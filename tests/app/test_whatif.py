#!/usr/bin/python3
"""What changes when a job or a platform is changed, against bounds computed here."""
import unittest

import support
from support import answer

JOB = """\
version: 1
model: {network: resnet50, image: 224, precision: {compute: fp16, gradients: fp16}}
cluster: {platform: %s, nodes: 32, software: mlperf-v4.0}
training: {dataset: imagenet, phases: [{epochs: 40, batch_per_device: 32}], evaluate_every: 4}
allreduce: {algorithm: nccl, bucket: 16 MiB, overlap: backward}
"""

LEAVES = """\
extends: %s/platforms/dgx-h100.yaml
name: leaves
network:
  tiers:
    - name: leaf
      nodes: 4
      uplinks: %d
      bandwidth: {value: %s, source: of this test, kind: assumed}
      efficiency: {value: 100 %%, source: of this test, kind: assumed}
      latency: {value: %s, source: of this test, kind: assumed}
nccl: {sharp: %s}
"""

NODES, LEAF = 32, 4
VECTOR = 51_000_000
GRADIENTS = 25_557_032 * 2  # bytes of ResNet-50's in fp16


def tree(nodes):
    """Child and parent of a binary tree whose inner nodes lie between their subtrees."""
    edges = []

    def hang(begin, end, parent):
        """Nodes begin to end: a root at the largest power of two above begin, and both sides."""
        size = end - begin
        if size <= 0:
            return
        half = 1
        while 2 * half <= size:
            half *= 2
        edges.append((begin + half - 1, parent))
        hang(begin, begin + half - 1, begin + half - 1)
        hang(begin + half, end, begin + half - 1)

    hang(1, nodes, 0)
    return edges


def crossing(nodes, leaf):
    """Half vectors that leave the busiest leaf, over both trees: the second is the first mirrored."""
    edges = tree(nodes) + [(nodes - 1 - a, nodes - 1 - b) for a, b in tree(nodes)]
    count = [0] * (nodes // leaf)
    for child, parent in edges:
        if child // leaf != parent // leaf:
            count[child // leaf] += 1
            count[parent // leaf] += 1
    return max(count)


class Uplinks(support.Case):
    """A leaf of four nodes with fewer and fewer cables up."""

    def fabric(self, uplinks, bandwidth="400 Gb/s", latency="130 ns", sharp="true"):
        """A platform, and the job on it."""
        platform = self.write("fabric.yaml",
                              LEAVES % (support.ROOT, uplinks, bandwidth, latency, sharp))
        return self.write("job.yaml", JOB % platform)

    def all_reduce(self, size=VECTOR):
        """One all-reduce on the fabric."""
        return answer("collective", "--platform", self.directory / "fabric.yaml", "--nodes", NODES,
                      "--bytes", f"{size}B", "--algorithm=nccl")["rows"][0]

    def test_a_step_never_gets_shorter_with_fewer_uplinks(self):
        for sharp in "true", "false":
            steps = [answer("predict", self.fabric(n, sharp=sharp))["step"]["time_s"]
                     for n in (32, 8, 4, 2, 1)]
            self.assertEqual(steps, sorted(steps))
            self.assertGreater(steps[-1], 1.001 * steps[0])

    def test_all_bytes_pass_one_slow_uplink(self):
        for sharp in "true", "false":
            step = answer("predict", self.fabric(1, "10 Mb/s", "1 ms", sharp))["step"]["time_s"]
            self.assertGreaterEqual(step, GRADIENTS / 1.25e6)

    def test_bytes_over_the_uplinks_are_those_of_the_flows(self):
        """With SHARP the vector once each way, with trees half of it an edge; 10 % for latency."""
        for sharp, vectors in ("true", 1), ("false", crossing(NODES, LEAF) / 2):
            for uplinks in 8, 4, 2, 1:
                self.fabric(uplinks, sharp=sharp)
                expected = VECTOR * vectors / (uplinks * 50e9)
                alone = VECTOR / (370.8e9 if sharp == "true" else 160e9)
                row = self.all_reduce()
                self.assertIn("nvls", row["choice"])
                latency = self.all_reduce(4)["time_s"]
                self.assertGreaterEqual(row["time_s"], expected)
                self.assertLess(row["time_s"], 1.1 * max(expected, alone) + 300e-6 + latency)

    def test_a_slow_hop_counts(self):
        self.fabric(32)
        near = self.all_reduce(8)["time_s"]
        self.fabric(32, latency="1 ms")
        self.assertGreater(self.all_reduce(8)["time_s"], near + 1.99e-3)


if __name__ == "__main__":
    unittest.main()
