"""`plan`: the best plan is that of brute force, limits hold as `predict` says, and what cannot be."""
import csv
import functools
import io
import itertools
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import support
from support import PROGRAM, answer, has_simulator, likely, run

JOB = """\
version: 1
model: {network: resnet50, precision: {compute: fp16, gradients: fp16}}
cluster: {platform: dgx-h100, nodes: 4, software: mlperf-v4.0}
training:
  dataset: imagenet
  phases: [{batch_per_device: 64}]
  evaluate_every: 4 epochs
  target: 75.9 %
  recipe: rcp-nvidia
  startup: 10 s
allreduce: {algorithm: nccl}
"""
PRICES = """\
version: 1
name: %s
description: of a test
date: 2026-01-01
currency: %s
price: {node_hour: %s}
"""
# Few enough for brute force; commas between, as --nodes and others have them.
SPACE = {"platforms": "dgx-h100,dgx-a100", "nodes": "2,3,5,6", "batch": "64,96,224",
         "algorithms": "nccl,torus2d,ring", "buckets": "4MiB,64MiB"}
KEYS = ("cluster.platform", "cluster.nodes", "training.phases[*].batch_per_device",
        "allreduce.algorithm", "allreduce.bucket")


ALL = tuple(itertools.chain(*((f"--{name}", values) for name, values in SPACE.items())))
GPT = """\
version: 1
model: {network: transformer, layers: 4, hidden: 384, heads: 6, vocab: 8000, sequence: 512, precision: {compute: bf16}}
cluster: {platform: dgx-a100, nodes: 2, software: pytorch-flash}
parallel: {sharding: 1}
training:
  optimizer: {name: adamw}
  phases: [{global_batch: 64, tokens: 1B}]
allreduce: {algorithm: nccl}
"""
MESH = {"parallel.tensor": "1,2,3,4", "parallel.pipeline": "1,2,4", "training.micro_batch": "1,2,4",
        "parallel.sharding": "1,3", "parallel.recompute": "none,full"}


FEW = ("--algorithms", "nccl", "--buckets", "64MiB")


class Plan(support.Case):
    """On the time to an accuracy."""

    def setUp(self):
        super().setUp()
        self.job = self.write("job.yaml", JOB)

    def plan(self, *words, code=0):
        """The JSON of a plan in closed form."""
        done = run("plan", self.job, "--backend", "analytic", "--json", *words)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout)

    def predicted(self, plan, *words):
        """What `predict` says of a plan."""
        return answer("predict", self.job, "--backend", plan["backend"], *words,
                      *itertools.chain(*(("--set", word) for word in plan["set"])))

    @staticmethod
    @functools.cache  # by the text of the job
    def points(text):
        """All points of the small space that make a job, by `sweep`: their numbers."""
        axes = itertools.chain(*(("--list", f"{key}={values}")
                                 for key, values in zip(KEYS, SPACE.values())))
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as job:
            job.write(text)
            job.flush()
            done = run("sweep", job.name, "--backend", "analytic", "--csv", "-", *axes, "--set", "allreduce.grid=null")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        assert len(rows) == 2 * 4 * 3 * 3 * 2, len(rows)
        return [row for row in rows if row["status"] == "ok"]

    def brute_force(self, key):
        """The points of the test's job, the least of @key first."""
        return sorted(self.points(self.job.read_text(encoding="utf-8")), key=lambda row: float(row[key]))

    def meets(self, row, within, keys=KEYS):
        """Whether the interval that `predict` prints for a point of the sweep, whose own is near it, ends in time."""
        if float(row["time_to_train_s_high"]) > 1.1 * within:
            return False
        result = answer("predict", self.job, "--backend", "analytic",
                        *itertools.chain(*(("--set", f"{key}={row[key]}") for key in keys)))
        return result["time_to_train_s_high"] <= within

    @staticmethod
    def place(plan):
        """What it decides, as a row of the sweep has it."""
        return tuple(str(value) for value in (plan["platform"], plan["nodes"],
                                              plan["batch_per_device"][0], plan["algorithm"],
                                              plan["bucket"]))

    # ---- the optimum ----

    def expect_best_of_brute_force(self, deadlines):
        rows = self.brute_force("device_hours")
        for within in deadlines:
            best = next(row for row in rows if self.meets(row, within))
            found = self.plan(*ALL, "--within", f"{within} s")["best"]
            self.assertEqual(self.place(found), tuple(best[key] for key in KEYS), within)
            self.assertEqual(found["device_hours"], float(best["device_hours"]))

    def test_the_best_plan_is_that_of_brute_force(self):
        self.expect_best_of_brute_force((215, 380, 560))

    def test_the_best_plan_with_a_sharded_optimizer_is_too(self):
        """Algorithms differ in more than what waits for them."""
        self.job = self.write("job.yaml", JOB.replace(
            "training:", "parallel: {sharding: 1}\ntraining:"))
        self.expect_best_of_brute_force((260,))

    def test_no_point_of_brute_force_is_far_ahead_of_the_front(self):
        rows = self.brute_force("time_to_train_s")
        front = self.plan(*ALL, "--within", "1h")["front"]
        numbers = [(plan["time_to_train_s"], plan["device_hours"]) for plan in front]
        for row in rows:
            time_s, hours = float(row["time_to_train_s"]), float(row["device_hours"])
            self.assertTrue(any(a <= 1.12 * time_s and b <= 1.12 * hours for a, b in numbers), row)
        for one, other in itertools.permutations(numbers, 2):
            self.assertFalse(one[0] <= other[0] and one[1] <= other[1], (one, other))

    def test_refined_numbers_of_nodes_and_batches_are_those_of_brute_force(self):
        words = ("--list", "allreduce.algorithm=nccl", "--list", "allreduce.bucket=64MiB",
                 "--scan", "cluster.nodes=1..8",
                 "--scan", "training.phases[*].batch_per_device=8..512:8")
        done = run("sweep", self.job, "--backend", "analytic", "--csv", "-", *words)
        rows = sorted((row for row in csv.DictReader(io.StringIO(done.stdout))
                       if row["status"] == "ok"), key=lambda row: float(row["device_hours"]))
        self.assertGreater(len(rows), 200)
        keys = ["allreduce.algorithm", "allreduce.bucket", "cluster.nodes",
                "training.phases[*].batch_per_device"]
        for within in (200, 410):
            row = next(row for row in rows if self.meets(row, within, keys))
            found = self.plan("--within", f"{within} s", *FEW)["best"]
            self.assertEqual((found["nodes"], found["batch_per_device"]),
                             (int(row["cluster.nodes"]), [int(row[keys[3]])]))

    # ---- meshes ----

    def test_the_best_meshes_are_those_of_brute_force(self):
        """Tensor 4 cuts heads, 3 is no part of a node, sharding 3 has no pipeline: what remains, all of it."""
        self.job = self.write("job.yaml", GPT)
        for key, values in (("", ""), ("parallel.chunks", "2"), ("parallel.expert", "1,2,4")):
            axes = MESH | ({key: values, "parallel.pipeline": "2,4"} if key else {})
            if key == "parallel.expert":
                self.job = self.write("job.yaml", GPT.replace("heads: 6,", "heads: 6, experts: 4, active: 2,"))
                axes |= {"parallel.pipeline": "1,2", "training.micro_batch": "2,4"}
            lists = itertools.chain(*(("--list", f"{name}={listed}") for name, listed in axes.items()))
            done = run("sweep", self.job, "--backend", "analytic", "--csv", "-", *lists)
            rows = sorted((float(row["step_s"]), *(row[name] for name in axes))
                          for row in csv.DictReader(io.StringIO(done.stdout)) if row["status"] == "ok")
            self.assertGreater(len(rows), 5)
            words = itertools.chain(*((f"--{name.split('.')[1].replace('_', '-')}", listed)
                                      for name, listed in axes.items() if name != "parallel.expert"))  # all that can be
            found = self.plan(*words, *(() if key == "parallel.chunks" else ("--chunks", "1")))
            self.assertEqual([mesh["step_s"] for mesh in found["meshes"]], [row[0] for row in rows[:5]])
            best = found["meshes"][0]
            self.assertEqual([str(best[name.split(".")[1]]) for name in axes], list(rows[0][1:]))
            searched = found["mesh_search"]
            self.assertEqual(searched["considered"], sum(searched[why] for why in (
                "divided", "memory", "slower", "predicted")))
            self.assertLess(searched["predicted"], len(rows))

    def test_a_mesh_is_predicted_as_it_is_shown(self):
        self.job = self.write("job.yaml", GPT)
        found = self.plan("--tensor", "2", "--pipeline", "1,2", "--micro-batch", "2")
        result = self.predicted(found["best"])
        for key in ("time_to_train_s", "mfu", "tokens_per_s_per_device"):
            self.assertEqual(found["best"][key], result[key])
        self.assertEqual(found["meshes"][0]["bubble_s"], result["step"].get("bubble_s", 0))
        self.assertEqual([mesh["tensor"] for mesh in found["meshes"]], [2] * len(found["meshes"]))
        self.assertIn("\nThe best meshes of these nodes", run("plan", self.job, "--tensor=2", "--backend=analytic",
                                                            "--pipeline=1,2", "--micro-batch=2").stdout)

    def test_where_no_mesh_fits_the_nearest_is_named(self):
        self.job = self.write("job.yaml", GPT.replace("layers: 4, hidden: 384", "layers: 40, hidden: 12288"))
        message = self.refused(65, "plan", self.job, "--backend=analytic", "--nodes=1", "--micro-batch=1,2")
        self.assertRegex(message, r"none of \d+ meshes fits the 80 GB of a100\S*; the nearest, tensor 2, "
                                  r"pipeline \d.*recompute full, needs \d+\.?\d* GB")

    def test_meshes_have_prime_and_single_devices_and_no_other_networks(self):
        self.job = self.write("job.yaml", GPT)
        one = self.plan("--set", "cluster.devices_per_node=1", "--nodes=1", "--micro-batch", "4")
        self.assertEqual({mesh["tensor"] * mesh["pipeline"] for mesh in one["meshes"]}, {1})
        message = self.refused(65, "plan", self.job, "--backend=analytic", "--nodes=7")
        self.assertRegex(message, "none of .* shares heads, blocks, devices and samples evenly")
        for words, said in ((("--batch=8",), "--micro-batch gives"), (("--tensor=two",), "'two' is no number"),
                            (("--sharding=4",), "0 to 3"), (("--recompute=some",), "latent, selective or full"),
                            (("--set", "parallel.tensor=2"), "has no effect")):
            self.assertIn(said, self.refused(64, "plan", self.job, *words), words)
        self.job = self.write("job.yaml", JOB)
        self.assertIn("only built-in transformers have meshes, not resnet50",
                      self.refused(64, "plan", self.job, "--within=1h", "--tensor=2"))

    # ---- the limits ----

    def test_numbers_and_intervals_are_those_of_predict(self):
        for backend in ["analytic"] + ["sim"] * has_simulator():
            found = answer("plan", self.job, "--within", "8 min", "--nodes", "2..4", "--batch", "64,128", *(
                ("--backend", "analytic") if backend == "analytic" else ()))
            for plan in (found["best"], found["next"], found["front"][0]):
                result = self.predicted(plan)
                self.assertEqual(plan["backend"], backend)
                self.assertEqual(plan["time_to_train_s"], result["time_to_train_s"])
                self.assertEqual(likely(plan, "time_to_train_s"), likely(result, "time_to_train_s"))
                self.assertEqual((plan["nodes"], plan["devices"], plan["epochs"]),
                                 (result["nodes"], result["devices"], result["epochs"]))
                self.assertEqual(plan["keeps"], result["time_to_train_s_high"] <= 480)
            self.assertTrue(found["met"])
            self.assertLessEqual(found["best"]["device_hours"], found["next"]["device_hours"])
            self.assertNotEqual(found["best"]["nodes"], found["next"]["nodes"])

    def test_the_upper_end_of_the_interval_keeps_the_deadline(self):
        words = ("--nodes", "2", "--batch", "240", *FEW)
        plan = self.plan(*words, "--within", "1 h")["best"]
        high = plan["time_to_train_s_high"]
        self.assertLess(plan["time_to_train_s"], 0.95 * high)
        self.assertTrue(self.plan(*words, "--within", f"{high + 0.01} s")["met"])
        self.assertFalse(self.plan(*words, "--within", f"{high - 0.01} s", code=1)["met"])

    def test_a_budget_alone_buys_the_fastest(self):
        rows = self.brute_force("time_to_train_s")
        for hours in (2.6, 4):
            best = next(row for row in rows if self.meets(
                row, hours * float(row["time_to_train_s"]) / float(row["device_hours"])))
            found = self.plan(*ALL, "--budget", hours)
            self.assertEqual((found["aim"], self.place(found["best"])),
                             ("time", tuple(best[key] for key in KEYS)))

    def test_a_misspelt_choice_is_refused_by_name(self):
        for words, message in ((("--algorithms", "nccl,rng"), "unknown word 'rng' for allreduce.algorithm"),
                               (("--buckets", "4MiB,8MX"), "'MX' is not a unit of a size")):
            self.assertIn(message, self.refused(65, "plan", self.job, "--within", "1h", *words))

    def test_keys_of_the_jobs_algorithm_do_not_keep_it_from_others(self):
        for algorithm in ("ring, channels: all", "torus2d, column_algorithm: nccl", "tree, chunk: 1 MiB"):
            self.job = self.write("job.yaml", JOB.replace("algorithm: nccl", f"algorithm: {algorithm}"))
            said = run("plan", self.job, "-banalytic", "--within", "1 day", "--nodes", "2", "--batch", "128", "--buckets", "4MiB",
                       "--algorithms", "ring,torus2d,tree,nccl").stdout
            self.assertIn("\n4 plans in closed form", said)
            self.assertNotIn("make no job", said)

    def test_a_deadline_that_is_none_is_one_line(self):
        for option, value, example in (*(("--within", value, 'a time as in --within "10 min"')
                                         for value in ("soon", "10", "3 weeks", "0 s", "-1 s")),
                                       ("--budget", "much", "a number as in --budget 500")):
            self.assertEqual(self.refused(64, "plan", self.job, f"{option}={value}"),
                             f"error: {option}: expected {example}, got '{value}'\n")

    def test_a_deadline_that_nothing_meets_is_a_negative_verdict(self):
        words = ("--within", "15 s", "--nodes", "16..64:x2", "--batch", "32,64", *FEW)
        done = run("plan", self.job, "-banalytic", *words)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stdout.startswith("No plan trains within 15 s; the nearest is 64 nodes of dgx-h100"),
                        done.stdout)
        self.assertRegex(done.stderr, r"no plan keeps the limits; the nearest is 64 nodes of dgx-h100"
                                      r".*; of 100 runs 95 end within [\d.]+ s, not within 15 s, and "
                                      r"without any waiting for communication one would take ")
        found = self.plan(*words, code=1)
        self.assertFalse(found["met"])
        least = min(plan["time_to_train_s_high"] for plan in found["front"])
        self.assertLessEqual(found["best"]["time_to_train_s_high"], least)

    def test_a_budget_that_nothing_keeps_is_one_too(self):
        done = run("plan", self.job, "-banalytic", "--within", "1h", "--budget", "0.5", "--nodes", "2",
                   "--batch", "128", *FEW)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"; it takes up to [\d.]+, not 0.5 device-hours$")

    # ---- batches ----

    def test_no_batch_that_no_run_converged_with(self):
        """Unless the user names no other; the recipe has batches up to 67,840."""
        words = ("--within", "30 min", "--nodes", "128", "--set", "training.extrapolate=true", *FEW)
        found = self.plan(*words, "--batch", "64,128")
        self.assertEqual((found["best"]["batch_per_device"], found["best"]["batch_known"]), ([64], "converges"))
        self.assertEqual((found["beyond"], [plan["batch_known"] for plan in found["front"]]), (1, ["converges"]))
        asked = self.plan(*words, "--batch", "128")
        self.assertEqual(asked["best"]["batch_known"], "beyond all runs")
        self.assertIn("No published run converged with so many", run(
            "plan", self.job, *words, "--batch", "128", "--backend", "analytic").stdout)

    def test_where_no_run_is_known_the_batch_stays(self):
        """4 nodes of 8 devices with 64 images each; 480 devices cannot share 2048."""
        self.job = self.write("job.yaml", JOB.replace("resnet50", "vgg16").replace(
            "  target: 75.9 %\n  recipe: rcp-nvidia\n", "").replace("{batch", "{epochs: 9, batch"))
        words = ("--within", "9 h", "--nodes", "2,8,60", *FEW)
        found = self.plan(*words)
        self.assertEqual((found["fixed_batch"], found["candidates"]), (2048, 2))
        self.assertEqual({plan["nodes"] * plan["batch_per_device"][0] * 8 for plan in found["front"]}, {2048})
        asked = self.plan(*words, "--batch", "16,64")
        self.assertEqual((asked["fixed_batch"], asked["candidates"]), (None, 6))
        self.assertIn("Which batch converges is not known", run(
            "plan", self.job, *words, "--batch", "16,64", "--backend", "analytic").stdout)
        self.assertIn("divides the job's 2048 images", self.refused(
            65, "plan", self.job, "--within", "9 h", "--nodes", "60", "--backend", "analytic"))

    # ---- prices ----

    def test_prices_decide(self):
        cheap, dear = (self.write(f"{name}.yaml", PRICES % (name, "EUR", price))
                       for name, price in (("cheap", 1), ("dear", "{low: 10, high: 30}")))
        words = ("--within", "15 min", "--platforms", "dgx-h100,dgx-a100", "--nodes", "1..8",
                 "--batch", "64,128", *FEW)
        both = [self.plan(*words, "--prices", f"dgx-a100={a}", "--prices", f"dgx-h100={b}")
                for a, b in ((cheap, dear), (dear, cheap))]
        self.assertEqual([found["best"]["platform"] for found in both], ["dgx-a100", "dgx-h100"])
        for found, price in zip(both, (1, 1)):
            best = found["best"]
            self.assertEqual((found["aim"], found["price_unit"]), ("cost", "EUR"))
            self.assertAlmostEqual(best["cost"], price * best["nodes"] * best["time_to_train_s"] / 3600, 9)
        rows = [row["input"] for row in both[0]["sensitivity"]]
        self.assertIn("epochs to the target", rows)
        all_dear = self.plan(*words, "--prices", dear)
        price = next(row for row in all_dear["sensitivity"] if row["input"] == "prices of dear")
        self.assertAlmostEqual(price["high"]["price"] / price["low"]["price"], 3, 9)
        self.assertEqual(price["high"]["time_to_train_s"], all_dear["best"]["time_to_train_s"])

    def test_prices_that_cannot_be_compared_are_refused(self):
        euro, yen = (self.write(f"{name}.yaml", PRICES % (name, name, 1)) for name in ("EUR", "JPY"))
        words = ("plan", self.job, "--within", "1h", "--platforms", "dgx-h100,dgx-a100")
        self.assertIn("EUR and JPY", self.refused(64, *words, "--prices", f"dgx-h100={euro}",
                                                  "--prices", f"dgx-a100={yen}"))
        self.assertIn("--prices dgx-a100=FILE", self.refused(64, *words, "--prices",
                                                             f"dgx-h100={euro}"))

    # ---- what would change the answer ----

    def test_an_unknown_input_at_its_ends_is_the_job_with_these_values(self):
        self.job = self.write("job.yaml", JOB + "noise: {compute_cv: {low: 0.01, high: 0.2}}\n")
        words = ("--nodes", "3", "--batch", "192", *FEW)
        found = self.plan("--within", "620 s", *words)
        row = found["sensitivity"][0]
        self.assertEqual((row["input"], row["range"]), ("noise.compute_cv", "0.01 to 0.2"))
        middle = self.predicted(found["best"], "--set", "noise.compute_cv=0.105")
        for end, value in (("low", 0.01), ("high", 0.2)):
            result = self.predicted(found["best"], "--set", f"noise.compute_cv={value}")
            self.assertAlmostEqual(row[end]["time_to_train_s"] / found["best"]["time_to_train_s"],
                                   result["time_to_train_s"] / middle["time_to_train_s"], 9)
        self.assertGreater(row["high"]["time_to_train_s"], 1.1 * row["low"]["time_to_train_s"])

    def test_epochs_move_the_time_in_proportion(self):
        found = self.plan("--within", "1h", "--nodes", "2", "--batch", "192", *FEW,
                          "--set", "training.startup=0 s")
        row = next(row for row in found["sensitivity"] if row["input"] == "epochs to the target")
        low, high = map(float, re.fullmatch(r"([\d.]+) to ([\d.]+)", row["range"]).groups())
        self.assertAlmostEqual(row["high"]["time_to_train_s"] / row["low"]["time_to_train_s"], high / low, delta=0.005)

    def test_a_change_of_the_best_plan_is_said(self):
        words = ("--nodes", "2,3", "--batch", "192", *FEW)
        high = likely(self.plan("--nodes", "2", *words[2:], "--within", "1h")["best"], "time_to_train_s")[1]
        found = self.plan("--within", f"{high + 0.1} s", *words)
        self.assertEqual(found["best"]["nodes"], 2)
        row = next(row for row in found["sensitivity"] if row["input"] == "epochs to the target")
        self.assertTrue(row["changes"] and row["high"]["keeps"])
        self.assertTrue(row["high"]["best"].startswith("3 nodes of dgx-h100"))
        self.assertTrue(row["low"]["best"].startswith("2 nodes of dgx-h100"))

    # ---- forms ----

    def test_the_table_has_best_next_and_front(self):
        words = ("--within", "1h", "--nodes", "1..3", "--batch", "128,224")
        found = self.plan(*words)
        done = run("plan", self.job, "-banalytic", *words, "--csv", "-")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([row["plan"] for row in rows],
                         ["best", "next"] + [""] * len(found["front"]))
        for row, plan in zip(rows, [found["best"], found["next"], *found["front"]]):
            self.assertEqual((float(row["time_to_train_s"]), int(row["nodes"])),
                             (plan["time_to_train_s"], plan["nodes"]))

    def test_phases_keep_the_ratio_of_their_batches(self):
        self.job = self.write("job.yaml", JOB.replace(
            "[{batch_per_device: 64}]",
            "[{batch_per_device: 16, epochs: 4}, {global_batch: 2048}]"))
        best = self.plan("--within", "1h", "--nodes", "16", "--batch", "128")["best"]
        self.assertEqual(best["batch_per_device"], [32, 128])
        self.assertEqual([phase["batch_per_device"] for phase in self.predicted(best)["phases"]],
                         [32, 128])
        words = ("plan", self.job, "-banalytic", "--within", "1h", "--nodes", "16", "--batch", "128")
        said = "Phases are not searched one by one: each takes all nodes"
        shown = run(*words, *FEW).stdout
        self.assertIn(said, shown)
        self.assertIn("their batches stay as 0.25 : 1.\n", shown)
        self.job = self.write("job.yaml", JOB)
        self.assertNotIn(said, run(*words, *FEW).stdout)

    def test_without_an_answer_the_first_refusal_is_that_of_the_plan(self):
        message = self.refused(65, "plan", self.job, "--within", "1h", "--nodes", "1", "--batch", "8")
        self.assertIn("no plan makes a job; the first, 1 node of dgx-h100", message)
        self.assertIn("training.extrapolate: true", message)

    def test_mistakes_have_a_way_out(self):
        for words, said in (((), "a plan needs a limit"), (("--within", "10"), "--within: "),
                            (("--within", "1h", "--nodes", "two"), "--nodes: 'two'"),
                            (("--within", "1h", "--nodes", "8..4"), "the smaller end comes first"),
                            (("--within", "1h", "--set", "cluster.nodes=3"), "has no effect")):
            self.assertIn(said, self.refused(64, "plan", self.job, *words), words)
        self.assertIn("dgx-h100", self.refused(66, "plan", self.job, "--within", "1h", "--platforms",
                                               "dgx-h1000"))

    def test_ctrl_c_ends_it(self):
        words = [PROGRAM, "plan", str(self.job), "--within", "1h", "--nodes", "1..500", "--jobs", "1"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
            while not children.read_text():
                self.assertIsNone(process.poll())
                time.sleep(0.01)
            worker = int(children.read_text().split()[0])
            process.send_signal(signal.SIGINT)
            out, said = process.communicate(timeout=1000)
        self.assertEqual((process.returncode, out), (130, ""))
        self.assertIn("interrupted", said)
        self.assertFalse(pathlib.Path(f"/proc/{worker}").exists())
