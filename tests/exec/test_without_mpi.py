#!/usr/bin/python3
"""A build without MPI trains on one rank, and says so when it is asked for more."""

import os
import subprocess
import unittest

FORETRAIN = os.environ["FORETRAIN"]
TOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "toy.yaml")


def train(*words):
    return subprocess.run([FORETRAIN, "train", TOY, "--device", "cpu-naive", *words], timeout=1000,
                          capture_output=True, encoding="utf-8", check=False)


class WithoutMpi(unittest.TestCase):
    def test_several_ranks_are_refused(self):
        for words in (), ("--dry-run",), ("-n", "4"):
            done = train(*words)
            self.assertEqual(done.returncode, 69, done.stderr)
            self.assertIn("built without MPI", done.stderr)
            self.assertIn("use -n 1", done.stderr)

    def test_one_rank_trains(self):
        done = train("-n", "1", "--set", "allreduce.grid=null", "--steps", "2", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"loss"', done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
