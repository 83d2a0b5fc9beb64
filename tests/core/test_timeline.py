#!/usr/bin/python3
"""Reads back what the example program wrote, with the readers users have.

Usage: test_timeline.py kineto|paje EXAMPLE
"""

import json
import os
import re
import shutil
import sys
import tempfile
import unittest

import harness

EXAMPLE = ""
RANKS = (5, 11)


def setUpModule():
    global folder
    folder = unittest.enterModuleContext(tempfile.TemporaryDirectory())
    harness.execute(EXAMPLE, path("kineto.json"), path("trace.paje"))


def path(name):
    return os.path.join(folder, name)


class Kineto(unittest.TestCase):
    def setUp(self):
        with open(path("kineto.json"), encoding="utf-8") as file:
            self.text = file.read()
        self.trace = json.loads(self.text)
        self.events = self.trace["traceEvents"]

    def complete(self, category):
        return [e for e in self.events if e["ph"] == "X" and e["cat"] == category]

    def test_has_the_rank_on_an_early_line_of_its_own(self):
        lines = [i for i, line in enumerate(self.text.splitlines())
                 if re.fullmatch(r'"rank":\s+(\d+),', line)]
        self.assertEqual(len(lines), 1)
        self.assertLess(lines[0], 10)
        self.assertEqual(self.trace["distributedInfo"],
                         {"backend": "nccl", "rank": 5, "world_size": 12})

    def test_has_a_process_per_traced_rank_and_a_thread_per_lane(self):
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in self.events
                 if e["name"] == "thread_name"}
        self.assertEqual({pid for pid, _ in names}, set(RANKS))
        for rank in RANKS:
            self.assertEqual([names[rank, t] for t in range(5)],
                             ["compute", "row", "column", "input", "iterations"])

    def test_marks_tile_the_time_of_each_rank(self):
        for rank in RANKS:
            marks = [e for e in self.complete("user_annotation") if e["pid"] == rank]
            self.assertEqual([e["name"] for e in marks], ["ProfilerStep#0", "ProfilerStep#1"])
            begins = [e["ts"] for e in self.complete("kernel") if e["pid"] == rank]
            self.assertEqual(marks[0]["ts"], min(begins))  # images were fetched before
            self.assertEqual(marks[0]["ts"] + marks[0]["dur"], marks[1]["ts"])
            self.assertEqual(marks[1]["ts"] + marks[1]["dur"],
                             max(e["ts"] + e["dur"] for e in self.events
                                 if e["ph"] == "X" and e["pid"] == rank))

    def test_kernels_lie_on_their_lane_and_do_not_overlap(self):
        lanes = {}
        for event in self.complete("kernel") + self.complete("gpu_memcpy"):
            self.assertEqual(event["args"]["stream"], event["tid"])
            lanes.setdefault((event["pid"], event["tid"]), []).append(event)
        self.assertEqual(len(lanes), len(RANKS) * 4)
        for events in lanes.values():
            events.sort(key=lambda e: e["ts"])
            for first, second in zip(events, events[1:]):
                self.assertLessEqual(first["ts"] + first["dur"], second["ts"])

    def test_tells_communication_and_copies_by_name(self):
        for event in self.complete("kernel"):
            is_collective = event["tid"] in (1, 2)
            self.assertEqual(bool(re.match(r"nccl", event["name"])), is_collective)
        for event in self.complete("gpu_memcpy"):
            self.assertRegex(event["name"], "^Memcpy")

    def test_collectives_carry_sizes_and_groups(self):
        by_name = {e["name"]: e["args"] for e in self.complete("kernel") if e["pid"] == 11}
        scatter, reduce, gather = (by_name["nccl:" + n] for n in
                                   ("reduce_scatter", "all_reduce", "all_gather"))
        self.assertEqual((scatter["In msg nelems"], scatter["Out msg nelems"]), (1001, 251))
        self.assertEqual((reduce["In msg nelems"], reduce["Out msg nelems"]), (251, 251))
        self.assertEqual((gather["In msg nelems"], gather["Out msg nelems"]), (251, 1001))
        self.assertEqual((scatter["Group size"], reduce["Group size"]), (4, 3))
        self.assertEqual(json.loads(scatter["Process Group Ranks"]), [8, 9, 10, 11])
        self.assertEqual(json.loads(reduce["Process Group Ranks"]), [3, 7, 11])
        self.assertEqual(reduce["Collective name"], "all_reduce")


class Paje(unittest.TestCase):
    def test_pj_dump_reads_every_state(self):
        if not shutil.which("pj_dump"):
            self.skipTest("pj_dump (package pajeng) is not installed")
        dump = harness.execute("pj_dump", path("trace.paje"))
        self.assertEqual((dump.returncode, dump.stderr), (0, ""))
        rows = [[field.strip() for field in line.split(",")] for line in dump.stdout.splitlines()]
        states = [row for row in rows if row[0] == "State"]
        self.assertEqual(len(states), len(RANKS) * 2 * 6)
        for rank in RANKS:
            mine = {(row[7], float(row[3]), float(row[4])) for row in states
                    if row[1].startswith(f"rank{rank} ")}
            self.assertIn(("input", 0.25, 0.5), mine)
            self.assertIn(("conv1 forward", 0.25, 0.25), mine)
            self.assertIn(("bucket 0 column all-reduce", 3.25, 6.25), mine)
        containers = [row for row in rows if row[0] == "Container" and row[2] == "lane"]
        self.assertEqual(len(containers), len(RANKS) * 4)


if __name__ == "__main__":
    KIND, EXAMPLE = sys.argv[1:3]
    harness.main(skips=True, argv=sys.argv[:1], defaultTest=KIND.title())
