"""What the command-line tests share beside the harness: a small job, answers and their schemas."""
import os

import harness
from harness import EXECUTOR, NO_COUNTERS, PROGRAM, ROOT, SANITIZED, SIMULATOR, answer, good, part, run, skip  # noqa: F401  tests name them here

JOB = """\
version: 1
model:      {network: resnet50, image: 224, precision: {compute: fp16, gradients: fp16}}
cluster:    {platform: abci, nodes: 4, devices_per_node: 4}
training:
  dataset: imagenet
  phases:
    - {epochs: 30, batch_per_device: 16}
    - {epochs: 60, batch_per_device: 32}
  optimizer: {name: lars, momentum: 0.9, weight_decay: 5e-5}
  evaluate_every: 1 epochs
allreduce:  {algorithm: torus2d, grid: {columns: 4, rows: 4}, bucket: 4 MiB, overlap: backward}
baseline:   {nodes: 1}
"""

# Waits for its input alone: a step takes batch / (workers * rate).
STARVED = """\
version: 1
model: {network: resnet50, image: 224, precision: {compute: fp16, gradients: fp16}}
cluster: {platform: dgx-h100, nodes: 1, software: mlperf-v4.0}
training: {dataset: imagenet, phases: [{epochs: 1, batch_per_device: 32}]}
input: {workers: 4, rate: %s}
noise: {compute_cv: 0}
"""


def has_executor():
    """Whether this build has foretrain-exec."""
    return os.path.exists(EXECUTOR)


def has_simulator():
    """Whether this build has foretrain-sim."""
    return part("foretrain-sim") is not None


def likely(record, key):
    """Both ends of the 90 % interval of @key in an answer; [] where there is none."""
    ends = [record[f"{key}_low"], record[f"{key}_high"]]
    return [] if None in ends else ends


def has_gsl():
    """Whether this build has GSL, which intervals need."""
    return part("fits") is not None


class Case(harness.Case):
    """A test with a directory of its own and the small job in it."""

    def setUp(self):
        super().setUp()
        self.job = self.write("job.yaml", JOB)

    def losses(self, job, steps):
        """The lines about losses of a run of @job on one rank."""
        if not has_executor():
            self.skipTest("this build has no foretrain-exec")
        done = self.execute(0, EXECUTOR, "train", job, "--device=cpu-naive", f"--steps={steps}")
        return [line for line in done.stdout.splitlines() if line.startswith("loss")]

    def workload(self, *words):
        """What a foretrain-sim reads for such a command; with several at once, the last that read all."""
        program = self.write("foretrain-sim", "#!/bin/sh\n"
                             f"cd {self.directory}; cat >workload.$$ && mv workload.$$ workload.json; exit 3\n", mode=0o755)
        run(*words, FORETRAIN_LIBEXEC=str(self.directory))
        program.unlink()
        return (self.directory / "workload.json").read_text(encoding="utf-8")
