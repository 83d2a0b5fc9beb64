"""Networks that really learn: test_learning.py [--all].

The beginnings of jobs of experiments/03_learning on the fast device.  With --all, every figure of that
experiment, from start to end: three seeds, 1, 2 and 4 ranks, gradients in fp16.
"""

import functools
import json
import sys
import unittest

import harness

SGD, LARS = (harness.ROOT / "experiments" / "03_learning" / name for name in ("procedural.yaml", "lars.yaml"))
BF16 = "model.precision.compute=bf16"
HALF = "model.precision.gradients=fp16"
ENTROPY = 0.500288  # of a label of 10 classes, smoothed by 10 %: no loss is less
SEEDS = (1, 2, 3)


def train(job, ranks, *options):
    return harness.run("train", job, "-n", ranks, "--threads", 1, "--device", "cpu", "--quiet", "--json", *options)


@functools.lru_cache(maxsize=None)
def answer(job, ranks, *settings, steps=0):
    """What a run says; the same run is made once."""
    options = [word for setting in settings for word in ("--set", setting)]
    done = train(job, ranks, *options, *(("--steps", str(steps)) if steps else ()))
    if done.returncode:
        raise AssertionError(f"{job} on {ranks} ranks: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def seed(number):
    return f"seed={number}"


class Core(unittest.TestCase):
    """How runs begin."""

    def test_any_number_of_ranks_starts_on_the_same_curve(self):
        one, *more = (answer(SGD, ranks, seed(1), steps=12) for ranks in (1, 2, 4))
        self.assertAlmostEqual(one["loss_first"], 2.303, delta=0.2)  # log(10): no opinion
        for other in more:
            for a, b in zip(one["step"], other["step"]):
                self.assertAlmostEqual(a["loss"], b["loss"], delta=2e-3 * a["loss"])

    def test_a_dynamic_loss_scale_finds_what_fits_fp16(self):
        result = answer(SGD, 2, seed(1), HALF, "training.loss_scale.initial=16777216",
                        "training.loss_scale.dynamic=true", "training.loss_scale.interval=10",
                        steps=40)
        self.assertGreater(result["skipped_steps"], 0)
        self.assertLess(result["loss_scale"], 16777216)
        self.assertLess(result["loss_last"], result["loss_first"])

    def test_a_loss_scale_that_never_fits_ends_the_run(self):
        done = train(SGD, 2, "--set", HALF, "--set", "training.loss_scale.initial=1e12",
                     "--steps", "120")
        self.assertEqual(done.returncode, 70, done.stderr)
        self.assertEqual(done.stderr.count("100 steps in a row"), 1, done.stderr)

    def test_seeds_differ(self):
        first, second = (answer(SGD, 1, seed(number), steps=2) for number in (1, 2))
        self.assertNotEqual(first["loss_first"], second["loss_first"])


class All(Core):
    """Every figure of the experiment."""

    def expect_learned(self, job, ranks, *settings):
        result = answer(job, ranks, *settings)
        print(job.name, ranks, "ranks", *settings, "top-1", result["top1"], "loss",
              round(result["loss_last"], 3), flush=True)
        self.assertTrue(result["finished"])
        self.assertGreaterEqual(result["top1"], 0.97)
        self.assertGreater(min(step["loss"] for step in result["step"]), ENTROPY)
        self.assertEqual(result["skipped_steps"], 0)
        return result

    def test_sgd_learns_from_every_seed_on_any_number_of_ranks(self):
        for number in SEEDS:
            one = self.expect_learned(SGD, 1, seed(number))
            self.assertEqual(one["steps"], 4 * 100)
            for ranks in (2, 4):
                other = self.expect_learned(SGD, ranks, seed(number))
                self.assertAlmostEqual(other["top1"], one["top1"], delta=0.01)

    def test_lars_learns_from_every_seed(self):
        for number in SEEDS:
            result = self.expect_learned(LARS, 2, seed(number))
            self.assertEqual(result["steps"], 50 + 25 + 63)  # with a growing batch

    def test_fp16_gradients_lose_nothing(self):
        for number in SEEDS:
            full = self.expect_learned(SGD, 2, seed(number))
            half = self.expect_learned(SGD, 2, seed(number), HALF)
            self.assertAlmostEqual(half["top1"], full["top1"], delta=0.005)

    def test_arithmetic_in_bf16_learns(self):
        trial = train(SGD, 2, "--set", BF16, "--steps", "1")
        if trial.returncode == 69:
            self.skipTest(trial.stderr)
        for number in SEEDS:
            self.expect_learned(SGD, 2, seed(number), BF16)


def main():
    trial = train(SGD, 1, "--steps", "1")
    if trial.returncode == 69:
        harness.skip(trial.stderr + "the fast device is not part of this build")
    unittest.main(argv=sys.argv[:1], defaultTest="All" if "--all" in sys.argv else "Core", verbosity=2)


if __name__ == "__main__":
    main()
