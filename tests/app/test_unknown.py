"""Inputs that nobody knows: what they do to an interval, against bounds computed here."""
import importlib.util
import json
import math
import resource
import unittest

import support
from support import STARVED, answer, likely, run


class Unknown(support.Case):
    """`predict` with unknown inputs."""

    def starved(self, rate):
        """A job whose step takes batch / (workers * rate), of which nothing else is uncertain."""
        return self.write("starved.yaml", STARVED % rate)

    def test_a_spread_comes_out_as_it_went_in(self):
        """Of a lognormal number 90 % are within exp(+- 1.645 sd)."""
        result = answer("predict", self.starved("{value: 20 images/s, spread: 0.3}"))
        centre = 32 / 4 / 20
        self.assertLess(abs(result["step_s"] / centre - 1), 1e-6)
        low, high = result["step_s_low"], result["step_s_high"]
        for found, sign in ((low, -1), (high, 1)):
            self.assertLess(abs(math.log(found / centre) - sign * 1.645 * 0.3), 0.03)
        share = {row["input"]: row["step"] for row in result["interval_shares"]}
        self.assertGreater(share["input.rate"], 0.95)
        self.assertEqual(result["unknown_inputs"],
                         [{"input": "input.rate", "range": "20 images/s, spread 0.3"}])

    def test_between_two_ends_all_are_equally_likely(self):
        result = answer("predict", self.starved("{low: 10 images/s, high: 30 images/s}"))
        self.assertLess(abs(result["step_s"] - 32 / 4 / 20), 1e-6)
        low, high = result["step_s_low"], result["step_s_high"]
        self.assertLess(abs(low / (32 / 4 / 29) - 1), 0.02)
        self.assertLess(abs(high / (32 / 4 / 11) - 1), 0.02)

    def test_the_centre_is_the_job_with_the_values_of_the_centre(self):
        plain = answer("predict", self.job, "--set", "training.phases[1].batch_per_device=24",
                       "--set", "platform.transport.between=8us")
        unknown = answer("predict", self.job, "--set",
                         "training.phases[1].batch_per_device={low: 16, high: 32}", "--set",
                         "platform.transport.between={low: 6 us, high: 10 us}")
        for key in ("step", "scaling_efficiency", "time_to_train_s", "phases"):
            self.assertEqual(plain[key], unknown[key])
        self.assertEqual([row["input"] for row in unknown["unknown_inputs"]],
                         ["training.phases[1].batch_per_device", "platform.transport.between"])
        self.assertLess(unknown["step_s_low"], plain["step_s_low"])
        self.assertGreater(unknown["step_s_high"], plain["step_s_high"])

    def test_a_choice_makes_an_interval_that_holds_both(self):
        of = [likely(answer("predict", self.job, "--batch", str(batch)), "step_s")
              for batch in (16, 64)]
        both = likely(answer("predict", self.job, "--set",
                      "training.phases[1].batch_per_device={one_of: [16, 64]}"), "step_s")
        self.assertLess(of[0][0], both[0] * 1.01)
        self.assertLess(both[0], of[0][1])
        self.assertLess(of[1][0], both[1])
        self.assertLess(both[1], of[1][1] * 1.01)

    def test_draws_that_make_no_job_are_counted(self):
        result = run("predict", self.job, "--set",
                     "training.phases[0].batch_per_device={one_of: [16, 4096]}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"120 draws; 120 more make no job.*do not fit")
        result = run("predict", self.job, "--set",
                     "training.phases[0].batch_per_device={one_of: [4096, 8192]}")
        self.assertEqual(result.returncode, 65)
        self.assertIn("do not fit", result.stderr)

    def cpu(self, *words):
        """Seconds of it that a command takes."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        support.good(*words)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    def test_draws_that_choose_alike_share_a_job(self):
        """Two jobs, against one for each draw."""
        for command in "predict", "explain":
            two, many = (self.cpu(command, self.job, "--backend=analytic", f"--set=allreduce.bucket={unknown}")
                         for unknown in ("{one_of: [2 MiB, 4 MiB]}", "{low: 2 MiB, high: 4 MiB}"))
            self.assertLess(4 * two, many, command)

    def test_a_choice_that_never_makes_a_job_is_a_mistake(self):
        for key, choices, word in (("allreduce.bucket", "2 MiB, 4 miB, 8 MiB", "'miB' is not a unit"),
                                   ("cluster.platform", "abci, nowhere", "nowhere"),
                                   ("allreduce.algorithm", "torus2d, ring", "allreduce.grid has no effect")):
            for command in "predict", "explain":
                refused = run(command, self.job, "--set", f"{key}={{one_of: [{choices}]}}")
                self.assertIn(refused.returncode, (65, 66))
                self.assertIn(word, refused.stderr)

    @unittest.skipUnless(support.has_simulator(), "built without SimGrid")
    def test_the_simulator_checks_some_draws(self):
        unknown = ("--set", "platform.transport.between={low: 6 us, high: 10 us}")
        draws = answer("predict", self.job, *unknown, "--backend", "sim")["draws"]
        self.assertEqual(draws["simulated"], 12)
        self.assertLessEqual(draws["simulated_over_closed_form_low"],
                             draws["simulated_over_closed_form_high"])
        draws = answer("predict", self.job, *unknown, "--backend", "analytic")["draws"]
        self.assertEqual(draws["simulated"], 0)
        draws = answer("predict", self.job, "--set=allreduce.bucket={one_of: [2 MiB, 4 MiB]}", "--backend", "sim")["draws"]
        self.assertEqual(draws["simulated"], 2)  # one of each job

    def test_only_predictions_take_them(self):
        job = self.write("unknown.yaml", STARVED % "{low: 10 images/s, high: 30 images/s}")
        for command in (("validate", job), ("train", job, "--dry-run")):
            refused = run(*command)
            self.assertEqual(refused.returncode, 65, command)
            self.assertIn("unknown.yaml:5:27: error: input.rate is not known here", refused.stderr)
        checked = run("check", job)
        self.assertIn("unknown: input.rate, 10 images/s to 30 images/s", checked.stdout)
        explained = run("check", job, "--explain")
        self.assertRegex(explained.stdout, r"input.rate .*an unknown input")

    def test_a_platform_file_may_have_them(self):
        platform = self.write("mine.yaml", f"extends: {support.ROOT}/platforms/abci.yaml\n"
                              "name: mine\ntransport:\n  between: {low: 5 us, high: 15 us, "
                              "source: two tables, kind: published}\n")
        result = answer("predict", self.job, "--platform", platform)
        self.assertEqual(result["unknown_inputs"], [{"input": "platform.transport.between",
                                                     "range": "5 us to 15 us"}])
        self.assertEqual(run("check", "--platform", platform).returncode, 0)
        self.assertEqual(run("show", "platform", platform).returncode, 0)
        refused = run("collective", "--platform", platform, "--grid", "4x4")
        self.assertEqual(refused.returncode, 65)
        self.assertIn("is not known here", refused.stderr)

    def test_the_schema_takes_them(self):
        try:
            import jsonschema
            import yaml
        except ImportError as missing:
            self.skipTest(f"{missing.name} is not installed")
        schema = json.loads(run("schema", "scenario").stdout)
        for rate, right in (("{low: 1 images/s, high: 3 images/s}", True), ("{low: 3}", False),
                            ("{one_of: [1 images/s, 2 images/s]}", True), ("{one_of: []}", False)):
            job = yaml.safe_load(STARVED % rate)
            self.assertEqual(jsonschema.Draft202012Validator(schema).is_valid(job), right, rate)


class OneOf(support.Case):
    """What is one of several is all of them, equally likely."""

    def test_numbers_are_means(self):
        key = "training.phases[1].epochs"
        each = [answer("predict", self.job, "-banalytic", "--set", f"{key}={value}") for value in (20, 60)]
        mean = answer("predict", self.job, "-banalytic", "--set", f"{key}={{one_of: [20, 60]}}")
        self.assertAlmostEqual(mean["time_to_train_s"] / sum(one["time_to_train_s"] for one in each), 1 / 2, 9)
        self.assertTrue(any("means of 2 jobs" in text for text in mean["assumptions"]))


class Stated(unittest.TestCase):
    """The intervals that experiment 01 states."""

    def setUp(self):
        path = support.ROOT / "experiments" / "01_sony_abci" / "stated.py"
        spec = importlib.util.spec_from_file_location("stated", path)
        self.stated = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.stated)

    def test_the_picture_is_that_of_the_table(self):
        picture = (self.stated.HERE / "efficiency.svg").read_text(encoding="utf-8")
        self.assertEqual(self.stated.picture(), picture)

    def test_a_row_is_what_the_program_says_today(self):
        result = self.stated.predict("fujitsu-2048")
        for row in self.stated.read():
            if row["run"] == "fujitsu-2048":
                self.assertEqual(self.stated.cells(result, row["quantity"]),
                                 [row[key] for key in ("predicted", "low", "high", "most",
                                                       "share")], "run stated.py")
