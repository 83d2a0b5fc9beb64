"""Steps measured on this machine, and what is predicted from them.

Calibrated is on one rank alone with resnet20 at 4, 16 and 64 images; predicted are resnet8 at 24
images and resnet32 at 8, which have another depth and another batch.  Times are of the computing
thread, so that others on this machine do not count; where two measurements of one thing do not
agree with each other, nothing is judged by them.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import harness
import this_machine
from harness import EXECUTOR, execute, on_ranks
from this_machine import CALIBRATED, PREDICTED, TOLERANCE

# Two measurements that are further apart say nothing about a prediction.
AGREE = 0.03
TRIES = 10

PLATFORM = """\
version: 1
name: here
description: one device of this machine
kind: cluster
device: ./here-device.yaml
nodes: 1
node: {devices: 1}
transport:
  inside: {value: 0 us, source: "one device", kind: assumed}
  between: {value: 0 us, source: "one device", kind: assumed}
"""


def told(*words, ranks=0):
    """What foretrain-exec measure prints."""
    done = execute(*on_ranks(ranks, EXECUTOR, "measure", *words))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def measure(network, batch, repeats=12, ranks=0):
    """One trial of it."""
    return told("--networks", network, "--batch", batch, "--threads", 1, "--repeats", repeats, ranks=ranks)["trials"][0]


def quickest(network, batch, ranks=0):
    """Seconds of the quickest of several measurements, or None when no two agree."""
    times = []
    for _ in range(TRIES):
        times = sorted([*times, measure(network, batch, ranks=ranks)["time_s"]])
        if len(times) > 1 and times[1] / times[0] - 1 < AGREE:
            return times[0]
    return None


class Hog:
    """Two others on the one processor that we and what we start may use: the scheduler of a machine with
    more of them may leave a short measurement one for itself."""

    def __enter__(self):
        self.processors = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(self.processors)})
        self.process = [subprocess.Popen([sys.executable, "-c",
                                          "print(flush=True)\nwhile True: pass"],
                                         stdout=subprocess.PIPE) for _ in range(2)]
        for process in self.process:
            process.stdout.readline()  # it runs
        return self

    def __exit__(self, *_):
        os.sched_setaffinity(0, self.processors)
        for process in self.process:
            process.kill()
            process.communicate()


class Measure(harness.Case):
    """foretrain-exec measure."""

    def test_steps_add_up_to_the_iteration(self):
        for network in ("toy", "transformer:layers=1:hidden=16:heads=2:vocab=32:sequence=8"):
            trial = measure(network, 8)
            self.assertAlmostEqual(sum(s["time_s"] for s in trial["steps"]), trial["time_s"],
                                   delta=1e-9)
            self.assertEqual({s["op"] for s in trial["steps"]},
                             {"forward", "loss", "backward-data", "backward-filter", "optimizer"})
            self.assertGreater(trial["between_s"], 0)
            for step in trial["steps"]:
                self.assertGreater(step["time_s"], 0, step)
                self.assertEqual(step["amount"], 8 if step["op"] != "optimizer" else step["amount"])

    def test_iterations_end_when_the_time_is_over(self):
        for ranks in (0, 2):
            trial, = told("--networks", "resnet8", "--batch", 8, "--repeats", 900, "--limit", 1, ranks=ranks)["trials"]
            self.assertEqual(trial["iterations"], 4)
            self.assertAlmostEqual(sum(s["time_s"] for s in trial["steps"]) / trial["time_s"], 1,
                                   delta=1e-6 if not ranks else 1)
        self.assertEqual(measure("resnet8", 8, repeats=6)["iterations"], 6)

    def test_batches_that_would_end_too_late_are_left_out_but_the_first(self):
        words = ("--networks", "toy,resnet8", "--batch", "2,4,512", "--threads", 1, "--repeats", 4)
        for most, batches in ((1, [2, 2]), (10**6, [2, 2, 4, 4, 512, 512])):
            for ranks in (0, 2):
                trials = told(*words, "--most", most, ranks=ranks)["trials"]
                self.assertEqual([trial["batch"] for trial in trials], batches)

    def test_more_images_take_longer(self):
        self.assertLess(measure("resnet8", 2)["time_s"], measure("resnet8", 32)["time_s"])

    def test_who_takes_the_processor_adds_little(self):
        with Hog():
            held_up = measure("resnet8", 8, repeats=60)
        self.assertGreater(held_up["waited"], 0.2)
        self.assertGreater(held_up["wall_s"] / held_up["time_s"], 1.2)

    def test_copies_grow_with_their_bytes(self):
        for ranks in (0, 2):
            copies = told("--networks", "toy", "--batch", 1, "--threads", 1, "--repeats", 4, ranks=ranks)["copies"]
            self.assertEqual([copy["bytes"] for copy in copies], [2**14, 2**18, 2**22, 2**26])
            for less, more in zip(copies, copies[1:]):
                self.assertGreater(more["time_s"], less["time_s"])
            for copy in copies:
                self.assertGreater(copy["bytes"] / copy["time_s"], 0.5e9, copy)
                self.assertLess(copy["bytes"] / copy["time_s"], 500e9, copy)

    def test_what_cannot_be_measured_is_refused(self):
        for words, code in ((["--repeats", "3"], 64), (["--networks", "resnet9"], 64),
                            (["--networks", "toy:layers=2"], 64), (["--networks", "transformer:layers=2"], 65),
                            (["--batch", "x"], 64), (["--device", "replay"], 64),
                            (["--precision", "fp16"], 69)):
            self.assertEqual(self.execute(code, EXECUTOR, "measure", *words).stdout, "")


class Predict(unittest.TestCase):
    """From `calibrate device` to a prediction, against this machine."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.platform = cls.folder / "here.yaml"
        cls.platform.write_text(PLATFORM, encoding="utf-8")
        for _ in range(3):
            with this_machine.Others(EXECUTOR) as cls.others:
                cls.calibrated = harness.run("calibrate", "device", *CALIBRATED, "-o", cls.folder / "here-device.yaml")
            if not cls.others.reason():
                break

    def setUp(self):
        if self.calibrated.returncode in (69, 75):
            self.skipTest(self.calibrated.stderr.strip().splitlines()[-1])
        if self.others.reason():
            self.skipTest("calibrate device: " + self.others.reason())
        self.assertEqual(self.calibrated.returncode, 0, self.calibrated.stderr)

    def job(self, network, batch):
        """A file with that job."""
        return this_machine.write_job(self.folder / "job.yaml", network, batch, self.platform)

    def test_other_networks_and_batches_are_predicted(self):
        for network, batch in PREDICTED:
            result = harness.answer("predict", self.job(network, batch), "--backend=analytic")
            predicted = result["step_s"]
            self.assertTrue(any(a.startswith("100 % of the computing time is of steps measured")
                                for a in result["assumptions"]), result["assumptions"])
            for _ in range(3):
                with this_machine.Others(EXECUTOR) as meanwhile:
                    measured = quickest(network, batch)
                if measured is not None and not meanwhile.reason(self.others):
                    break
            if measured is None:
                self.skipTest(f"disturbed: no two of {TRIES} measurements of {network} agree")
            if meanwhile.reason(self.others):
                self.skipTest(f"{network}: {meanwhile.reason(self.others)}")
            slower = meanwhile.slower(self.others, 1)
            error = slower * predicted / measured - 1
            print(f"{network}, {batch} images: predicted {1e3 * predicted:.2f} ms, machine "
                  f"{slower:.2f} times slower since, measured {1e3 * measured:.2f} ms, "
                  f"{100 * error:+.1f} %")
            this_machine.judge(self, network, error)

    def test_half_the_speed_is_found_out(self):
        network, batch = PREDICTED[0]
        text = (self.folder / "here-device.yaml").read_text(encoding="utf-8")
        slow = "".join(double(line) if "time: " in line else line
                       for line in text.splitlines(keepends=True))
        (self.folder / "slow-device.yaml").write_text(slow, encoding="utf-8")
        platform = self.folder / "slow.yaml"
        platform.write_text(PLATFORM.replace("here-device", "slow-device"), encoding="utf-8")
        predicted = harness.answer("predict", self.job(network, batch), "--backend=analytic",
                                   f"--set=cluster.platform={platform}")["step_s"]
        measured = quickest(network, batch)
        if measured is None:
            self.skipTest("disturbed")
        self.assertGreater(abs(predicted / measured - 1), TOLERANCE)


def double(line):
    """A measured step that takes twice as long."""
    before, _, rest = line.partition("time: ")
    number, _, after = rest.partition(" us")
    return f"{before}time: {2 * float(number)} us{after}"


if __name__ == "__main__":
    this_machine.main(sys.argv[1:])
