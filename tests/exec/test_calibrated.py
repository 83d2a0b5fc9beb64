"""Whole training jobs on files that `calibrate` wrote.

The jobs of jobs.py on 1, 2 and 4 ranks: the step time by the clock must be within 10 % of what was
predicted.  Four ranks take turns where there are fewer cores, which a calibration must be told; on
one that was not they are no prediction, and refused.  What others on the machine disturb is repeated
within a bound, and else reported, never judged.
"""
import os
import sys
import unittest

import jobs
import this_machine

CORES = len(os.sched_getaffinity(0))


@unittest.skipIf(CORES < 2, "one core: no two ranks compute at once")
class Calibrated(unittest.TestCase):
    """One calibration, several jobs."""

    WORDS = []

    @classmethod
    def setUpClass(cls):
        cls.calibration = jobs.Calibration(*cls.WORDS)
        cls.addClassCleanup(cls.calibration.folder.cleanup)

    def setUp(self):
        if self.calibration.reason():
            self.skipTest(self.calibration.reason())

    def check(self, ranks):
        """Jobs on that many ranks."""
        disturbed = []
        for network, batch in this_machine.PREDICTED:
            record = self.calibration.job(network, batch, ranks)
            if record["verdict"] == "disturbed":
                disturbed.append(f"{record['name']}: {record['reason']}")
            else:
                this_machine.judge(self, record["name"], record["error"])
        if disturbed:
            self.skipTest("; ".join(disturbed))


class FewRanks(Calibrated):
    """No more than there are cores."""

    def test_one_rank(self):
        self.check(1)

    def test_two_ranks(self):
        self.check(2)

    def test_more_ranks_than_cores_are_no_prediction(self):
        done = self.calibration.validate(*this_machine.PREDICTED[0], 2 * CORES)
        self.assertNotIn(done.returncode, (0, 1, jobs.DISTURBED), done.stdout)
        self.assertEqual(done.stdout, "")


class FourRanks(Calibrated):
    """On few cores they take turns."""

    WORDS = ["-n", 4, "--oversubscribe"]

    def test_four_ranks(self):
        self.check(4)


if __name__ == "__main__":
    this_machine.main(sys.argv[1:])
