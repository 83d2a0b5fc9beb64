"""What overlap costs is told apart; how long it takes is tested in core/test_lanes.c and sim/test_sim.c."""

import support
from support import answer, has_simulator

SLOWER = ((0.2, 0, 0), (0, 0.3, 0), (0.25, 0.15, 0), (1, 1, 0), (0, 0, 2e-5), (0.1, 0.09, 1.2e-5))

NARROW = ("--set", "platform.network.nic.bandwidth=2 GB/s")  # collectives as long as backward
CERTAIN = ("--set", "cluster.software=mlperf-v0.6", "--set", "platform.transport.between=0 s")


def sets(compute, communication, launch):
    """The words that set them."""
    return ("--set", f"device.compute_slowdown={100 * compute} %",
            "--set", f"device.communication_slowdown={100 * communication} %",
            "--set", f"device.collective_launch={launch} s")


class Overlap(support.Case):
    """On every back end this build has."""

    def setUp(self):
        super().setUp()
        self.backends = ["analytic"] + (["sim"] if has_simulator() else [])

    def test_each_cost_is_a_line_of_its_own(self):
        names = ("compute beside communication", "communication beside compute",
                 "launching collectives")
        for backend in self.backends:
            for slower in SLOWER:
                found = answer("explain", self.job, "--backend", backend, "--noise=none",
                               *NARROW, *sets(*slower))["runs"][0]
                cause = {c["name"]: c for c in found["causes"]}
                total = sum(c["seconds"] for c in found["causes"])
                self.assertAlmostEqual(total, found["step_s"] - found["baseline"]["step_s"],
                                       12)
                for name, cost in zip(names, slower):
                    self.assertEqual(cause[name]["seconds"] != 0, cost > 0, (slower, name))
                    low, high = cause[name]["seconds_low"], cause[name]["seconds_high"]
                    self.assertEqual(low != high, cost > 0, (slower, name))

    def test_its_doubt_is_drawn(self):
        def share(doubt, name):
            found = answer("predict", self.job, "--backend", "analytic", *CERTAIN, "--set",
                           "platform.network.nic.bandwidth={value: 2 GB/s, kind: measured, source: here}",
                           "--set", f"device.compute_slowdown={doubt}")
            return {row["input"]: row["step"] for row in found["interval_shares"]}[name]
        self.assertEqual(share("0 %", "slowdown of compute"), 0)
        self.assertGreater(share("50 %", "slowdown of compute"), 0)
        for doubt in ("{low: 0 %, high: 100 %}", "{value: 50 %, spread: 90 %}"):
            self.assertEqual(share(doubt, "slowdown of compute"), 0)
            self.assertGreater(share(doubt, "device.compute_slowdown"), 0)

    def test_what_has_no_effect_is_said(self):
        alone = ("--set", "allreduce.overlap=none", "--backend", "analytic")
        for key in ("compute_slowdown=10 %", "communication_slowdown=10 %"):
            warnings = answer("predict", self.job, *alone, "--set", f"device.{key}")["warnings"]
            self.assertIn(f"--set device.{key.split('=', maxsplit=1)[0]} has no effect on this job", warnings)
        self.assertEqual(answer("predict", self.job, *alone, "--set",
                                "device.collective_launch=10 us")["warnings"], [])
        # jitter is the job's, where it says one, else the device's
        for noise, said in (("seed=1", []), ("noise.compute_cv=2 %", [
                "--set device.jitter has no effect on this job"])):
            self.assertEqual(answer("predict", self.job, "--backend", "analytic", "--set", noise,
                                    "--set", "device.jitter=3 %")["warnings"], said)
        steps = [answer("predict", self.job, "--backend", "analytic", "--set", key)["time_to_train_s"]
                 for key in ("device.jitter=3 %", "noise.compute_cv=3 %", "device.jitter=0 %")]
        self.assertEqual(steps[0], steps[1])
        self.assertGreater(steps[0], steps[2])
        self.assertIn("100 %",
                      self.refused(65, "predict", self.job, "--set",
                                   "device.compute_slowdown=101 %"))
