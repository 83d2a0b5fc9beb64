"""What the tests of `foretrain train` share: a job in a directory of its own, and runs of it."""
import os
import pathlib

import harness
from harness import PROGRAM


def main():
    """Run the tests of the program that calls, where there are several ranks."""
    harness.need_mpi()
    harness.main()


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
