#!/usr/bin/python3
"""What goes wrong while training is told, and nothing is lost: test_faults.py FORETRAIN."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

FORETRAIN = ""
JOB = """version: 1
model:      {network: toy, image: 16, classes: 4}
cluster:    {platform: t1-torus, nodes: 2}
training:
  dataset: {source: procedural, train_images: 256, validation_images: 64}
  phases:
    - {epochs: 4, global_batch: 16}
    - {epochs: 1000000, global_batch: 32}
  micro_batch: 8
  warmup_epochs: 1
  learning_rate: {base: 0.05, decay: cosine}
  evaluate_every: 1
  checkpoint: {every: 1 epochs, keep: 2}
allreduce:  {algorithm: torus2d, bucket: 16 KiB, overlap: backward}
"""


def ranks_of(directory):
    """The processes that train into `directory`."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().decode().split("\0")
        except (OSError, ValueError):
            continue
        if os.path.basename(words[0]) == "foretrain-exec" and directory in words:
            found.append(int(name))
    return sorted(found)


class Run(unittest.TestCase):
    """A run of training."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.job = os.path.join(self.folder, "job.yaml")
        self.run_directory = os.path.join(self.folder, "run")
        with open(self.job, "w", encoding="utf-8") as file:
            file.write(JOB)

    def command(self, *arguments):
        return [FORETRAIN, "train", self.job, "--device", "cpu-naive", "--quiet", *arguments]

    def train(self, *arguments, **more):
        return subprocess.run(self.command(*arguments), capture_output=True, encoding="utf-8",
                              timeout=1000, check=False, **more)

    def start(self, *arguments):
        """Start training, and wait for the first checkpoint."""
        process = self.begin(*self.command("--out", self.run_directory, *arguments))
        self.wait_until(lambda: self.checkpoints() or process.poll() is not None)
        if not self.checkpoints():
            process.kill()
            self.fail("no checkpoint was written: " + process.communicate()[1])
        return process

    def begin(self, *command):
        """Start a command that does not outlive the test."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   encoding="utf-8")
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_until(self, condition):
        """Whether it comes true before 1000 s are over."""
        for _ in range(20000):
            if condition():
                return True
            time.sleep(0.05)
        return False

    def checkpoints(self):
        if not os.path.isdir(self.run_directory):
            return []
        return sorted(name for name in os.listdir(self.run_directory) if name.startswith("ckpt-"))

    def file(self, checkpoint, name):
        with open(os.path.join(self.run_directory, checkpoint, name), "rb") as file:
            return file.read()

    def check_whole(self, *words):
        """The newest checkpoint is whole, and training goes on from it."""
        done = subprocess.run([FORETRAIN, "inspect", self.run_directory], capture_output=True,
                              encoding="utf-8", check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.train("-n", "2", "--out", self.run_directory, "--resume", self.run_directory,
                          "--steps", "1", *words)
        self.assertEqual(done.returncode, 0, done.stderr)


class Faults(Run):
    def test_a_signal_leaves_a_checkpoint(self):
        for number in (signal.SIGTERM, signal.SIGUSR1):
            shutil.rmtree(self.run_directory, ignore_errors=True)
            process = self.start("-n", "2")
            process.send_signal(number)
            talk = process.communicate(timeout=1000)[1]
            self.assertEqual(process.returncode, 75, talk)
            self.assertIn("stopped by a signal after step", talk)
            self.assertIn(self.checkpoints()[-1], talk)
            self.check_whole()

    def test_a_killed_rank_ends_the_job_and_the_checkpoint_is_intact(self):
        process = self.start("-n", "2")
        os.kill(ranks_of(self.run_directory)[-1], signal.SIGKILL)
        talk = process.communicate(timeout=1000)[1]
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("--resume", talk)
        self.assertEqual(ranks_of(self.run_directory), [])
        self.check_whole()

    def test_a_stuck_rank_is_named(self):
        process = self.start("-n", "2", "--timeout", "4")
        stuck = ranks_of(self.run_directory)[-1]
        os.kill(stuck, signal.SIGSTOP)
        talk = process.communicate(timeout=1000)[1]
        self.assertEqual(process.returncode, 71, talk)
        self.assertIn(f"{stuck}", talk)
        self.assertIn("last checkpoint", talk)
        self.assertTrue(self.wait_until(lambda: not ranks_of(self.run_directory)))
        self.check_whole()

    def test_resuming_gives_the_same_bits(self):
        whole, half = os.path.join(self.folder, "whole"), self.run_directory
        two = ["-n", "2", "--set", "training.phases=[{epochs: 1, global_batch: 16}, "
               "{epochs: 400, global_batch: 32}]"]  # the second begins after step 16
        self.assertEqual(self.train(*two, "--out", whole, "--steps", "25").returncode, 0)
        self.assertEqual(self.train(*two, "--out", half, "--steps", "11").returncode, 0)
        self.assertEqual(self.train(*two, "--out", half, "--resume", half, "--steps",
                                    "14").returncode, 0)
        self.assertEqual(self.checkpoints()[-1], "ckpt-000025")
        for name in ("model.safetensors", "optim.safetensors", "ranks.safetensors"):
            with open(os.path.join(whole, "ckpt-000025", name), "rb") as file:
                self.assertEqual(self.file("ckpt-000025", name), file.read(), name)
        states = []
        for directory in (whole, half):
            with open(os.path.join(directory, "ckpt-000025", "state.json"), encoding="utf-8") as file:
                states.append(json.load(file))
            self.assertEqual(len(states[-1].pop("run")), 16)
        self.assertEqual(*states)

    def test_other_ranks_may_go_on(self):
        self.assertEqual(self.train("-n", "2", "--out", self.run_directory, "--steps",
                                    "20").returncode, 0)
        for ranks in ("1", "4"):
            done = self.train("-n", ranks, "--resume", self.run_directory, "--steps", "2")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_full_disk_keeps_the_last_checkpoint(self):
        large = ["-n", "1", "--set", "model={network: resnet18, image: 32, classes: 4}", "--set",
                 "training.evaluate_every=0", "--set", "training.micro_batch=2", "--set",
                 "training.phases=[{epochs: 9, global_batch: 2}]", "--steps", "1", "--out",
                 self.run_directory]
        self.assertEqual(self.train(*large).returncode, 0)
        before = self.checkpoints()

        def small_files():
            limit = 32 << 20  # of 45 MB; MPI needs some for itself
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

        done = self.train(*large, "--resume", self.run_directory, preexec_fn=small_files)
        self.assertIn(done.returncode, (73, 74), done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertEqual(self.checkpoints(), before)
        self.assertEqual(self.train(*large, "--resume", self.run_directory).returncode, 0)

    def test_a_damaged_checkpoint_is_refused_by_name(self):
        self.assertEqual(self.train("-n", "1", "--out", self.run_directory, "--steps",
                                    "20").returncode, 0)
        path = os.path.join(self.run_directory, self.checkpoints()[-1])
        model = os.path.join(path, "model.safetensors")
        with open(model, "rb") as file:
            content = bytearray(file.read())
        done = self.train("-n", "1", "--resume", model, "--steps", "1")
        self.assertEqual(done.returncode, 66, done.stderr)
        self.assertIn(f"{model}: a checkpoint is a folder, and this is a file: give {path}\n", done.stderr)
        for damaged in (content[:-100], content[:5000] + b"x" + content[5001:]):
            with open(model, "wb") as file:
                file.write(damaged)
            done = self.train("-n", "1", "--resume", path, "--steps", "1")
            self.assertEqual(done.returncode, 65, done.stderr)
            self.assertIn("model.safetensors", done.stderr)

    def diverge(self, ranks, steps):
        done = self.train("-n", ranks, "--set", "training.learning_rate.base=1e6", "--set",
                          "training.warmup_epochs=0", "--set",
                          "training.optimizer.weight_decay=1", "--set",
                          "training.checkpoint.every=0", "--steps", steps, "--out",
                          self.run_directory)
        self.assertEqual(done.returncode, 70, done.stderr)
        self.assertEqual(done.stderr.count("diverged"), 1)
        self.assertEqual(self.checkpoints(), [])
        return done.stderr

    def test_diverged_training_ends_at_once(self):
        self.assertIn("the gradients were infinite or NaN", self.diverge("2", "75"))
        with open(os.path.join(self.run_directory, "steps.csv"), encoding="utf-8") as file:
            self.assertLess(len(file.readlines()), 20)  # what was in flight is finished

    def test_weights_that_are_no_numbers_are_not_kept(self):
        """The third update makes them infinite, the gradients of the fifth step would show it."""
        self.assertIn("weights, momentum or statistics", self.diverge("1", "3"))

    def test_steps_that_were_all_skipped_are_no_success(self):
        """A dynamic loss scale that begins far too high; what was trained before is not lost."""
        high = ["--set", "model.precision={gradients: fp16}", "--set",
                "training.loss_scale={initial: 1e12, dynamic: true}"]
        done = self.train("-n", "2", *high, "--steps", "5", "--out", self.run_directory)
        self.assertEqual(done.returncode, 70, done.stderr)
        self.assertEqual(done.stderr.count("the last 5 steps were skipped"), 1, done.stderr)
        self.assertEqual(self.checkpoints(), ["ckpt-000005"])
        self.check_whole(*high)

    def test_three_ranks_do_not_fill_a_grid_of_four(self):
        done = self.train("-n", "3", "--set", "allreduce.grid={columns: 2, rows: 2}", "--set",
                          "cluster.nodes=4")
        self.assertEqual(done.returncode, 64)
        self.assertIn("needs 4 ranks, not 3", done.stderr)

    def test_missing_images_are_named(self):
        done = self.train("-n", "2", "--set", "training.dataset.source=imagefolder", "--set",
                          "training.dataset.path=" + self.folder + "/none")
        self.assertEqual(done.returncode, 66, done.stderr)
        self.assertIn(self.folder + "/none", done.stderr)


if __name__ == "__main__":
    FORETRAIN = sys.argv.pop(1)
    if not shutil.which("mpirun"):
        print("mpirun (package openmpi-bin) is not installed")
        sys.exit(77)
    unittest.main(verbosity=2)
