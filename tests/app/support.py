"""What the command-line tests share: the program, a small job, and how to run one on the other."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("FORETRAIN", str(ROOT / "build" / "foretrain"))

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


# Where files may not grow: a build that measures coverage would damage its counters.
NO_COUNTERS = {"GCOV_PREFIX": "/dev/null", "GCOV_ERROR_FILE": "/dev/null"}


def run(*words, **environment):
    """Run foretrain; the result has returncode, stdout and stderr."""
    env = {**os.environ, **environment}
    return subprocess.run([PROGRAM, *map(str, words)], env=env, capture_output=True, text=True,
                          timeout=1000, check=False)


def good(*words, **environment):
    """The same for a command that must succeed."""
    done = run(*words, **environment)
    assert done.returncode == 0, done.stderr
    return done


def answer(*words, **environment):
    """The JSON object of such a command."""
    return json.loads(good(*words, "--json", **environment).stdout)


def has_simulator():
    """Whether this build has foretrain-sim."""
    return answer("env")["foretrain-sim"]["found"] is not None


def likely(record, key):
    """Both ends of the 90 % interval of @key in an answer; [] where there is none."""
    ends = [record[f"{key}_low"], record[f"{key}_high"]]
    return [] if None in ends else ends


def has_gsl():
    """Whether this build has GSL, which intervals need."""
    return run("calibrate", "device", "--from", "none.csv").returncode != 69


def program_beside():
    """The path of foretrain-sim in this build."""
    return pathlib.Path(PROGRAM).parent / "foretrain-sim"


class Case(unittest.TestCase):
    """A test with a directory of its own and the small job in it."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.job = self.write("job.yaml", JOB)

    def write(self, name, text, mode=0o644):
        """A file in the test's directory."""
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    def conforms(self, found, kind):
        """That an answer follows the schema @kind, whose properties are returned."""
        described = json.loads(run("schema", kind).stdout)
        if not jsonschema:
            self.skipTest("python3-jsonschema is not installed")
        jsonschema.Draft202012Validator.check_schema(described)
        jsonschema.validate(found, described)
        return described["properties"]

    def refused(self, code, *words, **environment):
        """The messages of a command that must fail with @code and print no result."""
        done = run(*words, **environment)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr
