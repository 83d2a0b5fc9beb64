"""`sweep`: every point as `predict` has it, what cannot be."""
import csv
import io
import itertools
import random

import support
from support import answer, good, has_simulator, run

NODES = ("--scan", "cluster.nodes=2..8:x2")
NUMBERS = {"step_s": ("step_s",), "images_per_s": ("images_per_s",),
           "scaling_efficiency": ("scaling_efficiency",),
           "time_to_train_s": ("time_to_train_s",), "epochs": ("epochs",)}
INTERVALS = ("step_s", "images_per_s", "scaling_efficiency", "time_to_train_s")
HEADER = [key + end for key in ("step_s", "images_per_s", "samples_per_s", "scaling_efficiency", "time_to_train_s", "epochs",
                                "batch_known", "nccl_version", "nccl", "device_hours", "cost", "energy_kwh", "carbon_kg")
          for end in ("", "_low", "_high") if key not in ("epochs", "batch_known", "nccl_version", "nccl") or not end]
HEADER += ["simulated_over_closed_form", "backend", "status", "reason"]



def table(text):
    """The rows of a CSV."""
    return list(csv.DictReader(io.StringIO(text)))


class Sweep(support.Case):
    """On a job whose grid follows the nodes."""

    def setUp(self):
        super().setUp()
        self.job = self.write("job.yaml", support.JOB.replace("grid: {columns: 4, rows: 4}, ", ""))

    def sweep(self, *words, **environment):
        """The rows of a sweep in closed form."""
        return table(good("sweep", self.job, "--backend", "analytic", "--csv", "-", *words,
                          **environment).stdout)

    def expect_prediction(self, row, backend, *words):
        """A row has the numbers of `predict`; its intervals are from the first draws of those."""
        result = answer("predict", self.job, "--backend", backend, *words)
        for name, path in NUMBERS.items():
            value = result
            for key in path:
                value = value[key]
            self.assertEqual(float(row[name]), value, name)
        for key in (f"{name}_{end}" for name in INTERVALS for end in ("low", "high")):
            if result[key] is not None:
                self.assertAlmostEqual(float(row[key]) / result[key], 1, delta=0.05)
        devices = [phase["devices"] * phase["steps"] * phase["step_s"]
                   for phase in result["phases"]]
        rest = (result["evaluation_s"] + result["startup_s"]) * result["phases"][-1]["devices"]
        self.assertAlmostEqual(float(row["device_hours"]) * 3600 / (sum(devices) + rest), 1, 12)

    def test_rows_are_what_predict_answers(self):
        rows = self.sweep(*NODES, "--list", "allreduce.algorithm=nccl,torus2d",
                          "--scan", "platform.transport.between=2us..8us:3us")
        axes = itertools.product((2, 4, 8), ("nccl", "torus2d"), ("2 us", "5 us", "8 us"))
        keys = ("cluster.nodes", "allreduce.algorithm", "platform.transport.between")
        self.assertEqual([[row[key] for key in keys] for row in rows],
                         [[str(value) for value in point] for point in axes])
        self.assertEqual(list(rows[0]), ["point", *keys, *HEADER, "front"])
        for row in random.Random(1).sample(rows, 4):
            sets = itertools.chain(*(("--set", f"{key}={row[key]}") for key in keys))
            self.expect_prediction(row, "analytic", *sets)

    def test_numbers_of_ranges(self):
        for text, expected in (("1..5", ["1", "2", "3", "4", "5"]),
                               ("16..64:16", ["16", "32", "48", "64"]),
                               ("3..20:x2", ["3", "6", "12"]), ("1,2..3,8", ["1", "2", "3", "8"])):
            rows = self.sweep("--scan", f"cluster.nodes={text}")
            self.assertEqual([row["cluster.nodes"] for row in rows], expected)
        rows = self.sweep("--scan", "training.label_smoothing=0.1..0.3:0.1")
        self.assertEqual([row["training.label_smoothing"] for row in rows], ["0.1", "0.2", "0.3"])
        rows = self.sweep("--list", "allreduce.grid={columns: 4, rows: 4},{columns: 8, rows: 2}")
        self.assertEqual(len(rows), 2)

    def test_a_point_that_makes_no_job_is_a_row(self):
        rows = self.sweep("--list", "cluster.nodes=4,1000000", "--list",
                          "allreduce.algorithm=nccl,mpi")
        status = [(row["status"], bool(row["step_s"]), bool(row["reason"])) for row in rows]
        self.assertEqual(status, [("ok", True, False)] + [("refused", False, True)] * 3)
        for row in rows[1:]:
            sets = ("--set", f"cluster.nodes={row['cluster.nodes']}", "--set",
                    f"allreduce.algorithm={row['allreduce.algorithm']}")
            message = self.refused(run("predict", self.job, *sets).returncode, "predict", self.job,
                                   *sets)
            self.assertIn(row["reason"].removeprefix("'"), message)

    def test_without_any_answer_the_first_refusal_is_that_of_the_sweep(self):
        done = run("sweep", self.job, "--list", "cluster.node=1,2")
        self.assertEqual(done.returncode, 65)
        self.assertIn("unknown key 'node' in cluster", done.stderr)
        self.assertIn("did you mean 'nodes'", done.stderr)

    def test_a_value_that_fits_no_job_is_refused_before_the_first_point(self):
        table = self.directory / "all.csv"
        for axis, words in (("allreduce.algorithm=nccl,torus", "torus2d, nccl"),
                            ("cluster.platform=abci,abcd", "did you mean 'abci'?"),
                            ("cluster.software=mlperf-v4.0,x", "no software 'x'"),
                            ("model.network=resnet50,resnet51", "did you mean 'resnet50'?"),
                            ("cluster.nodes=4,1-3", "a range is written as 8..1024:x2"),
                            ("cluster.nodes=4,x", "not a whole number"),
                            ("training.phases[1].batch_per_device=8,0", "out of range"),
                            ("training.phases.1.batch_per_device=8,0", "out of range")):
            key, values = axis.split("=")
            message = self.refused(64, "sweep", self.job, "--list", axis, "--csv", table)
            self.assertIn(words, message)
            self.assertIn(f"{key}={values.split(',')[1]}", message)
            self.assertEqual(list(self.directory.glob("all.csv*")), [])
        # what others decide is a row: a grid has no effect with nccl
        rows = self.sweep("--list", "allreduce.algorithm=nccl, torus2d", "--list",
                          "allreduce.grid={columns: 4, rows: 4},null")
        self.assertEqual([row["status"] for row in rows], ["refused", "ok", "ok", "ok"])
        # what is no plain word is a value, too
        rows = self.sweep("--list", "allreduce.bucket={low: 1 MiB, high: 4 MiB},16 MiB",
                          "--list", "allreduce.algorithm='nccl',\"ring\"")
        self.assertEqual([row["status"] for row in rows], ["ok"] * 4)

    def test_mistakes_in_axes_have_their_place_and_a_way_out(self):
        for axis, column, words in (("cluster.nodes", 1, "key=values is expected"),
                                    ("=3", 1, "key=values is expected"),
                                    ("cluster.nodes=", 15, "a value is missing"),
                                    ("cluster.nodes=1,,2", 17, "a value is missing"),
                                    ("cluster.nodes=8..x", 15, "a range is written as"),
                                    ("cluster.nodes=1...3", 15, "a range is written as"),
                                    ("cluster.nodes=8..64:y2", 15, "a range is written as"),
                                    ("cluster.nodes=8..64:x1", 15, "never ends"),
                                    ("cluster.nodes=8..64:0", 15, "never ends"),
                                    ("cluster.nodes=64..8", 15, "the smaller end comes first"),
                                    ("a.b=2us..1ms:x2", 5, "the same unit"),
                                    ("a.b=1..9999999", 5, "more than 1000000 values"),
                                    ("cluster.nodes=4,4", 15, "stands here twice")):
            message = self.refused(64, "sweep", self.job, "--scan", axis)
            self.assertIn(words, message)
            caret = message.splitlines()[2]
            self.assertEqual(caret.index("^") - 1, column, message)
        self.assertIn("scanned twice", self.refused(64, "sweep", self.job, *NODES, *NODES))
        self.assertIn("more than 1000000 points", self.refused(
            64, "sweep", self.job, "--scan", "a=1..1001", "--scan", "b=1..1000"))
        self.assertIn("has no effect", self.refused(64, "sweep", self.job, *NODES, "--nodes", "4"))
        self.assertIn("needs an axis", self.refused(64, "sweep", self.job))

    def test_a_target_has_its_shortest_time_at_a_finite_batch(self):
        """More images at once need more epochs: beyond some batch the whole run is longer."""
        self.job = self.write("target.yaml", support.JOB.replace(
            "grid: {columns: 4, rows: 4}, ", "").replace(
                "    - {epochs: 30, batch_per_device: 16}\n    - {epochs: 60, batch_per_device: 32}\n",
                "    - {batch_per_device: 32}\n").replace(
                    "  dataset: imagenet\n",
                    "  dataset: imagenet\n  target: 75.9 %\n  recipe: rcp-nvidia\n"))
        words = ("--nodes", "256", "--ignore-memory", "--scan",
                 "training.phases[0].batch_per_device=1..1024:x2")
        rows = [row for row in self.sweep(*words) if row["status"] == "ok"]
        times = [float(row["time_to_train_s"]) for row in rows]
        least = times.index(min(times))
        self.assertGreater(least, 0)
        self.assertLess(least, len(times) - 1)
        best, most = rows[least], rows[-1]
        said = run("sweep", self.job, "--backend", "analytic", *words).stdout
        key = "training.phases[0].batch_per_device"
        self.assertIn(f"Why {key}={best[key]} and not {most[key]}: more images", said)
        for name, form in (("epochs", "{:.1f} instead of {:.1f} ({:.2f} times)"),
                           ("images_per_s", "{:.0f} images/s instead of {:.0f} ({:.2f} times)")):
            a, b = float(best[name]), float(most[name])
            self.assertIn(form.format(b, a, b / a), said)
        for other in ("allreduce.algorithm=nccl,ring", "training.evaluate_every=1,4"):
            self.assertNotIn("Why", run("sweep", self.job, "--backend", "analytic", "--nodes", "256",
                                        "--list", other).stdout)

    def test_batches_that_no_run_converged_with_are_named(self):
        words = ("sweep", self.job, "--backend", "analytic", "--nodes", "512", "--set", "allreduce.grid=null",
                 "--list", "training.phases[*].batch_per_device=8,64")
        said = run(*words).stdout
        self.assertIn("No published run converged with 131072 images a step", said)
        self.assertIn("with fewer the fastest point is training.phases[*].batch_per_device=8: ", said)
        self.assertIn("which batch converges is not known", run(*words, "--set", "model.network=vgg16").stdout)

    def test_epochs_that_the_batch_does_not_decide_are_said_to_be_those_of_the_job(self):
        """Of 4 x 4 devices with 16 and 64 images each; nothing to say where no batch differs."""
        words = ("sweep", self.job, "--backend", "analytic", "--list")
        self.assertIn("The epochs are those of the job: 90, with 1024 images a step as with 256; "
                      "training.target", run(*words, "training.phases[1].batch_per_device=16,64").stdout)
        self.assertNotIn("The epochs", run(*words, "allreduce.algorithm=nccl,torus2d").stdout)

    def test_json_has_its_front(self):
        result = answer("sweep", self.job, "--backend", "analytic", *NODES, "--list",
                        "allreduce.algorithm=nccl,torus2d,ring")
        merit = {point["point"]: (point["time_to_train_s"], point["device_hours"])
                 for point in result["points"]}
        front = [number for number, own in merit.items()
                 if not any(other != own and other[0] <= own[0] and other[1] <= own[1]
                            for other in merit.values())]
        self.assertEqual(result["front"], front)
        self.assertEqual(result["points"][0]["set"],
                         {"cluster.nodes": 2, "allreduce.algorithm": "nccl"})

    def test_prices_are_those_of_predict(self):
        rows = self.sweep(*NODES, "--prices", "example-h100")
        bill = answer("predict", self.job, "-b", "analytic", "--nodes", "8", "--prices",
                      "example-h100")
        self.assertEqual(float(rows[2]["cost"]), bill["cost"])
        self.assertEqual(float(rows[2]["energy_kwh"]), bill["energy_kwh"])
        self.assertEqual(self.sweep(*NODES)[2]["cost"], "")

    def test_workers_do_not_matter(self):
        words = (*NODES, "--list", "allreduce.algorithm=nccl,torus2d,ring")
        self.assertEqual(self.sweep(*words, "--jobs", "1"), self.sweep(*words, "--jobs", "5"))

    # ---- the simulator's checks ----

    def test_the_front_is_simulated(self):
        if not has_simulator():
            self.skipTest("needs foretrain-sim")
        words = ("--scan", "cluster.nodes=1..8", "--list", "allreduce.algorithm=nccl,torus2d,ring")
        result = answer("sweep", self.job, *words)
        points = {point["point"]: point for point in result["points"]}
        checked = {check["point"]: check for check in result["control"]["points"]}
        self.assertTrue(set(result["front"]) <= set(checked))
        self.assertEqual(set(checked), {number for number, point in points.items()
                                        if point["backend"] == "sim"})
        for number, check in checked.items():
            ratio = check["simulated_step_s"] / check["closed_form_step_s"]
            self.assertAlmostEqual(points[number]["simulated_over_closed_form"], ratio, 12)
        one = points[result["front"][0]]
        self.expect_prediction(one, "sim", *itertools.chain(
            *(("--set", f"{key}={value}") for key, value in one["set"].items())))
