"""A sharded optimizer trains what a whole one trains."""

import json

import harness
import training

JOB = """version: 1
model:      {network: toy, image: 16, classes: 4}
cluster:    {platform: t1-torus, nodes: 4}
training:
  dataset: {source: procedural, train_images: 128, validation_images: 32}
  phases:
    - {epochs: 1, global_batch: 16}
    - {epochs: 1, global_batch: 32}
  micro_batch: 4
  learning_rate: {base: 0.05}
  evaluate_every: 1
  optimizer: {name: sgd}
parallel:   {sharding: 1}
allreduce:  {algorithm: ring, bucket: 10 KiB, overlap: backward}
"""
TORUS = ("--set", "allreduce.algorithm=torus2d", "--set", "allreduce.grid.columns=2",
         "--set", "allreduce.grid.rows=2")
WHOLE = ("--set", "parallel.sharding=null")
LARS = ("--set", "training.optimizer.name=lars", "--set", "training.learning_rate.base=1")


class Sharded(training.Run):
    JOB = JOB

    def test_sgd_has_the_bits_of_the_whole(self):
        ways = [("-n", "2"), ("-n", "4"), ("-n", "4", *TORUS), ("-n", "3", "--steps", "4"),
                ("-n", "2", "--set", "allreduce.overlap=none")]
        for i, way in enumerate(ways):
            if "3" in way:
                way += ("--set", "training.phases=[{epochs: 2, batch_per_device: 4}]")
            with self.subTest(way=way):
                self.same_bits(self.fit(f"shards{i}", *way), self.fit(f"whole{i}", *way, *WHOLE))

    def test_adamw_too_and_when_it_goes_on(self):
        """Without clipping, whose norm is a sum of another order, and with two moments in the checkpoint."""
        words = ("-n", "2", "--set", "training.optimizer.name=adamw", "--set", "training.learning_rate.base=0.01")
        whole = self.fit("whole", *words, *WHOLE)
        shards = self.fit("shards", *words, "--steps", "5")
        self.fit("shards", "--resume", shards, *words)
        self.same_bits(whole, shards)
        self.assertIn("fc.bias.square", self.tensors(whole, "optim"))
        harness.good("inspect", shards)

    def test_onednn_too(self):
        """In bf16, too: what is gathered rounded is what products round, and biases and norms are not."""
        weights = []
        for compute in ("fp32", "bf16"):
            words = ("-n", "2", "--steps", "5", "--set", f"model.precision.compute={compute}")
            dry = self.train("--dry-run", "--json", *words, device="cpu", code=(0, 69))
            if dry.returncode:
                self.skipTest("this CPU has no instructions for bf16")
            weights.append(json.loads(dry.stdout)["memory"]["weights_bytes"])
            with self.subTest(compute=compute):
                shards = self.fit(f"shards-{compute}", *words, device="cpu")
                self.same_bits(shards, self.fit(f"whole-{compute}", *words, *WHOLE, device="cpu"))
                again = self.fit(f"again-{compute}", *words[:3], "2", *words[4:], device="cpu")
                self.fit(f"again-{compute}", "--resume", again, *words[:3], "3", *words[4:], device="cpu")
                self.same_bits(shards, again)
        self.assertEqual(weights[1], weights[0] + 4 * -(-weights[0] // 4 // 2))  # the masters of a shard

    def test_lars_differs_by_its_norms_alone(self):
        """A factor is within 3 roundings of fp32 of itself, and a weight moves by less than its
        tensor's largest: after three steps they are within a millionth of it."""
        for i, way in enumerate([("-n", "4"), ("-n", "4", *TORUS)]):
            way += (*LARS, "--steps", "3")
            mine = self.tensors(self.fit(f"shards{i}", *way))
            whole = self.tensors(self.fit(f"whole{i}", *way, *WHOLE))
            self.assertEqual(mine.keys(), whole.keys())
            for name, (_, values) in whole.items():
                largest = max(map(abs, values))
                worst = max(abs(a - b) for a, b in zip(mine[name][1], values))
                self.assertLessEqual(worst, 1e-6 * largest, name)

    def test_a_run_goes_on_with_other_shards_or_none(self):
        straight = self.fit("straight", "-n", "2")
        for name, words in {"shards": (), "none": WHOLE}.items():
            with self.subTest(name=name):
                run = self.fit(name, "-n", "2", "--steps", "5")
                self.fit(name, "-n", "2", "--resume", run, *words)
                self.same_bits(run, straight)
        run = self.fit("more", "-n", "2", "--steps", "5")
        self.fit("more", "-n", "4", "--resume", run)
        self.assertEqual(len(self.losses(run)), 12)
        for a, b in zip(self.losses(run), self.losses(straight)):
            self.assertAlmostEqual(a, b, delta=1e-4)

    def test_a_rehearsal_sums_and_gathers(self):
        """Halves are exact: there are few ranks."""
        fp16 = ("--set", "model.precision.compute=fp16", "--set", "model.precision.gradients=fp16")
        for way in ((), TORUS, fp16):
            self.fit("rehearsal" + "".join(way[1:2]), "-n", "4", "--steps", "4", "--time-scale",
                     "0.001", *way, device="replay")

    def test_a_gpu_keeps_its_shard_of_masters_and_momentum(self):
        words = ("--dry-run", "--set", "model.precision.compute=fp16", "--json", "-n", "4")
        plan = [json.loads(self.train(*words, *whole, device="cuda").stdout)["memory"]
                for whole in ((), WHOLE)]
        parameters = plan[1]["momentum_bytes"] // 4
        shard = -(-parameters // 4)
        self.assertEqual(plan[0]["momentum_bytes"], 4 * shard)
        self.assertEqual(plan[0]["weights_bytes"], 4 * shard + 2 * parameters)
        self.assertEqual(plan[1]["weights_bytes"], 6 * parameters)

    def test_what_cannot_shard_says_so(self):
        said = self.train("--out", self.out, "--set", "allreduce.algorithm=tree", "-n", "2",
                          code=65).stderr
        self.assertIn("job.yaml:13:", said)
        self.assertIn("ring, torus2d or nccl, not tree", said)
        for device, words, why in (
                ("cuda", ("--set", "training.optimizer.name=lamb"), "optimizer lamb is for predictions and CPUs"),
                ("cpu", ("--set", "allreduce.algorithm=nccl"), "algorithm nccl is a model")):
            for dry in (("--dry-run",), ()):
                done = self.train("--out", self.out, *words, *dry, "-n", "2", device=device, code=69)
                self.assertIn(why, done.stderr)
