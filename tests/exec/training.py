"""What the tests of `foretrain train` share: a job in a directory of its own, and runs of it."""
import csv
import json
import os
import pathlib
import struct

import harness
from harness import PROGRAM

harness.need_mpi()


def ranks_of(directory):
    """The processes that train into `directory`, or a job of that name."""
    found = []
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().decode().split("\0")
        except (OSError, ValueError):
            continue
        if os.path.basename(words[0]) == "foretrain-exec" and {f"--out={directory}", str(directory)} & set(words):
            found.append(int(place.name))
    return sorted(found)


def read_tensors(path):
    """The fp32 tensors of a file of safetensors: {name: (shape, numbers)}."""
    content = path.read_bytes()
    length, = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + length])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            found[name] = (entry["shape"], struct.unpack(f"<{(end - begin) // 4}f",
                                                         content[8 + length + begin:8 + length + end]))
    return found


class Run(harness.Case):
    """A run of training, whose job is what the class says."""

    JOB = ""

    def setUp(self):
        super().setUp()
        self.out = self.directory / "run"
        self.job = self.write("job.yaml", self.JOB)

    def command(self, *words, device="cpu-naive"):
        """The words of a run."""
        return [PROGRAM, "train", self.job, "--device", device, "--quiet", *words]

    def train(self, *words, code=0, device="cpu-naive", **more):
        """A run that ends with this exit code, or one of these."""
        return self.execute(code, *self.command(*words, device=device), **more)

    def fit(self, name, *words, **more):
        """Train; the directory of the run."""
        self.train("--out", self.directory / name, *words, **more)
        return self.directory / name

    def losses(self, run):
        """Of all steps."""
        with open(run / "steps.csv", encoding="utf-8") as file:
            return [float(row["loss"]) for row in csv.DictReader(file)]

    def tensors(self, run, file="model"):
        """Of the newest checkpoint."""
        return read_tensors(run / self.checkpoints(run)[-1] / f"{file}.safetensors")

    def same_bits(self, a, b):
        """Weights and moments of the newest checkpoints, and all losses."""
        for name in ("model.safetensors", "optim.safetensors"):
            self.assertEqual(*((run / self.checkpoints(run)[-1] / name).read_bytes() for run in (a, b)), name)
        self.assertEqual(self.losses(a), self.losses(b))

    def start(self, *words):
        """Start training, and wait for the first checkpoint."""
        process = self.begin(*self.command("--out", self.out, *words))
        harness.wait_until(lambda: self.checkpoints() or process.poll() is not None)
        if not self.checkpoints():
            process.kill()
            self.fail("no checkpoint was written: " + process.communicate()[1])
        return process

    def checkpoints(self, run=None):
        """Their names, oldest first."""
        return sorted(path.name for path in (run or self.out).glob("ckpt-*"))

    def check_whole(self, *words):
        """The newest checkpoint is whole, and training goes on from it."""
        harness.good("inspect", self.out)
        self.train("-n", "2", "--out", self.out, "--resume", self.out, "--steps", "1", *words)
