#!/usr/bin/python3
"""Predictions change only on purpose: run tools/update_golden.py and say why in the commit."""
import math

import golden
import harness

# Twelve digits are committed; compilers may order sums and products differently.
TOLERANCE = 1e-9

# Under sanitizers each simulated lane is a thread: only scenarios that fold to few classes fit.
FOLDS = "experiments/01_sony_abci/v1-"


class Golden(harness.Case):
    """results.csv against the program."""

    def test_every_experiment_has_a_row_per_back_end(self):
        expected = [(scenario, backend) for scenario in golden.scenarios()
                    for backend in ("analytic", "sim")]
        self.assertEqual([(row["scenario"], row["backend"]) for row in golden.read()], expected)

    def check_backend(self, backend):
        """Recompute the rows of one back end."""
        if backend not in golden.backends():
            self.skipTest("built without SimGrid")
        for row in golden.read():
            large = harness.SANITIZED and backend == "sim" and not row["scenario"].startswith(FOLDS)
            if row["backend"] != backend or large:
                continue
            fresh = golden.compute(row["scenario"], backend)
            for column in golden.WORDS:
                self.assertEqual(fresh[column], row[column], (row["scenario"], column))
            for column in golden.NUMBERS:
                self.assertTrue(math.isclose(fresh[column], row[column], rel_tol=TOLERANCE),
                                (row["scenario"], column, row[column], fresh[column]))

    def test_closed_form_results_are_the_committed_ones(self):
        self.check_backend("analytic")

    def test_simulated_results_are_the_committed_ones(self):
        self.check_backend("sim")

    def test_the_simulator_is_never_faster_than_the_closed_form(self):
        rows = {(row["scenario"], row["backend"]): row for row in golden.read()}
        for scenario in golden.scenarios():
            self.assertGreaterEqual(rows[scenario, "sim"]["step_s"],
                                    rows[scenario, "analytic"]["step_s"] * (1 - TOLERANCE))
