#!/usr/bin/python3
"""Traces for other tools: predict --trace, and import trace of what it wrote."""
import gzip
import json
import re
import unittest

from support import Case, run


def spans_at(events, end):
    """The steps in which the end of an arrow lies."""
    return [event["args"] for event in events if event["ph"] == "X" and event["tid"] == end["tid"]
            and event["pid"] == end["pid"] and "step id" in event["args"]
            and event["ts"] <= end["ts"] <= event["ts"] + event["dur"]]


class Traces(Case):
    def written(self, name):
        """The path of the trace of a job of 16 devices."""
        path = self.directory / name
        done = run("predict", self.job, "--backend", "analytic", "--traced-ranks", 3, "--trace",
                   f"{path}/" if name == "ranks" else path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def test_arrows_lead_from_backward_through_each_bucket_to_the_optimizer(self):
        events = json.loads(self.written("trace.json").read_text(encoding="utf-8"))["traceEvents"]
        ends = {ph: {event["id"]: event for event in events if event["ph"] == ph} for ph in "sf"}
        self.assertEqual(set(ends["s"]), set(ends["f"]))
        starts, collectives = {}, {}
        for arrow, begin in ends["s"].items():
            source, = spans_at(events, begin)
            targets = spans_at(events, ends["f"][arrow])
            self.assertTrue(targets)
            self.assertEqual(ends["f"][arrow]["bp"], "e")
            for target in targets:
                key = begin["pid"], target["iteration"], target["step id"]
                starts.setdefault(key, []).append(source["step id"])
        for event in events:
            if event["name"].startswith("nccl:"):
                key = event["pid"], event["args"]["iteration"], event["args"]["step id"]
                collectives[key] = event
        self.assertGreater(len(collectives), 9)
        for key in collectives:
            self.assertTrue(starts[key], key)

    def test_a_directory_has_a_file_for_each_rank_as_hta_finds_it(self):
        whole = json.loads(self.written("trace.json").read_text(encoding="utf-8"))
        ranks = {event["pid"] for event in whole["traceEvents"] if event["ph"] == "X"}
        files = sorted(self.written("ranks").iterdir())
        self.assertEqual({path.name for path in files}, {f"rank-{rank}.json" for rank in ranks})
        spans = 0
        for path in files:
            text = path.read_text(encoding="utf-8")
            rank = int(re.search(r'"rank":\s+(\d+)', text)[1])
            self.assertEqual(path.name, f"rank-{rank}.json")
            events = [event for event in json.loads(text)["traceEvents"] if event["ph"] == "X"]
            self.assertEqual({event["pid"] for event in events}, {rank})
            spans += len(events)
        self.assertEqual(spans, sum(event["ph"] == "X" for event in whole["traceEvents"]))

    def test_a_directory_with_other_ranks_is_refused(self):
        path = self.written("ranks")
        (path / "rank-99.json").touch()
        done = run("predict", self.job, "--backend", "analytic", "--trace", path)
        self.assertEqual(done.returncode, 73)
        self.assertIn("rank-99.json", done.stderr)

    def test_gz_holds_the_same_text_and_is_imported(self):
        plain, packed = self.written("trace.json"), self.written("trace.json.gz")
        self.assertEqual(gzip.decompress(packed.read_bytes()), plain.read_bytes())
        self.assertLess(packed.stat().st_size, plain.stat().st_size / 5)
        told = [run("import", "trace", path, "--json").stdout for path in (plain, packed)]
        self.assertEqual(*(json.loads(text)["result"]["kernels"] for text in told))
        packed.write_bytes(2 * packed.read_bytes())  # two members are one text
        self.assertNotEqual(run("import", "trace", packed).returncode, 0)

    def test_damaged_or_swollen_gz_is_refused(self):
        packed = self.written("trace.json.gz")
        whole = packed.read_bytes()
        turned = bytearray(whole)
        turned[len(whole) // 2] ^= 1
        for data, why in ((whole[:-9], "it ends too early"), (bytes(turned), "damaged"),
                          (gzip.compress(bytes(10**8)), "holds more than"),
                          (gzip.compress(b""), "empty")):
            packed.write_bytes(data)
            done = run("import", "trace", packed)
            self.assertEqual(done.returncode, 65, why)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
