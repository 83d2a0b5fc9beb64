"""A whole training step of ResNet-50, exchanged for real while backward still runs, against its
prediction.

Usage: test_step.py PLATFORM...

The gradients and their buckets are ResNet-50's; computing is rehearsed (device replay) at a
thousandth of a V100's speed on networks a thousandth of its cluster's, so that both take about as
long: part of the communication hides behind backward and part of it shows.  Predictions know the
platform, the job and the code, and nothing of any run.  A disturbed run is repeated, and else this
program ends as skipped.
"""
import sys
import unittest

import cases
import harness
import lab

SKIPS = True  # one case skipped, the whole one skipped
harness.need_mpi()
lab.need_lab()
lab.need_quiet()

PLATFORMS = sys.argv[1:] or ["flat-16"]
del sys.argv[1:]
ATTEMPTS = 2


class Step(unittest.TestCase):
    def test_step_and_exposed_communication_are_as_predicted(self):
        for case in cases.STEPS:
            if case[0] in PLATFORMS:
                with self.subTest(case[0]):
                    self.check(case)

    def check(self, case):
        records = cases.attempt(cases.step, case, ATTEMPTS)
        if not records:
            self.skipTest(f"disturbed: this machine is too busy for {case[0]}")
        record, = records
        print("{name:24} step {predicted_s:.3f} s, measured {measured_s:.3f} s {error:+.4f}; shows "
              "{exposed_predicted_s:.3f} s, {exposed_measured_s:.3f} s {exposed_error:+.4f}; others "
              "{foreign:.2f}, steal {steal:.3f}, late {late_s:.4f} s  {verdict} {reason}".format(
                  **record))
        self.check_that_both_matter(record)
        if record["verdict"] == "disturbed":
            self.skipTest(f"disturbed: {record['name']}: {record['reason']}")
        self.assertLessEqual(abs(record["error"]), cases.STEP_TOLERANCE)
        self.assertLessEqual(abs(record["exposed_error"]), cases.EXPOSED_TOLERANCE)
        self.assertEqual(record["verdict"], "pass")

    def check_that_both_matter(self, record):
        """Else overlap would not be tested."""
        shows = record["exposed_predicted_s"]
        self.assertGreater(shows, 0.1 * record["predicted_s"])
        self.assertGreater(record["communication_predicted_s"] - shows, 0.2 * record["predicted_s"])
        self.assertGreaterEqual(record["runs"], 8)
