"""Failures and checkpoints in predictions, against the formulas and runs played here."""
import math
import random

import support
from support import STARVED, answer, likely, run

HOUR = 3600
PARAMETERS = 25557032  # of ResNet-50 (torchvision)


def words(**keys):
    """--set for each key; __ stands for a dot."""
    return [word for key, value in keys.items()
            for word in ("--set", f"{key.replace('__', '.')}={value}")]


def failing(mtbf="100h", **checkpoint):
    """The same for nodes that fail, and keys of checkpoints."""
    return words(platform__node__mtbf=mtbf,
                 **{f"training__checkpoint__{key}": value for key, value in checkpoint.items()})


def mean(mtbf, cost, restart, parts, work):
    """Each of equal parts waits until it passes without a failure."""
    return parts * mtbf * math.exp(restart / mtbf) * math.expm1((work / parts + cost) / mtbf)


class Failures(support.Case):
    """`predict` and its kin where something fails."""

    def predict(self, *more, job=None):
        """The small job in closed form."""
        return answer("predict", job or self.job, "-banalytic", *more)

    def test_a_plain_job_says_nothing_of_them(self):
        plain = self.predict()
        self.assertEqual({str(value) for value in plain["failures"].values()}, {"None"})
        self.assertNotRegex(run("predict", self.job, "-banalytic").stdout, "failures|checkpoint")

    def test_the_time_is_the_mean_of_runs_that_fail(self):
        plain = self.predict()["time_to_train_s"]
        for every, epochs in (("9 epochs", 9), ("0", 90)):
            result = self.predict(*failing("20h", cost="20 s", restart="5min", every=every))
            said = result["failures"]
            self.assertAlmostEqual(said["mtbf_s"], 20 * HOUR / 4)
            self.assertAlmostEqual(said["without_s"], plain)
            self.assertEqual((said["checkpoint_s"], said["restart_s"]), (20, 300))
            self.assertEqual(said["checkpoints"], 90 / epochs)
            self.assertEqual(said["interval_from"], "job")
            expected = mean(5 * HOUR, 20, 300, 90 // epochs, plain)
            self.assertAlmostEqual(result["time_to_train_s"] / expected, 1, places=6)
            self.assertAlmostEqual(said["expected"], expected / (5 * HOUR), places=4)

    def test_the_best_interval_is_daly_s(self):
        result = self.predict(*failing("20h", cost="20 s"), *words(training__startup="2min"))
        said, mtbf = result["failures"], 5 * HOUR
        share = 20 / (2 * mtbf)
        young = math.sqrt(2 * 20 * mtbf)
        daly = young * (1 + math.sqrt(share) / 3 + share / 9) - 20
        self.assertAlmostEqual(said["young_s"], young)
        for key in ("daly_s", "interval_s"):
            self.assertAlmostEqual(said[key], daly, places=6)
        self.assertAlmostEqual(said["interval_epochs"], 90 * daly / said["without_s"])
        self.assertEqual(said["interval_from"], "daly")
        self.assertEqual(said["restart_s"], 140)
        times = [self.predict(*failing("20h", cost="20 s", every=f"{factor * said['interval_epochs']}"),
                              *words(training__startup="2min"))["time_to_train_s"]
                 for factor in (0.5, 1, 2)]
        self.assertAlmostEqual(times[1], result["time_to_train_s"], places=3)
        self.assertLess(times[1], min(times[0], times[2]))

    def test_a_checkpoint_costs_what_its_bytes_take(self):
        for keys in (failing(bandwidth="1 GB/s"),
                     failing() + words(input__workers=4, input__rate="9000 images/s",
                                       input__storage="1 GB/s")):
            self.assertAlmostEqual(self.predict(*keys)["failures"]["checkpoint_s"],
                                   2 * 4 * PARAMETERS / 1e9)
        alone = self.predict(*words(training__checkpoint__cost="7 s", training__checkpoint__every=30))
        self.assertAlmostEqual(alone["time_to_train_s"], self.predict()["time_to_train_s"] + 3 * 7)
        self.assertIsNone(alone["failures"]["mtbf_s"])

    def test_nodes_and_network_fail_together(self):
        both = self.predict(*failing("40h", cost="1s"), *words(platform__network__mtbf="30h"))
        self.assertAlmostEqual(both["failures"]["mtbf_s"], HOUR / (4 / 40 + 1 / 30))
        fewer = self.predict(*failing("40h", cost="1s"), *words(**{"training__phases[0]__nodes": 2}))
        first, last = (phase["steps"] * phase["step_s"] for phase in fewer["phases"])
        nodes = (2 * first + 4 * (last + fewer["evaluation_s"])) / fewer["failures"]["without_s"]
        self.assertAlmostEqual(fewer["failures"]["mtbf_s"], 40 * HOUR / nodes)
        one = self.predict(*failing("40h", cost="1s"), *words(
            platform__network__mtbf="30h", cluster__nodes=1, allreduce__grid="null"))
        self.assertAlmostEqual(one["failures"]["mtbf_s"], 40 * HOUR)
        self.assertRegex(" ".join(one["warnings"]), "network.mtbf has no effect on this job")
        self.assertRegex(" ".join(one["assumptions"]), r"node.mtbf = 40 h \(--set\)")

    def test_negligible_for_a_minute_and_decisive_for_a_month(self):
        tolls = []
        for startup in ("1min", "700h"):
            result = self.predict(*failing("50h", cost="30 s", restart="10 min"), *words(
                training__startup=startup, **{"training__phases[0]__epochs": 0.001,
                                              "training__phases[1]__epochs": 1}))
            tolls.append(result["time_to_train_s"] - result["failures"]["without_s"])
        self.assertLess(tolls[0], 35)  # one checkpoint, at the end
        self.assertGreater(tolls[1], 30 * HOUR)

    def test_the_interval_is_that_of_runs_that_fail(self):
        job = self.write("starved.yaml", STARVED % "20 images/s")
        keys = failing("1h", cost="30 s", restart="10min", every="0.2 epochs")
        plain, result = self.predict(job=job), self.predict(*keys, job=job)
        said, work = result["failures"], plain["time_to_train_s"]
        self.assertEqual(likely(said, "without_s"), likely(plain, "time_to_train_s"))
        rng, times = random.Random(5), []
        for _ in range(4000):
            # the tail of a node and the spread of an assumed number: app/predict/uncertainty.c
            own = work * (1 + (rng.random() < 0.09) * 0.21 * rng.random())
            mtbf, clock = HOUR * math.exp(rng.gauss(0, 0.3)), 0.0
            for _ in range(5):
                while (first := rng.expovariate(1 / mtbf)) < own / 5 + 30:
                    clock += first
                    while (again := rng.expovariate(1 / mtbf)) < 600:
                        clock += again
                    clock += 600
                clock += own / 5 + 30
            times.append(clock)
        times.sort()
        low, high = result["time_to_train_s_low"], result["time_to_train_s_high"]
        self.assertLess(abs(low / times[200] - 1), 0.05)
        self.assertLess(abs(high / times[3800] - 1), 0.10)
        text = run("predict", job, "-banalytic", *keys).stdout
        self.assertRegex(text, r"without failures +33.37 min   and without checkpoints\n"
                               r" +90 % interval .*\n"
                               r"    checkpoints +150 s   5 of 30 s, every 400.4 s or 0.2 epochs; "
                               r"best by Daly: 445 s\n"
                               r"    failures +.* one in 60 min, restarts of 10 min\n")

    def test_a_time_between_failures_may_be_unknown(self):
        keys = failing("{low: 20 min, high: 50 h}", cost="30 s")
        result = self.predict(*keys)
        self.assertAlmostEqual(result["failures"]["mtbf_s"], 151 * HOUR / 6 / 4)
        if likely(result, "time_to_train_s"):
            self.assertEqual([row["input"] for row in result["unknown_inputs"]],
                             ["platform.node.mtbf"])
            share = {row["input"]: row["time_to_train"] for row in result["interval_shares"]}
            self.assertGreater(share["platform.node.mtbf"], 0)

    def test_other_commands_tell_the_same_time(self):
        keys = failing("3h", cost="30 s")
        time = self.predict(*keys)["time_to_train_s"]
        compared = answer("compare", self.job, self.job, "-banalytic", "--set-b",
                          "platform.node.mtbf=3h", "--set", "training.checkpoint.cost=30 s")
        pair = compared["pairs"][0]
        self.assertAlmostEqual(compared["jobs"][1]["time_to_train_s"], time)
        factors = {row["name"]: row["factor"] for row in pair["factors"]}
        self.assertAlmostEqual(math.prod(factors.values()), pair["ratio"])
        self.assertAlmostEqual(factors["failures and checkpoints"], pair["ratio"])
        self.assertEqual(pair["cause"], "failures and checkpoints")
        swept = answer("sweep", self.job, "-banalytic", *keys, "--scan", "seed=1,2")
        for found in swept["points"]:
            self.assertAlmostEqual(found["time_to_train_s"], time)

    def test_mistakes_have_a_place_and_a_way_out(self):
        for keys, place, message in (
                (failing(), "job.yaml:3:24", "give training.checkpoint.cost (such as 10 s) or"),
                (words(training__checkpoint__restart="1min"), "--set", "no effect: nothing that"),
                (failing(cost="1s", bandwidth="1GB/s"), "--set", "no effect beside training.check"),
                (failing("10s", cost="30 s", every=90), "--set", "the job never ends"),
                (failing("10s", cost="3000 s"), "job.yaml:3:24", "the job never ends"),
                (failing("0 s", cost="1s"), "--set", "must be 1 s to")):
            said = self.refused(65, "predict", self.job, "-banalytic", *keys)
            self.assertIn(place, said)
            self.assertIn(message, said)
        torus = words(cluster__platform="t1-torus", platform__node__mtbf="9h")
        self.assertIn("no effect on a torus", self.refused(65, "predict", self.job, *torus))
