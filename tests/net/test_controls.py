"""Predictions that are wrong on purpose: `validate` must refuse them, and not the right one.

Everything wrong here is predicted longer than it takes, and disturbing can only lengthen what is
measured, so this holds on a busy machine too.
"""
import unittest

import cases
import harness
import lab

SKIPS = True  # one case skipped, the whole one skipped
harness.need_mpi()
lab.need_lab()


class Controls(unittest.TestCase):
    def control(self, what):
        record, = cases.attempt(cases.control, what, 2) or self.skipTest("disturbed: no lab")
        print("{name:34} predicted {predicted_s:.4f} s, measured {measured_s:.4f} s {error:+.3f} "
              "exit code {exit_code} {verdict}".format(**record))
        if record["verdict"] == "disturbed":
            self.skipTest(f"disturbed: {what}: {record['reason']}")
        self.assertEqual(record["exit_code"], record["expected_code"], record["reason"])
        return record

    def test_half_the_rate_is_refused(self):
        self.assertGreater(self.control("half the rate")["error"], 0.15)

    def test_twice_the_oversubscription_is_refused(self):
        self.control("twice the oversubscription")

    def test_rows_across_leaves_are_refused(self):
        self.control("rows across leaves")

    def test_what_is_right_passes(self):
        self.control("nothing wrong")
