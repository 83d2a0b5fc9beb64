"""Reads back what the example program wrote, as JSON readers do.

Usage: test_timeline.py EXAMPLE
"""

import json
import os
import re
import sys
import tempfile
import unittest

import harness

EXAMPLE = ""
RANKS = (5, 11)


def setUpModule():
    global folder
    folder = unittest.enterModuleContext(tempfile.TemporaryDirectory())
    harness.execute(EXAMPLE, path("kineto.json"))


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


if __name__ == "__main__":
    EXAMPLE = sys.argv[1]
    harness.main(argv=sys.argv[:1])
