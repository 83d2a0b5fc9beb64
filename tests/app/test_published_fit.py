"""experiments/published_fit.py: profiles are what the runs say, and devices are known before they run."""
import csv
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

import harness
import support

RUNS = support.ROOT / "experiments" / "02_published_runs" / "single_node.csv"
FIT = support.ROOT / "experiments" / "published_fit.py"
PROFILES = support.ROOT / "platforms" / "software"
# Beside those that are calibrated: those that extend another.
BY_HAND = {"flash-attention", "llm-foundry", "megatron-2022", "megatron-2023", "megatron-core", "mxnet-2018-11", "nanotron", "pytorch-flash",
           "pytorch-mlperf"}

# A run on nodes with one device each.
RUN = """\
version: 1
model: {network: resnet50, precision: {compute: fp16, gradients: fp16}}
cluster: {platform: %s, nodes: %d, devices_per_node: 1}
training: {dataset: imagenet, phases: [{epochs: 1, batch_per_device: %d}], optimizer: {name: lars}}
measured: {step: %s ms, software: %s%s}
"""


def setUpModule():
    """The published runs as jobs."""
    harness.needs_library()
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    Calibrate.runs = pathlib.Path(folder.name) / "single_node"
    os.environ["FORETRAIN_LIBRARY"] = str(pathlib.Path(support.PROGRAM).parent / "libforetrain.so.0")
    if harness.execute("/usr/bin/python3", "-c", "import numpy, yaml").returncode:
        harness.skip("python3-numpy or python3-yaml is not installed")
    subprocess.run([sys.executable, support.ROOT / "experiments" / "published.py", RUNS, "--backend=analytic", "--jobs",
                    Calibrate.runs], check=True, capture_output=True)


class Calibrate(support.Case):
    """The script on the published runs and on runs made up."""

    def calibrate(self, *words):
        """What it prints."""
        return self.execute(0, FIT, *words).stdout

    def refuse(self, code, *words):
        """What it says to what it refuses."""
        done = self.execute(code, FIT, *words)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def folder(self, runs, name="jobs"):
        """A folder of @runs, texts of jobs."""
        path = self.directory / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        for number, text in enumerate(runs):
            (path / f"{number:02d}.yaml").write_text(text, encoding="utf-8")
        return path

    def test_committed_profiles_are_what_the_command_writes(self):
        self.calibrate(self.runs, "--to", self.directory / "to")
        fresh = {path.stem: path for path in (self.directory / "to").iterdir()}
        committed = {path.stem: path for path in PROFILES.glob("*.yaml")}
        self.assertEqual(set(committed) - set(fresh), BY_HAND)
        for name, path in fresh.items():
            self.assertEqual(path.read_text(encoding="utf-8"),
                             committed[name].read_text(encoding="utf-8"), name)

    def test_half_of_the_published_runs_agree_within_two_percent(self):
        error = re.search(r"median error (\S+) %", self.calibrate(self.runs))
        self.assertLessEqual(float(error[1]), 2)

    def test_each_family_is_predicted_from_its_data_sheet_alone(self):
        for family in ("V100", "A100", "H100"):
            text = self.calibrate(self.runs, "--without", family)
            runs, error = re.search(r"(\d+) runs, median error (\S+) %\n$", text).groups()
            print(f"before buying {family}: {runs} runs, median error {error} %")
            self.assertLessEqual(float(error), 30, family)

    @staticmethod
    def made_up(batch, step_ms, nodes=1, software="mine", more=""):
        """One run on single devices."""
        return RUN % ("dgx-a100", nodes, batch, step_ms, software, more)

    def predict(self, *sets):
        """Step time [ms] of one device at batch 16 and 32 by the closed form."""
        words = [word for s in ("cluster.nodes=1", "cluster.devices_per_node=1",
                                "allreduce={overlap: none}", *sets) for word in ("--set", s)]
        return 1e3 * support.answer("predict", self.job, "--backend", "analytic",
                                    *words)["step_s"]

    def test_a_profile_predicts_the_runs_it_was_fitted_to(self):
        runs = self.folder([self.made_up(32, 14), self.made_up(64, 24), self.made_up(256, 84)])
        self.calibrate(runs, "--to", self.directory)
        profile = self.directory / "mine.yaml"
        for batch, step in ((32, 14), (64, 24), (256, 84)):
            predicted = self.predict(
                f"cluster.software={profile}", "cluster.platform=dgx-a100",
                f"training.phases=[{{epochs: 1, batch_per_device: {batch}}}]")
            self.assertLess(abs(predicted / step - 1), 0.05, (batch, predicted))

    def test_a_folder_may_have_any_name(self):
        runs = [self.made_up(32, 14), self.made_up(64, 24)]
        for name in 'a"b', "a\nb: {x} \\", "with/":
            self.calibrate(f"{self.folder(runs, name)}/", "--to", self.directory)
            self.predict(f"cluster.software={self.directory}/mine.yaml", "cluster.platform=dgx-a100")

    def test_runs_on_several_nodes_and_in_doubt_are_left_out_and_counted(self):
        alone = self.calibrate(self.folder([self.made_up(256, 90)]))
        mixed = self.calibrate(self.folder([self.made_up(256, 90), self.made_up(256, 999, nodes=2),
                                                      self.made_up(256, 50, more=", doubtful: true")]))
        self.assertIn("1 on several nodes left out; 1 in doubt left out", mixed)
        self.assertEqual(mixed.split("\n")[:2], alone.split("\n")[:2])
        doubtful = self.calibrate(self.folder([self.made_up(256, 90, more=", doubtful: true")]))
        self.assertEqual(doubtful, alone)  # better than none

    def test_one_run_held_up_by_something_else_does_not_move_the_fit(self):
        good = [self.made_up(256, 90 + i / 10) for i in range(8)]
        clean = self.calibrate(self.folder(good))
        held_up = self.calibrate(self.folder(good + [self.made_up(256, 180)]))
        efficiency = [float(re.search(r"mine .*?([\d.]+) % ", text)[1]) for text in
                      (clean, held_up)]
        self.assertLess(abs(efficiency[1] / efficiency[0] - 1), 0.01)

    def test_json_says_what_the_table_says(self):
        text = self.calibrate(self.runs, "--without", "H100")
        result = json.loads(self.calibrate(self.runs, "--without", "H100", "--json"))
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
        written = json.loads(self.calibrate(self.runs, "--json", "--to", self.directory / "to"))
        self.assertEqual(written["profiles_written"], len(list((self.directory / "to").iterdir())))

    def test_a_profile_of_somebody_else_stays(self):
        jobs = self.folder([self.made_up(100 + i, 50 + i, software=f"mlperf-{name}")
                            for i, name in enumerate(("v1.0", "v1.0", "v2.0", "v2.0"))])
        folder = self.directory / "to"
        folder.mkdir()
        mine = folder / "mlperf-v2.0.yaml"
        mine.write_text("# by hand\n", encoding="utf-8")
        words = jobs, "--to", folder
        self.assertIn(f"{mine} exists", self.refuse(73, *words))
        self.assertEqual([file.name for file in folder.iterdir()], [mine.name])
        for more in (["--overwrite"], []):  # the second time it is its own
            self.calibrate(*words, *more)
        self.assertIn("Written by", mine.read_text(encoding="utf-8"))

    def test_what_another_layout_costs_comes_from_devices_that_have_both(self):
        def profile(*runs):
            jobs = self.folder([RUN % (platform, 1, 256, step, name, "") for platform, step, name in runs])
            self.calibrate(jobs, "--to", self.directory / "to", "--overwrite")
            text, last = ((self.directory / "to" / f"{name}.yaml").read_text(encoding="utf-8")
                          for name in ("pytorch-nchw", "pytorch"))
            found = re.findall(r"efficiency: \{value: (\S+) %", text), re.findall(r"efficiency_sd: (\S+) %", text)
            devices = ["rest", *re.findall(r"- device: (\S+)", text)]
            base = dict(zip(["rest", *re.findall(r"- device: (\S+)", last)],
                            map(float, re.findall(r"efficiency: \{value: (\S+) %", last))))
            first, sd = (dict(zip(devices, map(float, column))) for column in found)
            return {name: first[name] / base[name] for name in first}, sd
        last = [(platform, step, "pytorch") for platform, step in
                (("dgx-1", 220), ("dgx-a100", 110), ("dgx-h100", 60))]
        ratio, sd = profile(*last, ("dgx-a100", 240, "pytorch-nchw"))
        measured = ratio["a100-sxm4-80gb"]
        self.assertLess(measured, 0.75)
        for device in "rest", "v100-sxm2-16gb", "h100-sxm5-80gb":
            self.assertAlmostEqual(ratio[device], measured, 3)
            self.assertGreaterEqual(sd[device], float(f"{100 * -math.log(measured) / 2:.3g}"))  # as it is printed
        ratio, sd = profile(*last, ("dgx-a100", 240, "pytorch-nchw"), ("dgx-h100", 117, "pytorch-nchw"))
        both = ratio["a100-sxm4-80gb"], ratio["h100-sxm5-80gb"]
        for device in "rest", "v100-sxm2-16gb":
            self.assertAlmostEqual(ratio[device], math.sqrt(both[0] * both[1]), 3)
            self.assertGreater(sd[device], 100 * abs(math.log(both[0] / both[1])) / math.sqrt(2))

    def test_the_start_up_is_the_median_excess_of_a_round_or_of_its_era(self):
        def rows(name, excess):
            return [self.made_up(100 + i, 50 + i, software=name, more=seconds and f", startup: {seconds} s")
                    for i, seconds in enumerate(excess)]
        jobs = self.folder(rows("mlperf-v1.0", ["9", "2", "4", ""]) + rows("mlperf-v2.0", [""]) + rows("mlperf-v0.6", ["30"]) +
                           rows("mlperf-v3.0", ["-3", "-1"]) + rows("mine", ["7"]))
        result = json.loads(self.calibrate(jobs, "--json", "--to", self.directory / "to"))
        self.assertEqual(result["startup_s"], {"mlperf-v0.6": 30, "mlperf-v1.0": 4,
                                               "mlperf-v2.0": 2, "mlperf-v3.0": 0})
        profile = (self.directory / "to" / "mlperf-v2.0.yaml").read_text(encoding="utf-8")
        self.assertIn("median of 5 runs of its era", profile)

    def test_what_cannot_be_fitted_is_refused(self):
        self.assertIn("B300", self.refuse(64, self.runs, "--without", "B300"))
        several = self.folder([self.made_up(256, 999, nodes=2)])
        self.assertIn("no run on one node", self.refuse(65, several))
        for text, where in ((support.JOB, "says measured.step"), (self.made_up(256, 9).replace(", software: mine", ""), "measured.software"),
                            ("version: 1\n", "model"), (self.made_up(256, -9), r"00\.yaml:5:18: error: ")):
            self.assertRegex(self.refuse(65, self.folder([text])), where)
        self.assertIn("no job", self.refuse(65, self.folder([])))
        self.refuse(66, self.directory / "none")

    def test_the_table_has_only_runs_on_one_node(self):
        with RUNS.open(encoding="utf-8") as lines:
            self.assertEqual({row["n_nodes"] for row in csv.DictReader(lines)}, {"1"})
