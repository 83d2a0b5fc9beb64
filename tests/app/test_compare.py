"""Jobs beside each other, against numbers computed here."""
import csv
import io
import math
import statistics

import support
from support import STARVED, answer, likely, run

PRICES = """\
version: 1
name: mine
description: round numbers
date: 2026-01-02
currency: EUR
price: {device_hour: {value: 2, source: mine, kind: assumed}}
"""


class Compare(support.Case):
    """`compare`."""

    def pair(self, *words):
        """The only pair of a comparison."""
        pairs = answer("compare", *words, "-banalytic")["pairs"]
        self.assertEqual(len(pairs), 1)
        return pairs[0]

    def test_a_job_ties_with_itself(self):
        for extra in ([], ["--set", "platform.transport.between={low: 6 us, high: 20 us}"]):
            pair = self.pair(self.job, self.job, *extra)
            self.assertEqual((pair["ratio"], likely(pair, "ratio"), pair["faster_probability"]),
                             (1, [1, 1], 0.5))
            self.assertIsNone(pair["cause"])
            self.assertGreater(pair["draws"], 200)

    def test_two_known_lognormal_inputs(self):
        """Steps of both take 32 / (4 * rate), and nothing else is uncertain.  One unknown input has
        one random number in both jobs, z: A is faster where its rate is higher, which is where
        20 exp(0.3 z) > 22 exp(0.1 z)."""
        job = self.write("starved.yaml", STARVED % "{value: 20 images/s, spread: 0.3}")
        pair = self.pair(job, job, "--set-b", "input.rate={value: 22 images/s, spread: 0.1}")
        normal = statistics.NormalDist()
        self.assertAlmostEqual(pair["faster_probability"],
                               1 - normal.cdf(math.log(22 / 20) / 0.2), delta=0.02)
        centre, spread = 20 / 22, 0.3 - 0.1
        self.assertAlmostEqual(pair["ratio"], centre, delta=2e-3)  # and a little evaluation
        for found, sign in zip(likely(pair, "ratio"), (-1, 1)):
            self.assertAlmostEqual(math.log(found / centre), sign * 1.645 * spread, delta=0.02)

    def test_an_input_of_one_job_alone_is_independent(self):
        """A has one unknown input, B the same and another one before it, which does nothing."""
        job = self.write("starved.yaml", STARVED % "{value: 20 images/s, spread: 0.3}")
        pair = self.pair(job, job, "--set-b", "cluster.speed={low: 0.99, high: 1.01}")
        self.assertAlmostEqual(pair["ratio"], 1, delta=2e-3)
        low, high = pair["ratio_low"], pair["ratio_high"]
        self.assertGreater(low, 0.99)
        self.assertLess(high, 1.01)

    def test_what_both_do_not_know_cancels(self):
        """The ratio is surer than the times."""
        result = answer("compare", self.job, self.job, "-banalytic", "--set-b",
                        "platform.network.nic.bandwidth={value: 6 GB/s, source: offer, kind: datasheet}")
        low, high = result["jobs"][0]["time_to_train_s_low"], result["jobs"][0]["time_to_train_s_high"]
        pair = result["pairs"][0]
        self.assertLess(math.log(pair["ratio_high"] / pair["ratio_low"]),
                        math.log(high / low) / 2)
        self.assertGreater(pair["faster_probability"], 0.99)
        self.assertIn("over 99 %", result["sentence"])
        self.assertIn("on the nic", pair["cause"])

    def test_devices_that_have_a_batch_together_count_each(self):
        jobs = [self.write(f"{stages}.yaml", f"""\
version: 1
model: {{network: gpt2}}
cluster: {{platform: dgx-h100, nodes: 2}}
parallel: {{pipeline: {stages}}}
training: {{phases: [{{samples: 64, global_batch: 64, micro_batch: 1}}]}}
""") for stages in (2, 4)]
        result = answer("compare", *jobs, "-banalytic")
        factor = {one["name"]: one["factor"] for one in result["pairs"][0]["factors"]}
        less, more = (job["weak_scaling_efficiency"] for job in result["jobs"])
        self.assertAlmostEqual(factor["scaling efficiency"], less / more, 9)
        result = answer("explain", *jobs, "-banalytic")
        for causes in zip(result["causes"], *(one["causes"] for one in result["runs"])):
            difference, less, more = (cause["seconds"] for cause in causes)
            self.assertAlmostEqual(difference, more - less, 12)

    def test_without_intervals_there_is_no_probability(self):
        platform = self.write("mine.yaml", f"extends: {support.ROOT}/platforms/abci.yaml\n"
                              "name: mine\ndevice: ideal\n")
        result = answer("compare", self.job, self.job, "-banalytic", "--platform", platform)
        pair = result["pairs"][0]
        self.assertEqual((pair["faster_probability"], likely(pair, "ratio"), pair["draws"]),
                         (None, [], 0))
        self.assertTrue(any("no probability" in text for text in result["warnings"]))

    def test_figures_are_those_of_predict(self):
        prices = self.write("mine.yaml", PRICES)
        jobs = answer("compare", self.job, self.job, "-banalytic", "--prices", prices, "--set-a",
                      "training.phases[1].batch_per_device=16", "--set-b",
                      "training.startup=1 h")["jobs"]
        for job, word in zip(jobs, ("training.phases[1].batch_per_device=16", "training.startup=1 h")):
            alone = answer("predict", self.job, "-banalytic", "--prices", prices, "--set", word)
            for key in ("images_per_s", "time_to_train_s", "weak_scaling_efficiency", "cost",
                        "cost_low", "cost_high", "currency", "energy_kwh"):
                self.assertEqual(job[key], alone[key], key)
            self.assertEqual(job["step_s"], alone["step_s"])
            self.assertEqual(likely(job, "time_to_train_s"), likely(alone, "time_to_train_s"))
            self.assertEqual(job["set"], [word])
            hours = 16 * alone["time_to_train_s"] / 3600
            self.assertAlmostEqual(job["device_hours"] / hours, 1, places=9)
            self.assertAlmostEqual(job["cost"] / (2 * hours), 1, places=9)

    def test_each_job_has_its_own_prices(self):
        """By platform or by job; the dearer one may be the slower one."""
        cheap, dear = (self.write(f"{name}.yaml", PRICES.replace("value: 2", f"value: {price}"))
                       for name, price in (("cheap", 2), ("dear", 20)))
        words = ("compare", self.job, self.job, "-banalytic", "--set-b", "cluster.platform=dgx-a100",
                 "--set-b", "allreduce={algorithm: ring}")
        for given in ((f"abci={dear}", f"dgx-a100={cheap}"), (cheap, f"a={dear}"), (dear, f"DGX-A100={cheap}")):
            found = answer(*words, *(word for one in given for word in ("--prices", one)))
            paid = [job["cost"] / job["device_hours"] for job in found["jobs"]]
            self.assertAlmostEqual(paid[0], 20, places=9)
            self.assertAlmostEqual(paid[1], 2, places=9)
        only = answer(*words, "--prices", f"abci={dear}")["jobs"]
        self.assertIsNone(only[1]["cost"])
        self.assertIn("nothing that is predicted is on p4d",
                      self.refused(64, *words, "--prices", f"p4d={dear}"))
        both = answer(*words, "--prices", dear)["warnings"]
        self.assertTrue(any("both are priced by mine: --prices dgx-a100=FILE" in text for text in both))

    def test_nodes_that_are_taken_away_fail(self):
        """An interruption rate of prices is the platform's mtbf, and only of that job."""
        spot = self.write("spot.yaml", PRICES.replace("kind: assumed}}", "kind: assumed}, mtbf: 30 h}"))
        jobs = answer("compare", self.job, self.job, "-banalytic", "--set", "training.checkpoint.cost=10 s",
                      "--prices", self.write("mine.yaml", PRICES), "--prices", f"B={spot}")["jobs"]
        hand = answer("predict", self.job, "-banalytic", "--set", "training.checkpoint.cost=10 s",
                      "--set", "platform.node.mtbf=30 h")
        self.assertEqual(jobs[1]["time_to_train_s"], hand["time_to_train_s"])
        self.assertLess(jobs[0]["time_to_train_s"], jobs[1]["time_to_train_s"])
        for command in (("predict", self.job), ("sweep", self.job, "--list", "cluster.speed=1")):
            found = answer(*command, "-banalytic", "--set", "training.checkpoint.cost=10 s",
                           "--prices", spot)
            self.assertEqual((found.get("points") or [found])[0]["time_to_train_s"],
                             hand["time_to_train_s"], command)

    def test_own_assignments_come_after_those_of_all(self):
        jobs = answer("compare", self.job, self.job, self.job, "-banalytic", "--batch", "8", "--set-b",
                      "training.phases[*].batch_per_device=16", "--set-c", "cluster.nodes=2",
                      "--set-c", "allreduce.grid=null")["jobs"]
        self.assertEqual([job["devices"] for job in jobs], [16, 16, 8])
        self.assertLess(jobs[0]["memory_bytes"], jobs[1]["memory_bytes"])
        self.assertEqual(jobs[0]["memory_bytes"], jobs[2]["memory_bytes"])

    def test_factors_multiply_to_the_ratio(self):
        pair = self.pair(self.job, self.job, "--set-b", "cluster.nodes=2", "--set-b",
                         "allreduce.grid=null", "--set-b", "training.phases[1].epochs=30")
        factor = {row["name"]: row["factor"] for row in pair["factors"]}
        self.assertAlmostEqual(math.prod(factor.values()) / pair["ratio"], 1, places=9)
        self.assertAlmostEqual(factor["number of devices"], 2, places=9)
        self.assertAlmostEqual(factor["data to train on"], 60 / 90, delta=1e-3)
        self.assertEqual(pair["cause"], "number of devices")

    def test_all_pairs_and_the_sentence(self):
        result = answer("compare", self.job, self.job, self.job, "-banalytic", "--set-a",
                        "training.phases[0].epochs=60", "--set-c", "training.phases[0].epochs=90")
        self.assertEqual([(pair["a"], pair["b"]) for pair in result["pairs"]],
                         [("A", "B"), ("A", "C"), ("B", "C")])
        times = [job["time_to_train_s"] for job in result["jobs"]]
        for pair, (a, b) in zip(result["pairs"], ((0, 1), (0, 2), (1, 2))):
            self.assertAlmostEqual(pair["ratio"], times[b] / times[a], places=12)
        self.assertIn(f"B is faster than A, which takes {times[0] / times[1]:.3f} times as long",
                      result["sentence"])
        self.assertIn("data to train on", result["sentence"])

    def test_what_prints_as_1_counts_as_equal(self):
        """900 epochs and a fifth of a second more at the start, of hours: nobody is called faster."""
        words = ("compare", self.job, self.job, "-banalytic", "--set", "training.phases[0].epochs=900")
        result = answer(*words, "--set-b", "training.startup=200ms")
        pair = result["pairs"][0]
        self.assertGreater(pair["ratio"], 1)
        self.assertLess(pair["ratio"], 1.0005)
        self.assertIsNone(pair["cause"])
        self.assertTrue(result["sentence"].startswith("A and B take equally long"))
        self.assertIn("  1.000  1.000  1.000  A with", run(*words, "--set-b", "training.startup=200ms").stdout)
        self.assertIn("start-up", answer(*words, "--set-b", "training.startup=2h")["pairs"][0]["cause"])

    def test_jobs_of_another_kind_are_compared_with_a_warning(self):
        result = answer("compare", self.job, self.job, "-banalytic", "--set-b",
                        "model.network=resnet101", "--set-b", "cluster.platform=dgx-1")
        self.assertTrue(any("A trains resnet50" in text for text in result["warnings"]))
        platforms = answer("compare", self.job, self.job, "-banalytic", "--set-b",
                           "cluster.platform=dgx-a100")["warnings"]
        self.assertTrue(any("other devices or software" in text for text in platforms), platforms)

    def test_the_figures_as_csv(self):
        words = ("compare", self.job, self.job, "-banalytic", "--set-b", "training.startup=9 s")
        rows = list(csv.DictReader(io.StringIO(run(*words, "--csv", "-").stdout)))
        jobs = answer(*words)["jobs"]
        for row, job in zip(rows, jobs, strict=True):
            for key, value in job.items():
                if isinstance(value, float):
                    self.assertEqual(float(row[key]), value, key)
            self.assertEqual(row["name"], job["name"])

    def test_wrong_words(self):
        self.assertIn("there are only 2 jobs",
                      self.refused(64, "compare", self.job, self.job, "--set-c", "seed=1"))
        self.assertIn("missing JOB", self.refused(64, "compare", self.job))
        self.assertIn("job.yaml:", self.refused(
            65, "compare", self.write("bad/job.yaml".replace("/", "-"), "version: 1\nmodle: {}\n"),
            self.job))
        self.assertIn("did you mean 'nodes'?", self.refused(
            65, "compare", self.job, self.job, "--set-b", "cluster.nodez=3"))

    def test_the_simulator_compares_too(self):
        if not support.has_simulator():
            self.skipTest("foretrain-sim is not installed")
        result = answer("compare", self.job, self.job, "--set-b",
                        "platform.network.nic.bandwidth=3 GB/s")
        self.assertEqual({job["backend"] for job in result["jobs"]}, {"sim"})
        self.assertGreater(result["pairs"][0]["ratio"], 1)
        self.assertIn("nic", result["pairs"][0]["cause"])
