#!/usr/bin/python3
"""A build without MPI: ranks are started, meet and evaluate; those on CPUs do not train together."""

import os
import subprocess
import tempfile
import unittest

FORETRAIN = os.environ["FORETRAIN"]
HERE = os.path.dirname(os.path.abspath(__file__))
TOY = os.path.join(HERE, "toy.yaml")
NAIVE = ["--device", "cpu-naive"]
ONE = ["-n", "1", "--set", "allreduce.grid=null"]


def run(*words):
    return subprocess.run(words, capture_output=True, encoding="utf-8", timeout=100, check=False)


class WithoutMpi(unittest.TestCase):
    def test_prints_the_line_that_a_user_could_run(self):
        done = run(FORETRAIN, "train", TOY, "--dry-run", "--out", "a b", *NAIVE)
        self.assertEqual(done.returncode, 0, done.stderr)
        line = done.stdout.splitlines()[-1]
        self.assertRegex(line, r"^\S*foretrain-exec start 4 train \S+ --out 'a b' --device=")
        alone = run(FORETRAIN, "train", TOY, "--dry-run", *ONE, *NAIVE).stdout.splitlines()[-1]
        self.assertRegex(alone, r"^\S*foretrain-exec train ")

    def test_ranks_on_cpus_do_not_train_together(self):
        done = run(FORETRAIN, "train", TOY, "--steps", "1", *NAIVE)
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertEqual(done.stderr.count("built without it"), 1, done.stderr)

    def test_all_reduces_are_not_timed(self):
        program = os.path.join(os.path.dirname(FORETRAIN), "foretrain-exec")
        done = run(program, "start", "2", "collective", "--bytes", "1kB")
        self.assertEqual(done.returncode, 69, done.stderr)

    def test_several_ranks_evaluate_as_one_does(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(FORETRAIN, "train", TOY, "--steps", "2", "--out", folder, *ONE, *NAIVE)
            self.assertEqual(done.returncode, 0, done.stderr)
            checkpoint = os.path.join(folder, "ckpt-000002")
            one = run(FORETRAIN, "evaluate", checkpoint, *NAIVE)
            self.assertEqual(one.returncode, 0, one.stderr)
            three = run(FORETRAIN, "evaluate", checkpoint, "-n", "3", *NAIVE)
            self.assertEqual(three.returncode, 0, three.stderr)
            self.assertEqual(three.stdout, one.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
