"""docs/validation.md says what docs/validation.json holds, whose verdicts follow from its figures and
which leaves no case out.  Nothing is measured here."""
import json
import sys
import unittest

import cases
from harness import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import validation         # noqa: E402  pylint: disable=wrong-import-position
import validation_page    # noqa: E402  pylint: disable=wrong-import-position

SKIPS = True  # one case skipped, the whole one skipped

DOCS = ROOT / "docs"


class Page(unittest.TestCase):
    def setUp(self):
        self.data = json.loads((DOCS / "validation.json").read_text(encoding="utf-8"))
        self.records = self.data["records"]

    def test_page_and_pictures_are_those_of_the_file(self):
        for name, text in validation_page.render(self.data, validation.expected_names()).items():
            self.assertEqual((DOCS / name).read_text(encoding="utf-8"), text, name)

    def test_nothing_is_left_out(self):
        expected = validation.expected_names()
        self.assertEqual(list(self.records), [n for n in expected if n in self.records])
        for name, record in self.records.items():
            self.assertEqual(record["name"], name)
            self.assertIn(record["run"], range(len(self.data["runs"])))
        missing = len(expected) - len(self.records)
        if missing:
            self.skipTest(f"{missing} of {len(expected)} cases of docs/validation.json were not "
                          "measured: tools/validation.py --all --again")

    def test_errors_and_verdicts_follow_from_the_figures(self):
        for name, record in self.records.items():
            error = record.get("slower", 1) * record["predicted_s"] / record["measured_s"] - 1
            self.assertAlmostEqual(record["error"], error, places=9, msg=name)
            if record["verdict"] == "disturbed":
                self.assertTrue(record["reason"], name)
                continue
            self.assertGreaterEqual(record["runs"], 8, name)
            inside = abs(error) <= record["tolerance"]
            if record["kind"] == "control":
                self.assertEqual(record["exit_code"], 0 if inside else 1, name)
                inside = record["exit_code"] == record["expected_code"]
            elif record["kind"] == "step":
                inside &= abs(record["exposed_predicted_s"] / record["exposed_measured_s"] - 1) \
                    <= cases.EXPOSED_TOLERANCE
            self.assertEqual(record["verdict"], "pass" if inside else "fail", name)

    def test_tolerances_are_the_promised_ones(self):
        for name, record in self.records.items():
            small = record["kind"] == "control" or record.get("bytes", 8e6) < 8e6
            job = record["kind"] == "job"
            self.assertEqual(record["tolerance"], 0.15 if small else 0.1 if job else 0.05, name)
