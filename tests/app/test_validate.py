"""`validate` on spans that are known: which predictions pass, what is refused, what is printed; and kept predictions."""
import csv
import importlib.util
import json
import math
import statistics
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


HEAD = "name,predicted_s,low_s,high_s,measured_s,note\n"


class Against(support.Case):
    """Predictions that were kept, and what was measured since."""

    def score(self, text):
        """The answer about a file."""
        return answer("validate", "--against", self.write("kept.csv", text))

    def test_two_runs_by_hand(self):
        """1 s for 0.8 and 2: +25 and -50 %, one inside; a width of ln 2, and 20 ln 1.25 for the miss."""
        text = HEAD + 'a,1,0.8,1.6,0.8,"x, ""y"""\nb,1,0.8,"1.6", 2 ,"two\nlines"\n\nc,1.5,1.2,2,,\nd,,,,3,refused\n'
        for written in (text, "\ufeff" + text.replace("\n", "\r\n")):
            result = self.score(written)
            self.assertEqual([(row["line"], row["inside_interval"]) for row in result["rows"]], [(2, True), (3, False)])
            self.assertEqual([row["error"] for row in result["rows"]], [0.25, -0.5])
            for key, value in (("scored", 2), ("unscored", 2), ("median_error", 0.375), ("p90_error", 0.475),
                               ("median_signed_error", -0.125), ("inside", 1), ("inside_share", 0.5),
                               ("median_width", math.log(2)), ("interval_score", math.log(2) + 10 * math.log(1.25))):
                self.assertAlmostEqual(result[key], value, msg=key)
        said = good("validate", "--against", self.directory / "kept.csv").stdout
        self.assertRegex(said, r"\n +3 +1.00 s +0.80 s +1.60 s +2 s +-50 % +no\n")
        self.assertRegex(said, r"\n +2 +2 +37.5 % +47.5 % +-12.5 % +1 +50 % +0.6931 +2.925\n$")

    @unittest.skipUnless(support.has_gsl(), "built without GSL: no intervals")
    def test_a_sweep_is_scored_once_its_points_were_measured(self):
        rows = list(csv.DictReader(good(
            "sweep", self.job, ANALYTIC, "--list=cluster.nodes=4,3", "--csv", "-").stdout.splitlines()))
        measured = [1.1 * float(row["step_s"] or 1) for row in rows]
        with (self.directory / "kept.csv").open("w", encoding="utf-8", newline="") as file:
            out = csv.DictWriter(file, ["measured_s", *rows[0]])
            out.writeheader()
            out.writerows({**row, "measured_s": value} for row, value in zip(rows, measured))
        result = answer("validate", "--against", self.directory / "kept.csv")
        self.assertEqual((result["scored"], result["unscored"]), (1, 1))
        self.assertEqual(result["rows"][0]["step_s_low"], float(rows[0]["step_s_low"]))
        self.assertAlmostEqual(result["median_signed_error"], 1 / 1.1 - 1)

    def test_the_study_of_networks_has_the_same_scores(self):
        path = ROOT / "experiments" / "07_networks" / "report.py"
        spec = importlib.util.spec_from_file_location("report", path)
        spec.loader.exec_module(report := importlib.util.module_from_spec(spec))
        lines = path.with_name("predictions.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        report.HERE = self.directory
        result = self.score("".join(lines[:1] + lines[1::23]))
        rows = report.read("kept.csv")
        errors = [abs(row["ratio"] - 1) for row in rows]
        self.assertGreater(len(rows), 40)
        for key, value in (("scored", len(rows)), ("median_error", report.quantile(errors, 0.5)),
                           ("p90_error", report.quantile(errors, 0.9)), ("inside", sum(row["inside"] for row in rows)),
                           ("median_signed_error", statistics.median(row["ratio"] for row in rows) - 1),
                           ("interval_score", statistics.mean(map(report.interval_score, rows)))):
            self.assertAlmostEqual(result[key], value, msg=key)

    def test_what_is_no_such_table_is_refused_at_its_place(self):
        row = "a,1,0.8,1.6,0.8,x\n"
        for place, said, text in (
                ("1:1", "the file ends in this cell", ""), ("1:1", "the file ends", "\0\1\2"),
                ("1:36", "separated by commas, lack 'measured_s'", HEAD.replace("measured_s", "seen").replace("note", "more") + row),
                ("1:42", "'step_s' is a second column of the predicted step", HEAD.replace("note", "step_s")),
                ("1:42", "'low_s' is a second column", HEAD.replace("note", "low_s")),
                ("2:3", "'fast' is not a time", HEAD + "a,fast,1,2,1,x\n"), ("2:11", "'-1' is not a time", HEAD + "a,1,0.5,2,-1,x\n"),
                ("3:7", "'0' is not a time", HEAD + row + "a,1,1,0,1,x\n"), ("3:5", "'nan' is not", HEAD + row + "a,1,nan,1,1,x\n"),
                ("2:9", "'2 ms' is not", HEAD + "a,1,0.5,2 ms,1,x\n"), ("2:11", "ends before it begins", HEAD + "a,1,2,1,1,x\n"),
                ("3:9", "the row has 5 cells, the header 6", HEAD + row + "a,1,1,2,1\n"), ("2:13", "has 7 cells", HEAD + "a,1,1,2,1,x,y\n"),
                ("3:5", "the file ends in this cell", HEAD + row + row[:7]), ("2:17", "its quote is not closed", HEAD + row[:-2] + '"x\n'),
                ("2:10", "no row up to here", HEAD + "a,1,1,2,,\n"), ("3:1", "the file ends", HEAD + row + "\0")):
            with self.subTest(text):
                path = self.write("bad.csv", text)
                self.assertRegex(self.refused(65, "validate", "--against", path), f"^{path}:{place}: error: .*{said}")
        self.refused(66, "validate", "--against", self.directory / "gone.csv")
        for words in ((self.job,), ("--steps=3",), ("--report=x.html",)):
            self.assertIn("works alone", self.refused(64, "validate", "--against", path, *words))
