#!/usr/bin/python3
"""foretrain train before any rank is started: test_train.py."""

import os
import subprocess
import unittest

FORETRAIN = os.environ["FORETRAIN"]
ROOT = os.environ["FORETRAIN_DATADIR"]
TOY = os.path.join(ROOT, "tests", "exec", "toy.yaml")
SONY = os.path.join(ROOT, "experiments", "01_sony_abci", "v1-1088.yaml")


def train(*arguments):
    return subprocess.run([FORETRAIN, "train", *arguments], capture_output=True,
                          encoding="utf-8", check=False)


class Train(unittest.TestCase):
    def refusal(self, code, *arguments):
        done = train(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_prints_the_line_that_a_user_could_run(self):
        done = train(TOY, "--dry-run", "--steps", "5", "--set", "seed=3", "--out", "a b")
        self.assertEqual(done.returncode, 0, done.stderr)
        line = done.stdout.splitlines()[-1]
        self.assertTrue(line.startswith("mpirun "), line)
        self.assertIn("-n 4 ", line)
        self.assertTrue(line.endswith(f"train {TOY} --set seed=3 --out 'a b' --steps=5"), line)
        self.assertNotIn("mpirun", train(TOY, "--dry-run", "-n", "1", "--set",
                                         "allreduce.grid=null").stdout)

    def test_tells_the_memory_of_a_rank(self):
        lines = train(TOY, "--dry-run").stdout.splitlines()
        self.assertEqual(lines[0], "memory of one rank, 4 images of which 4 at once")
        for word in ("weights", "gradients", "momentum", "activations", "together", "device"):
            self.assertTrue(any(line.startswith("  " + word) for line in lines), word)

    def test_does_not_start_a_thousand_ranks_by_itself(self):
        message = self.refusal(64, SONY)
        self.assertIn("1088 devices", message)
        self.assertIn("-n", message)

    def test_finds_faults_before_it_starts_ranks(self):
        self.assertIn("needs 4 ranks, not 3", self.refusal(64, TOY, "-n", "3"))
        self.assertNotIn("mpirun", self.refusal(64, TOY, "-n", "3"))
        self.assertIn("cannot be shared out evenly",
                      self.refusal(64, TOY, "-n", "3", "--set", "allreduce.grid=null"))
        self.assertIn("no multiple of training.micro_batch",
                      self.refusal(64, TOY, "--set", "training.micro_batch=3"))
        self.assertIn("no effect without", self.refusal(65, TOY, "--set",
                                                        "training.collapse.power=2"))
        self.assertIn("needs either", self.refusal(65, TOY, "--set",
                                                   "training.phases=[{epochs: 1}]"))
        self.refusal(66, "there-is-no-such-file.yaml")


if __name__ == "__main__":
    unittest.main(verbosity=2)
