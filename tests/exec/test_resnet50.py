"""All of ResNet-50 on several ranks as on one: test_resnet50.py IMAGE RANKS...

IMAGE is its size in pixels.

A global batch of 8 in micro-batches of 2, so that batch norm sees the same images however many ranks
share them: what is left is rounding.
"""

import json
import sys

import harness

IMAGE = ""
JOB = """version: 1
model:      {network: resnet50, image: IMAGE, classes: 10}
cluster:    {platform: two-core, nodes: 2}
training:
  dataset: {source: procedural, train_images: 24, validation_images: 8}
  phases: [{epochs: 1, global_batch: 8}]
  micro_batch: 2
  warmup_epochs: 0
  learning_rate: {base: 0.01}
  evaluate_every: 0
allreduce:  {algorithm: torus2d, bucket: 8 MiB, overlap: backward}
"""
RANKS = []  # 2 on a grid of 2 x 1, 4 on one of 2 x 2


class ResNet50(harness.Case):
    def answer(self, ranks):
        """What three steps come to, one thread a rank."""
        job = self.write("job.yaml", JOB.replace("IMAGE", IMAGE))
        done = self.execute((0, 69), harness.PROGRAM, "train", job, "-n", ranks, "--threads", 1, "--steps", 3, "--json",
                         timeout=9 * harness.HANGS)
        if done.returncode:
            self.skipTest("the fast device is not part of this build")
        return json.loads(done.stdout)

    def test_ranks_on_a_torus_have_the_losses_of_one(self):
        one, *others = (self.answer(ranks) for ranks in [1, *RANKS])
        losses = [step["loss"] for step in one["step"]]
        self.assertEqual(len(losses), 3)
        self.assertNotAlmostEqual(losses[0], losses[2], delta=1e-3)  # it does train
        for ranks, other in zip(RANKS, others):
            self.assertEqual(other["ranks"], ranks)
            for mine, alone in zip(other["step"], losses):
                self.assertAlmostEqual(mine["loss"], alone, delta=1e-3 * alone, msg=f"{ranks} ranks")


if __name__ == "__main__":
    IMAGE, RANKS = sys.argv[1], list(map(int, sys.argv[2:]))
    harness.main(argv=sys.argv[:1])
