"""`validate` on spans that are known: which predictions pass, what is refused, what is printed."""
import json
import unittest

import support
from support import ROOT, answer, good, run

ANALYTIC = "--backend=analytic"


class Spans:
    """The text of a trace, to be written again with other times."""

    def __init__(self, path):
        self.head, self.ends, self.spans = {}, [], []
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            word, *rest = line.split()
            if word == "iteration_end":
                self.ends.append(float(rest[0]))
            elif word[0].isdigit():
                numbers = line.split()
                self.spans.append([*map(int, numbers[:3]), *map(float, numbers[3:])])
            else:
                self.head[word] = rest[0]

    def step(self):
        """The last iteration's spans, from its beginning on, and how long it is."""
        last = len(self.ends) - 1
        begin = self.ends[-2] if last else 0.0
        return ([[rank, step, a - begin, b - begin]
                 for iteration, rank, step, a, b in self.spans if iteration == last],
                self.ends[-1] - begin)

    def measured(self, *factors, ranks=None):
        """As if a run had taken these multiples of the predicted step, after one that took it
        once."""
        step, seconds = self.step()
        lines, ends, begin = [], [], 0.0
        for number, factor in enumerate((1.0, *factors)):
            lines += [f"{number} {rank} {i} {max(begin + factor * a, 0)!r} {begin + factor * b!r}"
                      for rank, i, a, b in step]
            begin += factor * seconds
            ends.append(f"iteration_end {begin!r}")
        head = {**self.head, "backend": "exec", "grain": "real", "iterations": len(ends)}
        if ranks:
            head["ranks"] = ranks
        keys = ("backend", "grain", "schedule_hash", "ranks", "entities", "messages", "iterations")
        return "\n".join(["foretrain-trace 1", *(f"{key} {head[key]}" for key in keys), *ends,
                          f"spans {len(lines)}", *lines, ""])


class Validate(support.Case):
    """The job's own prediction, told as if it had been measured."""

    def setUp(self):
        super().setUp()
        self.predicted = self.directory / "predicted"
        self.options = ["--set=training.phases=[{epochs: 1, batch_per_device: 32}]"]
        self.spans = self.predict()

    def predict(self, *options):
        answer("predict", self.job, ANALYTIC, "--spans", self.predicted, *self.options, *options)
        return Spans(self.predicted)

    def measured(self, *factors):
        return self.write("measured", self.spans.measured(*factors))

    def validate(self, *factors):
        """Of the job against what was measured."""
        return run("validate", self.job, *self.options, ANALYTIC, "--json", "--measured",
                   self.measured(*factors))

    def test_the_right_platform_passes(self):
        done = self.validate(1.02, 1.02, 0.98, 1.02)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        result = json.loads(done.stdout)
        step = result["rows"][0]
        self.assertEqual((result["verdict"], step["group"]), ("pass", "step"))
        self.assertAlmostEqual(step["measured_s"] / step["predicted_s"], 1.02, places=9)
        self.assertAlmostEqual(step["lower_quartile_s"] / step["predicted_s"], 1.01, places=9)
        self.assertAlmostEqual(step["error"], 1 / 1.02 - 1, places=9)

    def test_a_platform_of_half_the_rate_does_not(self):
        device = (ROOT / "platforms/devices/v100-sxm2-16gb.yaml").read_text(encoding="utf-8")
        slow = device.replace("value: 64.5 %", "value: 32.25 %")
        self.assertNotEqual(slow, device)
        platform = (ROOT / "platforms/abci.yaml").read_text(encoding="utf-8")
        name = self.write("slow.yaml", slow)
        path = self.write("abci-slow.yaml",
                          platform.replace("device: v100-sxm2-16gb", f"device: {name}"))
        measured = self.measured(1, 1, 1, 1)
        for wrong, code, verdict in ((path, 1, "fail"), ("abci", 0, "pass")):
            done = run("validate", self.job, *self.options, ANALYTIC, "--measured", measured,
                       "--json", f"--set=cluster.platform={wrong}")
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(json.loads(done.stdout)["verdict"], verdict)
        self.assertIn("longer than it was measured", run(
            "validate", self.job, *self.options, ANALYTIC, "--measured", measured,
            f"--set=cluster.platform={path}").stderr)

    def test_every_kind_lane_and_collective_has_the_factor_of_its_step(self):
        result = json.loads(self.validate(1.25, 1.25, 1.25).stdout)
        rows = {(row["group"], row["name"]): row for row in result["rows"]}
        self.assertEqual(result["verdict"], "fail")
        for kind in ("forward", "loss", "backward", "optimizer"):
            self.assertAlmostEqual(rows["kind", kind]["error"], -0.2, places=6)
        for lane in ("compute", "row", "column"):
            self.assertAlmostEqual(rows["lane", lane]["error"], -0.2, places=6)
        self.assertAlmostEqual(rows["part", "waiting for gradients, parameters"]["error"], -0.2,
                               places=6)
        parts = sum(row["predicted_s"] for row in result["rows"] if row["group"] == "part")
        self.assertAlmostEqual(parts, rows["step", "step"]["predicted_s"], places=9)
        for name in ("row reduce-scatter", "column all-reduce", "row all-gather"):
            row = rows["collective", "bucket 0 " + name]
            self.assertGreater(row["predicted_s"], 0)
            self.assertAlmostEqual(row["error"], -0.2, places=6)
        kinds = sum(row["predicted_s"] for row in result["rows"] if row["group"] == "kind")
        self.assertAlmostEqual(kinds, rows["lane", "compute"]["predicted_s"], places=9)

    def test_waiting_for_each_other_is_no_communication(self):
        step, _ = self.spans.step()
        text = self.spans.measured(1, 1, ranks=self.spans.head["ranks"])
        late = []
        for line in text.splitlines():
            if line[0].isdigit():
                iteration, rank, number, a, b = line.split()
                if rank == "0":
                    late.append(f"{iteration} 1 {number} {float(b) - (float(b) - float(a)) / 2!r} "
                                f"{b}")
        text = text.replace(f"spans {3 * len(step)}", f"spans {3 * len(step) + len(late)}")
        path = self.write("measured", text + "\n".join(late) + "\n")
        result = answer("validate", self.job, *self.options, ANALYTIC, "--measured", path)
        row, = (row for row in result["rows"] if row["name"] == "bucket 0 column all-reduce")
        self.assertAlmostEqual(row["measured_s"] / row["predicted_s"], 0.5, places=6)

    def test_the_tolerance_is_the_users(self):
        measured = self.measured(1.2, 1.2, 1.2)
        words = ("validate", self.job, *self.options, ANALYTIC, "--measured", measured)
        self.assertEqual(run(*words, "--tolerance", "20%").returncode, 0)
        self.assertEqual(run(*words, "--tolerance", "5 %").returncode, 1)
        self.assertEqual(run(*words).returncode, 1)
        for wrong in ("many", "-5 %", "0 %"):
            self.assertIn("--tolerance", self.refused(64, *words, f"--tolerance={wrong}"))

    def test_disturbed_runs_judge_nobody(self):
        done = self.validate(1, 1, 1, 5, 5, 5, 5)
        self.assertEqual(done.returncode, 75, done.stderr)
        self.assertEqual(json.loads(done.stdout)["verdict"], "disturbed")

    def test_two_files_need_no_job(self):
        words = ("validate", "--predicted", self.predicted, "--measured", self.measured(1.1, 1.1))
        result = answer(*words)
        self.assertEqual([row["group"] for row in result["rows"]], ["step"])
        self.assertIsNone(result["platform"])
        self.assertEqual(run(*words, "--tolerance=5%").returncode, 1)
        done = good("validate", self.job, *self.options, *words[1:])
        self.assertIn("bucket 0 row reduce-scatter", done.stdout)

    def test_different_schedules_are_refused(self):
        measured = self.measured(1, 1)
        self.predict("--set=allreduce.bucket=8 MiB")
        message = self.refused(65, "validate", "--predicted", self.predicted, "--measured",
                               measured)
        self.assertIn("of different schedules", message)
        message = self.refused(65, "validate", self.job, *self.options, "--measured", measured,
                               "--set=allreduce.bucket=8 MiB")
        self.assertIn("not a run of any phase", message)
        message = self.refused(65, "validate", self.job, *self.options, "--measured", measured,
                               "--predicted", self.predicted)
        self.assertIn("of different schedules", message)

    def test_what_cannot_run_here_as_predicted_is_refused_before_it_runs(self):
        words = ("validate", self.job, *self.options, ANALYTIC, "-n8")
        self.assertIn("another schedule than the one predicted for 2 nodes", self.refused(
            65, *words, "--set=allreduce={algorithm: hierarchical}"))
        self.assertIn("algorithm nccl is a model", self.refused(
            69, *words, "--set=allreduce={algorithm: nccl}"))
        self.assertIn("give the number of ranks to start", self.refused(
            64, *words[:-1], "--set=cluster.nodes=68", "--set=allreduce={algorithm: ring}"))

    def test_the_phase_that_was_measured_is_found(self):
        self.options = []
        self.spans = self.predict()   # of the last of two
        result = json.loads(self.validate(1, 1).stdout)
        self.assertEqual(result["verdict"], "pass")
        self.assertLess(abs(result["rows"][0]["error"]), 1e-12)

    def test_both_timelines_stand_in_one_file(self):
        trace = self.directory / "both.json"
        answer("validate", self.job, *self.options, ANALYTIC, "--measured",
               self.measured(1.05, 1, 1.05), "--trace", trace)
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(names, {0: "predicted rank 0", 1: "measured rank 0"})
        ends = [max(e["ts"] + e["dur"] for e in events if e["ph"] == "X" and e["pid"] == pid)
                for pid in names]
        self.assertAlmostEqual(ends[1] / ends[0], 1.05, places=5)
        self.assertGreaterEqual(min(e["ts"] for e in events if e["ph"] == "X"), 0)
        spans = [[(e["tid"], e["name"]) for e in events if e["ph"] == "X" and e["pid"] == pid
                  and "step id" in e["args"]] for pid in names]
        self.assertEqual(sorted(spans[0]), sorted(spans[1]))

    def test_faults(self):
        measured = self.measured(1, 1)
        self.assertIn("a JOB is needed", self.refused(64, "validate"))
        self.refused(64, "validate", "--measured", measured)
        self.refused(66, "validate", self.job, "--measured", self.directory / "gone")
        self.refused(66, "validate", self.directory / "gone.yaml", "--measured", measured)
        self.assertIn(f"{self.job}:1: not the spans of a run: expected ",
                      self.refused(65, "validate", self.job, "--measured", self.job))
        self.assertIn("at least 1 and 2",
                      self.refused(65, "validate", "--predicted", measured, "--measured",
                                   self.predicted))
        for option in ("-n2", "--steps=3", "--threads=1", "--device=replay"):
            self.assertIn("--measured does not work with --", self.refused(
                64, "validate", self.job, "--measured", measured, option))
        self.assertIn("need a JOB", self.refused(
            64, "validate", "--predicted", self.predicted, "--measured", measured, "--trace=x"))
        for option in ("--trace", "--report"):  # before anything is run or read
            self.refused(73, "validate", self.job, "--measured", self.directory / "gone", option,
                         self.directory / "no" / "such")


if __name__ == "__main__":
    unittest.main(verbosity=2)
