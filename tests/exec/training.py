"""What the tests of `foretrain train` share: a job in a folder of its own, and runs of it."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest


def argument():
    """The first argument, without which a test program cannot run, nor without Open MPI's launcher."""
    if not shutil.which("mpirun"):
        print("mpirun (package openmpi-bin) is not installed")
        sys.exit(77)
    return sys.argv.pop(1)


def main():
    """Run the tests of the program that is the first argument."""
    Run.PROGRAM = argument()
    unittest.main(verbosity=2)


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


class Run(unittest.TestCase):
    """A run of training, whose job is what the class says."""

    PROGRAM, JOB = "", ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "run"
        self.job = self.folder / "job.yaml"
        self.job.write_text(self.JOB, encoding="utf-8")

    def command(self, *words, device="cpu-naive"):
        """The words of a run."""
        return [self.PROGRAM, "train", self.job, "--device", device, "--quiet", *words]

    def train(self, *words, code=0, device="cpu-naive", **more):
        """A run that ends with this exit code, or one of these."""
        done = subprocess.run(self.command(*words, device=device), capture_output=True, encoding="utf-8",
                              timeout=1000, check=False, **more)
        self.assertIn(done.returncode, code if isinstance(code, tuple) else (code,), done.stderr)
        return done

    def begin(self, *command):
        """Start a command that does not outlive the test."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   encoding="utf-8")
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start(self, *words):
        """Start training, and wait for the first checkpoint."""
        process = self.begin(*self.command("--out", self.out, *words))
        self.wait_until(lambda: self.checkpoints() or process.poll() is not None)
        if not self.checkpoints():
            process.kill()
            self.fail("no checkpoint was written: " + process.communicate()[1])
        return process

    def wait_until(self, condition):
        """Whether it comes true before 1000 s are over."""
        for _ in range(20000):
            if condition():
                return True
            time.sleep(0.05)
        return False

    def checkpoints(self, run=None):
        """Their names, oldest first."""
        return sorted(path.name for path in (run or self.out).glob("ckpt-*"))

    def json(self, *names):
        """What a JSON file in the folder says."""
        return json.loads(self.folder.joinpath(*names).read_text(encoding="utf-8"))

    def check_whole(self, *words):
        """The newest checkpoint is whole, and training goes on from it."""
        done = subprocess.run([self.PROGRAM, "inspect", self.out], capture_output=True,
                              encoding="utf-8", check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.train("-n", "2", "--out", self.out, "--resume", self.out, "--steps", "1", *words)
