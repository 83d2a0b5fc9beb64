"""Real training jobs on what `calibrate` measured of this machine, predicted and run.

A Calibration measures resnet20 at 4, 16 and 64 images, one rank and all at once, and messages
between ranks, which may be more than there are cores and then take turns.  Its jobs are other networks at other batches on procedural images, one thread a rank;
`validate` predicts and really trains them.  Of several launches the quickest counts, since what
disturbs can only lengthen; of a launch, the lower quartile of its steps.
"""
import json
import os
import statistics
import tempfile

import harness
import this_machine

STEPS = 30
TRIES = 3     # at what the program itself calls disturbed
LAUNCHES = 5
DISTURBED = 75


def name_of(network, batch, ranks):
    """What a record is called."""
    return f"job {network} {batch} images {ranks} ranks"


class Broken(Exception):
    """A program did not answer at all."""


class Calibration:
    """with Calibration() as calibration: ... calibration.job("resnet8", 24, 2)"""

    def __init__(self, *words):
        self.folder = tempfile.TemporaryDirectory()
        self.platform = os.path.join(self.folder.name, "here.yaml")
        for _ in range(2):
            with this_machine.Others(harness.EXECUTOR) as self.others:
                self.done = self.run("calibrate", "cluster", *this_machine.CALIBRATED, *words,
                                     "-o", self.platform, "--json")
            if not self.others.reason():
                break

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def run(self, *words):
        """The first run that nothing disturbed, or the last."""
        for _ in range(TRIES):
            done = harness.run(*words)
            if done.returncode != DISTURBED:
                break
        return done

    def reason(self):
        """Why nothing can be predicted from it, or ""."""
        if self.done.returncode in (69, DISTURBED):
            return self.done.stderr.strip().splitlines()[-1]
        if self.done.returncode:
            raise Broken(self.done.stderr)
        reason = self.others.reason()
        return reason and "calibrate cluster: " + reason

    def validate(self, network, batch, ranks):
        """The finished `validate` of a job."""
        path = this_machine.write_job(os.path.join(self.folder.name, f"{network}-{batch}.yaml"),
                                      network, batch, self.platform)
        return self.run("validate", path, "-n", ranks, "--steps", STEPS, "--json")

    def launch(self, network, batch, ranks):
        """A record of one launch."""
        with this_machine.Others(harness.EXECUTOR) as meanwhile:
            done = self.validate(network, batch, ranks)
        record = {"kind": "job", "name": name_of(network, batch, ranks),
                  "network": network, "batch": batch, "ranks": ranks,
                  "tolerance": this_machine.TOLERANCE, "foreign": meanwhile.share,
                  "reason": meanwhile.reason(self.others)}
        if done.returncode == DISTURBED:
            record["reason"] = record["reason"] or done.stderr.strip().splitlines()[-1]
        elif done.returncode not in (0, 1):
            raise Broken(done.stderr)
        if not record["reason"]:
            answer = json.loads(done.stdout)
            step = answer["rows"][0]
            slower = meanwhile.slower(self.others, ranks)
            record.update({
                "predicted_s": step["predicted_s"], "slower": slower,
                "measured_s": step["lower_quartile_s"], "median_s": step["measured_s"],
                "upper_s": statistics.quantiles(answer["step_times_s"], n=4,
                                                method="inclusive")[2],
                "runs": answer["measured_steps"],
                "error": slower * step["predicted_s"] / step["lower_quartile_s"] - 1})
            print("{name}: predicted {predicted_s:.5f} s, machine {slower:.2f} times slower than "
                  "calibrated, measured {measured_s:.5f} s, {error:+.4f}".format(**record))
        return record

    def job(self, network, batch, ranks):
        """The record of the quickest of a few launches; its verdict is disturbed when none of them
        can be judged."""
        best = None
        for count in range(1, LAUNCHES + 1):
            record = self.launch(network, batch, ranks)
            record["launches"] = count
            if best is None or "error" in record and record["error"] > best.get("error", -1):
                best = record
            if best.get("error", -1) > -best["tolerance"]:  # not longer than predicted
                break
        best["verdict"] = ("disturbed" if best["reason"] else
                           "pass" if abs(best["error"]) < best["tolerance"] else "fail")
        return best
