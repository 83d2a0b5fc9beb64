#!/usr/bin/python3
"""`collective` against the closed form, and its options."""
import math
import unittest

import support
from support import answer, has_simulator, run

SIZE = 100_000_000


def torus_seconds(side):
    """Row reduce-scatter, column all-reduce, row all-gather by rings; the platform t1-torus has
    75 GB/s and 1 us along rows, 25 GB/s and 5 us along columns."""
    rounds = 2 * (side - 1)
    return (rounds * (SIZE / (side * 75e9) + 1e-6)
            + rounds * (SIZE / (side * side * 25e9) + 5e-6))


def ring_seconds(ranks):
    """The platform t1-ring has 25 GB/s and 5 us."""
    return 2 * (ranks - 1) * (SIZE / (ranks * 25e9) + 5e-6)


class Collective(support.Case):
    """One all-reduce."""

    def ways(self, full):
        """Back end and grain, as options."""
        yield "--backend=analytic",
        if has_simulator():
            yield "--backend=sim", "--grain=folded"
            if full:
                yield "--backend=sim", "--grain=full"

    def test_a_torus_takes_the_closed_form(self):
        for side in (8, 16, 32, 64):
            for way in self.ways(full=side <= 16):
                result = answer("collective", "--platform=t1-torus", f"--grid={side}x{side}",
                                "--algorithm=torus2d", "--bytes=100MB", *way)
                row, = result["rows"]
                self.assertTrue(math.isclose(row["time_s"], torus_seconds(side), rel_tol=1e-6),
                                (side, way, row))
                self.assertEqual(row["steps"], 4 * (side - 1))

    def test_a_ring_takes_the_closed_form(self):
        for ranks in (64, 256, 4096):
            for way in self.ways(full=ranks <= 64):
                result = answer("collective", "--platform=t1-ring", f"--grid={ranks}x1",
                                "--algorithm=ring", *way)
                row, = result["rows"]
                self.assertTrue(math.isclose(row["time_s"], ring_seconds(ranks), rel_tol=1e-6),
                                (ranks, way, row))

    def test_bandwidths_follow_from_time(self):
        row, = answer("collective", "--platform=t1-torus", "--grid=4x4", "--algorithm=torus2d",
                      "-banalytic")["rows"]
        self.assertAlmostEqual(row["algbw"] * row["time_s"], SIZE, places=3)
        self.assertAlmostEqual(row["busbw"] / row["algbw"], 2 * 15 / 16, places=12)

    def test_lists_and_ranges_of_sizes(self):
        def sizes(text):
            return [row["bytes"] for row in answer("collective", "--platform=t1-ring", "-banalytic",
                                                   "--grid=4x1", "--bytes", text)["rows"]]
        self.assertEqual(sizes("1MB,10kB"), [1_000_000, 10_000])
        self.assertEqual(sizes("1MiB..8MiB:x2"), [2**20, 2**21, 2**22, 2**23])

    def test_text_has_the_columns_of_nccl_tests(self):
        done = run("collective", "--platform=t1-ring", "--grid=4x1", "-banalytic")
        header = done.stdout.splitlines()[2].lstrip("#").split()
        self.assertEqual(header, ["bytes", "time", "algbw", "busbw", "steps"])

    def test_nodes_of_a_cluster(self):
        result = answer("collective", "--platform=abci", "--nodes=4", "-banalytic")
        self.assertEqual(result["ranks"], 16)

    def test_nccl_is_as_fast_in_both_back_ends_and_says_what_it_chose(self):
        results = [answer("collective", "--platform=generic-fat-tree", "--nodes=8",
                          "--algorithm=nccl", "--bytes=1kB..1GB:x8", *way)["rows"]
                   for way in self.ways(full=True)]
        for rows in results:
            self.assertEqual([row["time_s"] for row in rows],
                             sorted(row["time_s"] for row in rows))
            self.assertEqual(rows[0]["choice"], "tree LL")
            for row, first in zip(rows, results[0]):
                self.assertTrue(math.isclose(row["time_s"], first["time_s"], rel_tol=1e-9), row)
                self.assertEqual(row["choice"], first["choice"])

    def test_nccl_is_refused_where_the_platform_says_nothing_of_it(self):
        for platform in ("t1-ring", "t1-torus"):
            message = self.refused(65, "collective", "--grid=4x1", "--algorithm=nccl",
                                   "--platform", platform)
            self.assertRegex(message, f"{platform}.yaml: error: .*section 'nccl'")

    def test_faults(self):
        words = ("collective", "--platform=t1-torus")
        self.refused(64, "collective", "--grid=4x4")
        self.refused(64, *words)
        self.refused(64, *words, "--grid=4by4")
        self.refused(64, *words, "--grid=4x4", "--bytes=100")
        self.refused(64, *words, "--grid=4x4", "--bytes=1MB..2MB")
        self.refused(64, *words, "--grid=4x4", "--bytes=1MB..2MB:x1")
        self.refused(64, *words, "--grid=4x4", "--bytes=0B")


if __name__ == "__main__":
    unittest.main(verbosity=2)
