#!/usr/bin/python3
"""foretrain calibrate: profiles are what the runs say, and devices are known before they run."""
import csv
import re
import statistics
import unittest

import support

RUNS = support.ROOT / "experiments" / "02_published_runs" / "single_node.csv"
PROFILES = support.ROOT / "platforms" / "software"
# Beside those that are calibrated: one that extends another.
BY_HAND = {"mxnet-2018-11"}

WITHOUT_GSL = not support.has_gsl()


@unittest.skipIf(WITHOUT_GSL, "built without GSL")
class Calibrate(support.Case):
    """The command on the published runs and on runs made up."""

    def calibrate(self, *words):
        """What it prints."""
        return support.good("calibrate", "device", *words).stdout

    def table(self, rows):
        """A table of @rows, mappings from column to value."""
        path = self.directory / "runs.csv"
        columns = list(rows[0])
        lines = [",".join(columns)] + [",".join(str(row[c]) for c in columns) for row in rows]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def test_committed_profiles_are_what_the_command_writes(self):
        self.calibrate("--from", RUNS, "--to", self.directory / "to")
        fresh = {path.stem: path for path in (self.directory / "to").iterdir()}
        committed = {path.stem: path for path in PROFILES.glob("*.yaml")}
        self.assertEqual(set(committed) - set(fresh), BY_HAND)
        for name, path in fresh.items():
            self.assertEqual(path.read_text(encoding="utf-8"),
                             committed[name].read_text(encoding="utf-8"), name)

    def test_half_of_the_published_runs_agree_within_two_percent(self):
        error = re.search(r"median error (\S+) %", self.calibrate("--from", RUNS))
        self.assertLessEqual(float(error[1]), 2)

    def test_each_family_is_predicted_from_its_data_sheet_alone(self):
        for family in ("V100", "A100", "H100"):
            text = self.calibrate("--from", RUNS, "--without", family)
            runs, error = re.search(r"(\d+) runs, median error (\S+) %\n$", text).groups()
            print(f"before buying {family}: {runs} runs, median error {error} %")
            self.assertLessEqual(float(error), 30, family)

    def made_up(self, batch, step_ms, nodes=1, family="A100"):
        """One run on a single device."""
        return {"round": "mine", "system": f"s{batch}", "acc_family": family, "form": "SXM",
                "n_nodes": nodes, "acc_per_node": 1, "n_acc": nodes, "per_acc_batch": batch,
                "step_ms": step_ms}

    def predict(self, *sets):
        """Step time [ms] of one device at batch 16 and 32 by the closed form."""
        words = [word for s in ("cluster.nodes=1", "cluster.devices_per_node=1",
                                "allreduce={overlap: none}", *sets) for word in ("--set", s)]
        return 1e3 * support.answer("predict", self.job, "--backend", "analytic",
                                    *words)["step_s"]

    def test_a_profile_predicts_the_runs_it_was_fitted_to(self):
        runs = self.table([self.made_up(32, 14), self.made_up(64, 24), self.made_up(256, 84)])
        self.calibrate("--from", runs, "--to", self.directory)
        profile = self.directory / "mine.yaml"
        for batch, step in ((32, 14), (64, 24), (256, 84)):
            predicted = self.predict(
                f"cluster.software={profile}", "cluster.platform=dgx-a100",
                f"training.phases=[{{epochs: 1, batch_per_device: {batch}}}]")
            self.assertLess(abs(predicted / step - 1), 0.05, (batch, predicted))

    def test_a_table_may_have_any_name(self):
        table = self.table([self.made_up(32, 14), self.made_up(64, 24)])
        for name in 'a"b.csv', "a\nb: {x} \\.csv":
            self.calibrate("--from", table.rename(self.directory / name), "--to", self.directory)
            self.predict(f"cluster.software={self.directory}/mine.yaml", "cluster.platform=dgx-a100")
            table = self.directory / name

    def test_runs_on_several_nodes_are_left_out_and_counted(self):
        alone = self.calibrate("--from", self.table([self.made_up(256, 90)]))
        mixed = self.calibrate("--from", self.table([self.made_up(256, 90),
                                                     self.made_up(256, 999, nodes=2),
                                                     self.made_up(256, 50, family="Abacus")]))
        self.assertIn("1 on several nodes left out; 1 of unknown devices or in doubt left out", mixed)
        self.assertEqual(mixed.split("\n")[:2], alone.split("\n")[:2])

    def test_one_run_held_up_by_something_else_does_not_move_the_fit(self):
        good = [self.made_up(256, 90 + i / 10) for i in range(8)]
        clean = self.calibrate("--from", self.table(good))
        held_up = self.calibrate("--from", self.table(good + [self.made_up(256, 180)]))
        efficiency = [float(re.search(r"mine .*?([\d.]+) % ", text)[1]) for text in
                      (clean, held_up)]
        self.assertLess(abs(efficiency[1] / efficiency[0] - 1), 0.01)

    def test_json_says_what_the_table_says(self):
        text = self.calibrate("--from", RUNS, "--without", "H100")
        result = support.answer("calibrate", "device", "--from", RUNS, "--without", "H100")
        self.assertEqual(result["schema"], "foretrain/calibration/1")
        self.assertIn(f"{result['runs']} runs fitted", text)
        self.assertEqual(sum(fit["runs"] for fit in result["fits"]), result["runs"])
        for fit in result["fits"]:
            self.assertRegex(text, rf"(?m)^{fit['software']} +{fit['device']} .* {fit['runs']} "
                             rf" *{100 * fit['efficiency']:.1f} %")
        errors = sorted(abs(row["predicted_s"] / row["measured_s"] - 1)
                        for row in result["checks"])
        self.assertEqual({row["device"][:4] for row in result["checks"]}, {"h100"})
        self.assertIn(f"{len(errors)} runs, median error "
                      f"{100 * statistics.median(errors):.1f} %", text)
        self.assertEqual(result["profiles_written"], 0)
        written = support.answer("calibrate", "device", "--from", RUNS, "--to",
                                 self.directory / "to")
        self.assertEqual(written["profiles_written"], len(list((self.directory / "to").iterdir())))

    def test_a_profile_of_somebody_else_stays(self):
        table = self.table([{**self.made_up(100 + i, 50 + i), "round": name}
                            for i, name in enumerate(("v1.0", "v1.0", "v2.0", "v2.0"))])
        folder = self.directory / "to"
        folder.mkdir()
        mine = folder / "mlperf-v2.0.yaml"
        mine.write_text("# by hand\n", encoding="utf-8")
        words = "calibrate", "device", "--from", table, "--to", folder
        self.assertIn(f"{mine} exists", self.refused(73, *words))
        self.assertEqual([file.name for file in folder.iterdir()], [mine.name])
        for more in (["--overwrite"], []):  # the second time it is its own
            self.assertEqual(support.run(*words, *more).returncode, 0)
        self.assertIn("Written by", mine.read_text(encoding="utf-8"))

    def test_the_start_up_is_the_median_excess_of_a_round_or_of_its_era(self):
        def rows(name, excess):
            return [{**self.made_up(100 + i, 50 + i), "round": name, "warmup_excess_s": seconds}
                    for i, seconds in enumerate(excess)]
        table = self.table(rows("v1.0", [9, 2, 4, ""]) + rows("v2.0", [""]) + rows("v0.6", [30]) +
                           rows("v3.0", [-3, -1]) + rows("mine", [7]))
        result = support.answer("calibrate", "device", "--from", table, "--to",
                                self.directory / "to")
        self.assertEqual(result["startup_s"], {"mlperf-v0.6": 30, "mlperf-v1.0": 4,
                                               "mlperf-v2.0": 2, "mlperf-v3.0": 0})
        profile = (self.directory / "to" / "mlperf-v2.0.yaml").read_text(encoding="utf-8")
        self.assertIn("median of 5 runs of its era", profile)

    def test_what_cannot_be_fitted_is_refused(self):
        self.assertIn("--from", self.refused(64, "calibrate", "device", "--to", self.directory))
        self.assertIn("device", self.refused(64, "calibrate", "devices", "--from", RUNS))
        self.assertIn("B300", self.refused(64, "calibrate", "device", "--from", RUNS,
                                           "--without", "B300"))
        several = self.table([self.made_up(256, 999, nodes=2)])
        self.assertIn("no run on one node", self.refused(65, "calibrate", "device",
                                                         "--from", several))

    def test_the_table_has_only_runs_on_one_node(self):
        with RUNS.open(encoding="utf-8") as lines:
            self.assertEqual({row["n_nodes"] for row in csv.DictReader(lines)}, {"1"})


if WITHOUT_GSL:
    class Refused(support.Case):
        """A build that lacks the library says so, whatever it is asked."""

        def test_any_words_get_the_same_answer(self):
            for words in (["calibrate"], ["calibrate", "cluster", "--bytes", "1MB"],
                          ["published", "x.csv", "--no-such-option"]):
                self.assertIn("built without GSL", self.refused(69, *words))
            self.assertIn("not in this build", support.run("calibrate", "--help").stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
