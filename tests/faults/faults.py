"""What the tests of faults share: commands with their answers, what a fault may leave, the record.

A line of the record is JSON after "record: ": what was tested, how many cases, the seed, and what
failed; tools/reliability.py makes docs/reliability.md of them.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import harness
from harness import EXECUTOR, HANGS, PROGRAM, ROOT, TOY

sys.path.insert(0, str(ROOT / "tests" / "app"))

import support
from test_data import grey_jpeg

ALL = os.environ.get("FORETRAIN_TEST_FAULTS") == "all"
SEED = int(os.environ.get("FORETRAIN_TEST_SEED", "1"))
LIBRARY = os.environ.get("FAIL_LIBRARY", "")

JOB = """version: 1
model:      {network: toy, image: 16, classes: 4}
cluster:    {platform: t1-torus, nodes: 2}
training:
  dataset: {source: procedural, train_images: 64, validation_images: 16}
  phases: [{epochs: 2, global_batch: 16}]
  micro_batch: 8
  learning_rate: {base: 0.05}
  checkpoint: {every: 0.5 epochs, keep: 2}
allreduce:  {algorithm: ring, bucket: 16 KiB, overlap: backward}
"""
MESH_JOB = """version: 1
model:      {network: transformer, layers: 2, hidden: 16, heads: 2, vocab: 64, sequence: 16, tied: true}
cluster:    {platform: t1-torus, nodes: 1}
parallel:   {pipeline: 2, tensor: 2, sharding: 1}
training:
  dataset: {source: procedural, train_images: 64, augment: false}
  phases: [{epochs: 25, global_batch: 16}]
  micro_batch: 2
  optimizer: {name: adamw, weight_decay: 0.1, clip: 1}
  learning_rate: {base: 1e-3}
  checkpoint: {every: 5 epochs, keep: 2}
allreduce:  {algorithm: ring, bucket: 4 KiB, overlap: backward}
"""
HAS_EXECUTOR = os.path.exists(EXECUTOR)
HAS_MPI = HAS_EXECUTOR and "mpirun" in harness.run("train", TOY, "--dry-run", "--device", "cpu-naive").stdout


def record(test, what, cases, failures, seed=None, **more):
    """Print a line of the record."""
    print("record: " + json.dumps({"test": test, "what": what, "cases": cases, "seed": seed,
                                   "failures": failures, **more}), flush=True)


def choose(total, some):
    """All numbers from 1 to @total, or @some of them, evenly."""
    if ALL or total <= some or some < 2:
        return range(1, (total if ALL else min(total, some)) + 1)
    return sorted({1 + i * (total - 1) // (some - 1) for i in range(some)})


def is_temporary(path):
    """Whether it is a file on its way to the name it has without the 16 digits."""
    return re.fullmatch(r"\.[0-9a-f]{16}", path.suffix) or path.name.startswith(".tmp-")


def files_below(directory):
    """Every file below a directory with its bytes."""
    return {str(path.relative_to(directory)): path.read_bytes()
            for path in sorted(directory.rglob("*")) if path.is_file() and not is_temporary(path)}


def processes_of(directory):
    """Those whose environment names a directory, without zombies."""
    found = []
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (str(directory).encode() in (place / "environ").read_bytes()
                    and int(place.name) != os.getpid()):
                found.append(int(place.name))
    return found


class Place:
    """A directory with the input of commands, and the environment in which they run there: `out` is
    where they are, `tmp` where they may keep what they remove, Open MPI's shared memory as well."""

    def __init__(self, directory):
        self.root = pathlib.Path(directory)
        self.out, self.tmp = self.root / "out", self.root / "tmp"
        self.clear()
        self.job = self.write("job.yaml", support.JOB)
        self.training, self.ranks = self.write("training.yaml", JOB), 2
        for name, side in ("cat/1.jpg", 16), ("cat/2.jpg", 8), ("dog/1.jpg", 16):
            path = self.root / "images" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(grey_jpeg(side))

    def write(self, name, text):
        """A file of input."""
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def clear(self):
        """Nothing was written yet."""
        for path in self.out, self.tmp:
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()

    def environment(self, more):
        """Of a command."""
        return {**os.environ, "TMPDIR": str(self.tmp), "FORETRAIN_DATADIR": str(ROOT),
                "OMPI_MCA_btl_vader_backing_directory": str(self.tmp), **more}

    def start(self, words, **more):
        """Begin a command."""
        return subprocess.Popen([PROGRAM, *map(str, words)], cwd=self.out, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL, env=self.environment(more))

    def run(self, words, **more):
        """A command that must end: (exit code, what it printed, what it said)."""
        process = self.start(words, **more)
        try:
            answer, talk = process.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            for pid in processes_of(self.root):
                os.kill(pid, signal.SIGKILL)
            return "hangs", *process.communicate()
        return process.returncode, answer, talk

    def train(self, *words, **more):
        """A run in `out/run`."""
        return self.run(self.words(*words), **more)

    def words(self, *more):
        """Of the command for it."""
        return ["train", "-n", self.ranks, "--device", "cpu-naive", "--quiet", self.training,
                "--out", self.out / "run", *more]

    def go_on(self):
        """Go on with it, or begin again where it has no checkpoint yet."""
        run = self.out / "run"
        begun = list(run.glob("ckpt-*")) if run.exists() else []
        return self.train(*(["--resume", run] if begun else ["--overwrite"]))

    def checkpoint(self):
        """The last one's arrays."""
        last = max((self.out / "run").glob("ckpt-*"), default=self.out)
        return {path.name: path.read_bytes() for path in last.glob("*.safetensors")}

    def leftovers(self):
        """Processes and temporary files, after a moment in which they may end."""
        for _ in range(100):
            left = processes_of(self.root)
            if not left:
                break
            time.sleep(0.1)
        return ([f"process {pid}" for pid in left]
                + [str(path) for path in self.tmp.rglob("*") if not path.is_dir()]
                + [str(path) for path in self.out.rglob("*") if is_temporary(path)])


class Case(harness.Case):
    """A test with such a place."""

    def setUp(self):
        super().setUp()
        self.place = Place(self.directory)
        self.failures = []

    def answers(self, words, **more):
        """A command that must answer where it was built: what it printed and said."""
        self.place.clear()
        code, answer, talk = self.place.run(words, **more)
        if code == 69:
            self.skipTest(talk.strip())
        self.assertEqual(code, 0, talk)
        return answer, talk

    def expect(self, good, *what):
        """Note what is wrong."""
        if not good:
            self.failures.append(" ".join(map(str, what)))

    def finish(self, what, cases, seed=None):
        """Record this test; it fails if anything was wrong."""
        record(pathlib.Path(sys.argv[0]).stem.removeprefix("test_"), what, cases, len(self.failures), seed)
        self.assertGreater(cases, 0, what)
        if self.failures:
            raise AssertionError(f"{len(self.failures)} of {cases}: " + "\n".join(self.failures))
