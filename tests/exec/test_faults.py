"""What goes wrong while training is told, and nothing is lost."""

import os
import signal

import training
from training import ranks_of

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


class Faults(training.Run):
    JOB = JOB

    def test_a_killed_rank_ends_the_job_and_the_checkpoint_is_intact(self):
        process = self.start("-n", "2")
        os.kill(ranks_of(self.out)[-1], signal.SIGKILL)
        talk = process.communicate(timeout=1000)[1]
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("--resume", talk)
        self.assertEqual(ranks_of(self.out), [])
        self.check_whole()

    def test_resuming_gives_the_same_bits(self):
        whole, half = self.directory / "whole", self.out
        two = ["-n", "2", "--set", "training.phases=[{epochs: 1, global_batch: 16}, "
               "{epochs: 400, global_batch: 32}]"]  # the second begins after step 16
        self.train(*two, "--out", whole, "--steps", "25")
        self.train(*two, "--out", half, "--steps", "11")
        self.train(*two, "--out", half, "--resume", half, "--steps", "14")
        self.assertEqual(self.checkpoints()[-1], "ckpt-000025")
        for name in ("model.safetensors", "optim.safetensors", "ranks.safetensors"):
            self.assertEqual((half / "ckpt-000025" / name).read_bytes(),
                             (whole / "ckpt-000025" / name).read_bytes(), name)
        states = [self.json(run.name, "ckpt-000025", "state.json") for run in (whole, half)]
        self.assertEqual([len(state.pop("run")) for state in states], [16, 16])
        self.assertEqual(*states)

    def test_other_ranks_may_go_on(self):
        self.train("-n", "2", "--out", self.out, "--steps", "20")
        for ranks in ("1", "4"):
            self.train("-n", ranks, "--resume", self.out, "--steps", "2")

    def test_a_file_of_a_checkpoint_is_none(self):
        self.train("-n", "1", "--out", self.out, "--steps", "20")
        path = self.out / self.checkpoints()[-1]
        model = path / "model.safetensors"
        done = self.train("-n", "1", "--resume", model, "--steps", "1", code=66)
        self.assertIn(f"{model}: a checkpoint is a folder, and this is a file: give {path}\n", done.stderr)

    def diverge(self, ranks, steps):
        done = self.train("-n", ranks, "--set", "training.learning_rate.base=1e6", "--set",
                          "training.warmup_epochs=0", "--set",
                          "training.optimizer.weight_decay=1", "--set",
                          "training.checkpoint.every=0", "--steps", steps, "--out", self.out,
                          code=70)
        self.assertEqual(done.stderr.count("diverged"), 1)
        self.assertEqual(self.checkpoints(), [])
        return done.stderr

    def test_diverged_training_ends_at_once(self):
        self.assertIn("the gradients were infinite or NaN", self.diverge("2", "75"))
        lines = (self.out / "steps.csv").read_text(encoding="utf-8").splitlines()
        self.assertLess(len(lines), 20)  # what was in flight is finished

    def test_weights_that_are_no_numbers_are_not_kept(self):
        """The third update makes them infinite, the gradients of the fifth step would show it."""
        self.assertIn("weights, momentum or statistics", self.diverge("1", "3"))

    def test_steps_that_were_all_skipped_are_no_success(self):
        """A dynamic loss scale that begins far too high; what was trained before is not lost."""
        high = ["--set", "model.precision={gradients: fp16}", "--set",
                "training.loss_scale={initial: 1e12, dynamic: true}"]
        done = self.train("-n", "2", *high, "--steps", "5", "--out", self.out, code=70)
        self.assertEqual(done.stderr.count("the last 5 steps were skipped"), 1, done.stderr)
        self.assertEqual(self.checkpoints(), ["ckpt-000005"])
        self.check_whole(*high)

    def test_missing_images_are_named(self):
        done = self.train("-n", "2", "--set", "training.dataset.source=imagefolder", "--set",
                          f"training.dataset.path={self.directory}/none", code=66)
        self.assertIn(f"{self.directory}/none", done.stderr)
