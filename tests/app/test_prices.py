"""Cost, energy and carbon of a prediction, against numbers computed here."""

import support
from support import answer, likely, run

PRICES = """\
version: 1
name: mine
description: round numbers
date: 2026-01-02
currency: EUR
price: {node_hour: {low: 8, high: 12, source: mine, kind: assumed}}
power:
  device: {value: 300 W, source: mine, kind: assumed}
  node: {value: 1 kW, source: mine, kind: assumed}
  share: {low: 60 %, high: 80 %, source: mine, kind: assumed}
  pue: {value: 1.5, source: mine, kind: assumed}
carbon: {low: 100 g/kWh, high: 300 g/kWh, source: mine, kind: assumed}
"""


class Prices(support.Case):
    """`predict --prices`."""

    def priced(self, *words):
        """The small job, priced."""
        return answer("predict", self.job, "-banalytic", "--prices",
                      self.write("mine.yaml", PRICES), *words)

    def near(self, found, expected):
        """Equal up to rounding."""
        for one, other in zip(found, expected, strict=True):
            self.assertAlmostEqual(one / other, 1, places=9)

    def test_cost_energy_and_carbon_by_hand(self):
        result = self.priced("--set", "training.startup=100 s")
        hours = result["time_to_train_s"] / 3600
        rated = 4 * 1 + 16 * 0.3  # kW of 4 nodes with 4 devices each
        self.near([result["cost"], result["energy_kwh"], result["carbon_kg"]],
                  [4 * 10 * hours, rated * 0.7 * 1.5 * hours, rated * 0.7 * 1.5 * hours * 0.2])
        self.assertEqual(result["currency"], "EUR")
        self.assertIn("mine of 2026-01-02 (", result["prices"])
        if not likely(result, "time_to_train_s"):
            self.assertEqual(likely(result, "cost"), [])
            return
        low, high = (seconds / 3600 for seconds in likely(result, "time_to_train_s"))
        self.near(likely(result, "cost"), [4 * 8 * low, 4 * 12 * high])
        self.near(likely(result, "energy_kwh"), [rated * 0.6 * 1.5 * low, rated * 0.8 * 1.5 * high])
        self.near(likely(result, "carbon_kg"),
                  [rated * 0.6 * 1.5 * low * 0.1, rated * 0.8 * 1.5 * high * 0.3])

    def test_prices_of_other_hardware_are_named(self):
        said = "these numbers are of h100-sxm5-80gb, not of v100-sxm2-16gb"
        for words in (("predict", self.job), ("compare", self.job, self.job),
                      ("sweep", self.job, "--scan", "training.phases[0].epochs=1..2"),
                      ("plan", self.job, "--within", "1000 h", "--nodes", "4", "--batch", "8",
                       "--algorithms", "nccl", "--buckets", "4MiB")):
            words = (*words, "-banalytic", "--prices")
            self.assertEqual(run(*words, "example-h100").stderr.count(said), 1, words)
            self.assertEqual(run(*words, "example-v100").stderr, "")
            mine = self.write("mine.yaml", PRICES)
            self.assertEqual(run(*words, mine).stderr, "")
            mine = self.write("mine.yaml", PRICES + "for: [V100-sxm2-16GB, p40]\n")
            self.assertEqual(run(*words, mine).stderr, "")
        found = answer("predict", self.job, "-banalytic", "--prices", "example-h100")
        self.assertIn(said, " ".join(found["warnings"]))

    def test_start_up_is_paid(self):
        """An hour more for 4 nodes costs 40."""
        costs = [self.priced("--set", f"training.startup={hours} h")["cost"] for hours in (0, 1)]
        self.assertAlmostEqual(costs[1] - costs[0], 40, places=6)

    def test_a_phase_on_fewer_nodes_pays_fewer(self):
        result = self.priced("--set", "training.phases[0].nodes=2")
        first, last = result["phases"]
        paid = (2 * first["steps"] * first["step_s"] + 4 * last["steps"] * last["step_s"] +
                4 * (result["evaluation_s"] + result["startup_s"])) / 3600
        self.near([result["cost"]], [10 * paid])

    def test_nothing_is_priced_unless_a_file_is_named(self):
        result = answer("predict", self.job, "-banalytic")
        for key in ("cost", "energy_kwh", "carbon_kg", "currency", "prices"):
            self.assertIsNone(result[key])
        self.assertNotIn("cost", run("predict", self.job, "-banalytic").stdout)
        text = run("predict", self.job, "-banalytic", "--prices", "example-h100").stdout
        self.assertRegex(text, r"prices +example-h100 of 2026-11-27 \(/.*/prices/example-h100.yaml\)")

    def test_faults_are_located(self):
        wrong = self.write("wrong.yaml", PRICES.replace("300 W", "300"))
        self.assertIn("wrong.yaml:8:19: error:", self.refused(65, "predict", self.job, "--prices", wrong))
        self.assertIn("'foretrain list prices'", self.refused(66, "predict", self.job, "--prices", "no"))
        self.assertIn("example-h100", run("list", "prices").stdout)
