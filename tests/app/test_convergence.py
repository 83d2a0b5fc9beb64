"""Time to an accuracy: what `predict` says of a job with a target, and that nothing else takes one."""
import csv
import math
import random
import statistics

import support
from support import answer, likely

JOB = """\
version: 1
model: {network: resnet50, precision: {compute: fp16, gradients: fp16}}
cluster: {platform: dgx-a100, nodes: 8, software: mlperf-v2.0}
training:
  dataset: imagenet
  phases: [{global_batch: 3264}]
  evaluate_every: 4 epochs
  target: 75.9 %
  recipe: rcp-nvidia
  startup: 10 s
allreduce: {algorithm: nccl, overlap: none}
"""


def rows(path):
    """A table."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Points(support.Case):
    """Measured points in place of recipes."""

    def test_points_of_the_formula_are_fitted_exactly(self):
        points = ",".join(f"{batch}:{2 * (1 + batch / 100)}" for batch in (512, 16, 64, 200, 16))
        told = answer("show", "convergence", "--points", points)
        for name, value in (("epochs", 2), ("batch", 100)):
            self.assertAlmostEqual(told["formula"][name], value, 5)
        self.assertLess(told["formula"]["largest"], 1e-6)
        self.assertEqual([row["batch"] for row in told["epochs"]], [16, 64, 200, 512])

    def test_runs_of_one_batch_have_a_mean_and_a_spread(self):
        first, *_ = answer("show", "convergence", "--points", "8:2,16:3,8:4,32:4,8:3")["epochs"]
        self.assertAlmostEqual(first["epochs"], 3)
        self.assertAlmostEqual(first["epochs_spread"], statistics.stdev([2, 4, 3]))

    def test_what_are_no_points_is_refused(self):
        for points in ("8:2,16:3", "8:2,8:3,16:4", "8:2,16:3,32:0", "8:2,16:3,x", "", "8:2;16:3;32:4", "-8:2,16:3,32:4"):
            said = self.refused(64, "show", "convergence", f"--points={points}")
            self.assertIn("BATCH:EPOCHS", said)
        self.refused(64, "show", "convergence", "--points=8:2,16:3,32:4", "--batch=16")


class Target(support.Case):
    """A job that ends at an accuracy."""

    def setUp(self):
        super().setUp()
        self.job = self.write("target.yaml", JOB)

    def predict(self, *words):
        """In closed form."""
        return answer("predict", self.job, "--backend", "analytic", *words)

    def test_time_is_epochs_times_steps(self):
        result = self.predict()
        epochs = 35.2 + 4 * 0.112
        steps = math.ceil(epochs * 1281167 / 3264)
        self.assertAlmostEqual(result["epochs"], epochs, places=9)
        self.assertEqual(result["phases"][0]["steps"], steps)
        self.assertAlmostEqual(result["time_to_train_s"],
                               steps * result["step_s"] + result["evaluation_s"] + 10,
                               places=6)
        self.assertEqual((result["target"], result["recipe"]), (0.759, "rcp-nvidia"))

    def test_another_name_of_the_network_has_the_same_epochs(self):
        self.assertEqual(self.predict("--set", "model.network=resnet50_v1.5")["epochs"],
                         self.predict()["epochs"])

    def test_a_larger_batch_gains_less_than_its_images_per_second(self):
        small, large = (self.predict("--set", "cluster.nodes=340", "--set",
                                     f"training.phases[0].global_batch={batch}")
                        for batch in (21760, 65280))
        gain = large["images_per_s"] / small["images_per_s"]
        self.assertGreater(gain, 1)
        self.assertLess(small["time_to_train_s"] / large["time_to_train_s"], gain / 1.5)

    def test_the_epochs_are_drawn_from_the_recipe(self):
        result = self.predict()
        drawn = random.Random(7)
        sample = []
        for _ in range(40000):
            again = 0
            while drawn.random() < 0.112 / 1.112:
                again += 1
            sample.append(round(drawn.gauss(35.2, 0.7746)) + 4 * again)
        cuts = statistics.quantiles(sample, n=20)
        self.assertEqual(likely(result, "epochs"), [cuts[0], cuts[-1]])
        low, high = result["time_to_train_s_low"], result["time_to_train_s_high"]
        self.assertTrue(low < result["time_to_train_median_s"] < high)
        shares = {row["input"]: row for row in result["interval_shares"]}
        epochs = shares["epochs to the target"]
        self.assertGreater(epochs["time_to_train"], 0.05)
        self.assertLess(epochs["step"], 0.02)

    def test_points_of_ones_own(self):
        words = ("--set", "training.recipe={points: [{batch: 2000, epochs: 50, spread: 2}]}",
                 "--set", "training.target=70%", "--set", "model.network=resnet18",
                 "--set", "training.extrapolate=true")
        result = self.predict(*words)
        expected = 50 + 34.695 / 47098 * (3264 - 2000) + 0.448
        self.assertAlmostEqual(result["epochs"] / expected, 1, places=4)
        self.assertEqual(result["recipe"], "own points")
        self.assertTrue(any("outside" in warning for warning in result["warnings"]))

    def test_given_epochs_with_a_batch_that_no_run_learned_with_are_worth_a_warning(self):
        """81920, of Yamazaki et al., is the largest in core/convergence/*.csv."""
        job = self.write("given.yaml", support.JOB.replace("grid: {columns: 4, rows: 4}, ", ""))
        for nodes, said in ((640, False), (641, True)):
            warnings = "".join(answer("predict", job, "--backend", "analytic", "--nodes", nodes,
                                      "--set", "training.phases[1].batch_per_device=32")["warnings"])
            self.assertEqual("at most 81920" in warnings, said, warnings)
        self.assertIn(f"phase 2: its epochs are as the job gives them, with {641 * 4 * 32} images", warnings)

    def test_a_batch_beyond_the_recipe_is_refused_with_a_way_out(self):
        found = self.refused(65, "predict", self.job, "--set", "training.phases[0].global_batch=1600")
        self.assertIn("1632 to 67840", found)
        self.assertIn("training.extrapolate: true", found)

    def test_training_refuses_a_target(self):
        found = self.refused(69, "train", self.job)
        self.assertIn(f"{self.job}:8:11: error: a target is for predictions", found)

    def test_without_a_target_there_is_none(self):
        result = answer("predict", self.write("plain.yaml", support.JOB), "--backend", "analytic")
        self.assertIsNone(result["target"])
        self.assertIsNone(result["time_to_train_median_s"])
        self.assertEqual(likely(result, "epochs"), [])


class Tables(support.Case):
    """What `show convergence` prints is what the tables say."""

    def test_points_are_those_of_the_table(self):
        table = rows(support.ROOT / "core" / "convergence" / "recipes.csv")
        lines = {(line["recipe"], line["batch"]): line
                 for line in answer("show", "convergence")["epochs"]}
        for row in table:
            line = lines[row["recipe"], int(row["batch"])]
            self.assertAlmostEqual(line["epochs"], float(row["epochs"]), places=9)
            self.assertEqual((line["target"], line["source"]),
                             (float(row["target"]), row["source"]))
            if row["spread"]:
                self.assertAlmostEqual(line["epochs_high"] - line["epochs_low"], 3.29 * float(row["spread"]))

    def test_csv_has_the_same_numbers_as_json(self):
        table = list(csv.DictReader(support.run("show", "convergence", "--csv", "-").stdout.splitlines()))
        lines = answer("show", "convergence")["epochs"]
        self.assertEqual(len(table), len(lines))
        for row, line in zip(table, lines):
            self.assertEqual((row["recipe"], int(row["batch"])), (line["recipe"], line["batch"]))
            self.assertAlmostEqual(float(row["epochs"]), line["epochs"], places=6)

    def test_accuracies_are_those_of_the_table(self):
        table = rows(support.ROOT / "core" / "convergence" / "accuracies.csv")
        shown = support.run("show", "convergence", "--accuracies", "--csv", "-").stdout
        for row, original in zip(csv.DictReader(shown.splitlines()), table, strict=True):
            for key, text in original.items():
                number = key in ("batch", "batch_end", "epochs", "accuracy") and text
                self.assertEqual(float(row[key]) if number else row[key],
                                 float(text) if number else text)
        listed = answer("show", "convergence", "--accuracies")
        self.assertEqual([row["accuracy"] for row in listed["accuracies"]],
                         [float(row["accuracy"]) for row in table])
        self.assertEqual(listed["epochs"], [])

    def test_one_batch_of_one_recipe(self):
        lines = answer("show", "convergence", "--recipe", "rcp-google", "--batch", "131072")["epochs"]
        self.assertEqual([line["from"] for line in lines], ["beyond points"])

    def test_options_that_do_not_go_together(self):
        self.assertIn("--accuracies", self.refused(64, "show", "convergence", "--accuracies",
                                                   "--batch", "4096"))
        self.assertIn("--csv", self.refused(64, "show", "convergence", "--csv", "-", "--json"))
        self.assertIn("rcp-google", self.refused(64, "show", "convergence", "--recipe", "rcp-gogle"))

    def test_the_rate_of_further_evaluations(self):
        table = [row for row in rows(support.ROOT / "experiments" / "02_published_runs" / "epochs.csv")
                 if row["global_batch"] not in ("1000", "16384", "20480", "40448", "64800")]
        runs = sum(int(row["n_runs"]) for row in table)
        extra = sum(int(row["n_runs"]) * (float(row["epochs_mean"]) - float(row["epochs_min"])) / 4
                    for row in table)
        self.assertEqual(runs, 1269)
        self.assertAlmostEqual(extra / runs, 0.112, places=3)
