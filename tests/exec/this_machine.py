"""What tests that predict this machine have in common: the jobs, and what disturbs.

Calibrated is on one network, predicted are others, at another depth and another batch.  What runs
beside a virtual machine on the same cores slows it down by a sixth, and Linux in it sees nothing of
that: so a fixed piece of work is timed before and after, on one core and on all at once.  As much
slower as that became since the calibration, what is predicted is taken to become; where it became
much slower, or the processors were others', nothing is judged.  What comes and goes within a
measurement is still not seen.  It does not err to the same side each time, and a wrong prediction
does: so an error counts when it repeats itself, from the calibration on, in all rounds.
"""

import json
import os
import sys
import time
import unittest

from harness import execute, on_ranks, skip

CALIBRATED = ["--networks", "resnet20", "--batch", "4,16,64", "--strict", "--budget", "400"]
PREDICTED = [("resnet8", 24), ("resnet32", 8)]  # images
# What the prediction may be off by.  The project's criterion for a prediction of this machine.
TOLERANCE = 0.10
ROUNDS = 3
ROUNDS_S = 900  # no further round begins later: enough for all of them
SHARE_LIMIT = 0.10  # of the processors' time that others may have
SPEED_LIMIT = 0.20  # by which the fixed piece of work may take longer than at its quickest
JOB = """\
version: 1
model: {{network: {network}, image: 32, classes: 10}}
cluster: {{platform: {platform}, nodes: 1, devices_per_node: 1}}
training:
  dataset: {{source: procedural, train_images: 50000, validation_images: 100}}
  phases: [{{epochs: 1, batch_per_device: {batch}}}]
  learning_rate: {{base: 0.05}}
allreduce: {{algorithm: ring, overlap: backward}}
"""


def write_job(path, network, batch, platform):
    """A job file.  Returns its path."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(JOB.format(network=network, batch=batch, platform=platform))
    return path


def busy_s():
    """Seconds that all processors of this machine have worked, by Linux."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_s():
    """Seconds of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def reference_s(program):
    """Seconds of the fixed piece of work, iterations of a network by foretrain-exec: of one rank
    alone, and of as many at once as there are cores."""
    words = [program, "measure", "--networks", "resnet20", "--batch", "16", "--threads", "1",
             "--repeats", "12"]
    return [json.loads(execute(*on_ranks(ranks, *words)).stdout)["trials"][0]["time_s"] for ranks in (0, os.cpu_count())]


class Others:
    """with Others(FORETRAIN_EXEC) as others: ... others.reason()"""

    def __init__(self, program):
        self.program = program
        self.reference = []
        self.share = 0

    def __enter__(self):
        self.reference.append(reference_s(self.program))
        self.begin = time.monotonic(), busy_s(), own_s()
        return self

    def __exit__(self, *_):
        wall, busy, own = (now - then for now, then in
                           zip((time.monotonic(), busy_s(), own_s()), self.begin))
        self.share = max(busy - own, 0) / (wall * os.cpu_count())
        self.reference.append(reference_s(self.program))

    def reason(self, *before):
        """Why nothing can be said of what was measured now and @before, or ""."""
        share = max(other.share for other in (self, *before))
        references = [times for other in (self, *before) for times in other.reference]
        change = max(max(times) / min(times) - 1 for times in zip(*references))
        if share > SHARE_LIMIT:
            return f"disturbed: others had {100 * share:.0f} % of the processors"
        if change > SPEED_LIMIT:
            return f"disturbed: the processors' speed changed by {100 * change:.0f} %"
        return ""

    def slower(self, before, ranks):
        """How many times as long as @before the fixed piece of work took, on one core or on all."""
        which = int(ranks > 1)
        now, then = (sum(times[which] for times in other.reference) for other in (self, before))
        return now / then


WRONG = {}  # errors beyond the tolerance in the rounds so far, by what was predicted


def judge(test, name, error):
    """Fail @test when the prediction of @name is off by @error, to the side that it was off to in
    all earlier rounds."""
    if abs(error) < TOLERANCE:
        return
    before = WRONG.setdefault(name, [])
    text = f"{name}: off by {100 * error:+.1f} %"
    again = [other for other in before if (other > 0) == (error > 0)]
    before.append(error)
    if len(again) == ROUNDS - 1:
        test.fail(text + f", in {ROUNDS} rounds")
    test.skipTest(f"disturbed: {text}, which did not repeat itself in {ROUNDS} rounds")


def main(words):
    """Run the tests that @words name, of the program that calls, again where one was off.  Skipped
    ones make the whole one skipped."""
    begin = time.monotonic()
    for _ in range(ROUNDS):
        seen = sum(map(len, WRONG.values()))
        result = unittest.main(argv=[sys.argv[0], *words], verbosity=2, exit=False).result
        if not result.wasSuccessful():
            sys.exit(1)
        if sum(map(len, WRONG.values())) == seen or time.monotonic() - begin > ROUNDS_S:
            break
    reasons = {reason.splitlines()[0] for _, reason in result.skipped}
    if reasons:
        skip("; ".join(sorted(reasons)))
