"""Ranks on CPUs that keep a part of the gradients, and of the weights, train as one rank does.

Usage: test_mesh_sharded.py
"""
import json
import os
import statistics
import time

import harness
import training
from test_gpt import BF16, LAMB
from test_mesh import BASE, BF16_NEAR, DEVICE, Mesh

TORUS = "--set=allreduce={algorithm: torus2d, bucket: 20 KiB, grid: {columns: 2, rows: 2}}"

PICTURES = ("--set=model={network: toy, image: 16, classes: 4}", "--set=training.micro_batch=2", "--steps=3",
            "--set=training.dataset={source: procedural, train_images: 32, validation_images: 16}", "--set=training.evaluate_every=2")


def resident_of(process):
    """What it has in memory, without files [bytes]."""
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as file:
            _, all_pages, shared = map(int, file.read().split()[:3])
    except OSError:
        return 0
    return (all_pages - shared) * os.sysconf("SC_PAGE_SIZE")


class Sharded(Mesh):
    """Ranks that keep a part of the gradients, and of the weights."""

    def test_a_pass_has_the_bits_of_a_divided_optimizer(self):
        """Shards of equal buckets are equal, and sums have one order, also those of norms."""
        for i, (ranks, keys, more) in enumerate((
                (2, {}, ()), (4, {}, ("--set=model.tied=false",)), (4, {}, (TORUS,)), (4, {"tensor": 2}, ()))):
            more += ("--steps=3", "--set=training.micro_batch=8")
            with self.subTest(ranks=ranks, more=more, **keys):
                runs = [self.fit_on(f"{i}-{stage}", ranks, *more, sharding=stage, **keys) for stage in (1, 2, 3)]
                self.same_bits(runs[0], runs[1])
                self.same_bits(runs[0], runs[2])

    def test_passes_add_up(self):
        """As on one rank, over all steps; what is summed first differs from a divided optimizer, but not from 2 to 3."""
        one = self.fit_on("one", 1)
        for ranks, more in ((2, ()), (4, ("--set=training.micro_batch=1",)), (4, ("--set=training.micro_batch=1", TORUS)), (8, ())):
            with self.subTest(ranks=ranks, more=more):
                name = f"{ranks}-{len(more)}"
                runs = [self.fit_on(f"{name}-{stage}", ranks, *more, sharding=stage) for stage in (2, 3)]
                self.near(one, runs[0])
                self.same_bits(*runs)
                self.same_bits(runs[1], self.fit_on(f"{name}-again", ranks, *more, sharding=3))

    def test_lamb(self):
        """Norms are of whole tensors, whose parts lie in shards, beside parts of layers, stages and rows that repeat."""
        for clip, meshes in (
                ("null", ((2, 1, {}, ()), (4, 2, {}, ()), (8, 3, {}, ()), (4, 1, {}, (TORUS,)))),
                ("1", ((2, 3, {}, ()), (4, 3, {"tensor": 2}, ()), (4, 1, {"pipeline": 2}, ()), (8, 1, {"tensor": 2, "pipeline": 2}, ())))):
            more = (LAMB, f"--set=training.optimizer.clip={clip}")
            one = self.fit_on(f"one-{clip}", 1, *more)
            for ranks, stage, keys, torus in meshes:
                with self.subTest(clip=clip, ranks=ranks, stage=stage, torus=bool(torus), **keys):
                    micro = () if ranks < 8 or keys else ("--set=training.micro_batch=1",)
                    mesh = self.fit_on(f"{clip}-{ranks}-{stage}-{len(keys)}-{len(torus)}", ranks, *more, *torus, *micro, sharding=stage, **keys)
                    self.near(one, mesh)
                    self.near_weights(one, mesh)

    def test_the_naive_device_and_pictures(self):
        """Residuals with projections, whose last layer computes the gradients of another, too."""
        for device in ("cpu-naive", "cpu"):
            one = self.fit(f"one-{device}", "-n2", *PICTURES, "--set=parallel.sharding=1", device=device)
            for stage in (2, 3):
                self.near(one, self.fit(f"{stage}-{device}", "-n2", *PICTURES, f"--set=parallel.sharding={stage}", device=device))

    def test_gpus_say_that_they_do_not(self):
        words = ("-n2", *PICTURES, "--set=training.optimizer={name: sgd}", "--set=parallel.sharding=2")
        self.assertIn("parallel.sharding=1", self.train(*words, code=69, device="cuda").stderr)

    def test_bf16(self):
        self.need_bf16()
        for micro, optimizer in ((8, ()), (2, ()), (4, (LAMB,))):
            more = ("--steps=3", BF16, f"--set=training.micro_batch={micro}", *optimizer)
            one = self.fit_on(f"one-{micro}", 2, *more, sharding=1)
            for stage in (2, 3):
                self.near(one, self.fit_on(f"{stage}-{micro}", 2, *more, sharding=stage), BF16_NEAR)

    def test_rehearsals(self):
        """Where each rank begins with 1, the sum of a shard is the number of ranks, in each pass anew."""
        for stage in (2, 3):
            for i, more in enumerate(((), (TORUS,))):
                self.fit(f"{stage}-{i}", "-n4", *BASE, "--set=training.micro_batch=1", f"--set=parallel.sharding={stage}", "--steps=3",
                         "--time-scale=0.001", *more, device="replay")

    def test_memory(self):
        """What a rank holds between two steps, by the sum of its arrays and by what the system counts.

        The arrays of weights, gradients and moments are those of a shard, and of two blocks beside."""
        words = ("-n4", "--set=allreduce.bucket=null", "--set=model={network: transformer, layers: 12, hidden: 192, heads: 4, vocab: 61, sequence: 24}",
                 "--set=training.phases=[{epochs: 20, global_batch: 4}]")
        held, counted = [], []
        for stage in (1, 3):
            dry = json.loads(self.train("--dry-run", "--json", self.source, *words, f"--set=parallel.sharding={stage}", device=DEVICE).stdout)["memory"]
            counted.append(sum(dry[f"{name}_bytes"] for name in ("weights", "gradients", "momentum")))
            held.append(self.resident(f"run{stage}", *words, f"--set=parallel.sharding={stage}"))
        self.assertLess(counted[1], 0.6 * counted[0])
        self.assertGreaterEqual(held[0] - held[1], counted[0] - counted[1], (held, counted))

    def test_measured_steps_are_those_that_were_predicted(self):
        words = (self.job, "-n2", "--steps=2", "--json", "--device=cpu", self.source, *BASE, "--set=parallel.sharding=3")
        rows = json.loads(self.execute((0, 1, 75), harness.PROGRAM, "validate", *words).stdout)["rows"]
        for what in ("all-gather", "reduce-scatter"):
            found = [row for row in rows if row["name"].endswith(what)]
            self.assertGreater(len(found), 8)
            self.assertTrue(all(row["predicted_s"] > 0 and row["measured_s"] > 0 for row in found), found)

    def resident(self, name, *words):
        """The median of what a rank has in memory while it trains [bytes]."""
        out = self.directory / name
        process = self.begin(*self.command("--out", out, self.source, "--threads=1", *words, device=DEVICE))
        found = []
        while process.poll() is None:
            time.sleep(0.05)
            steps = out / "steps.csv"
            if steps.exists() and 2 < len(steps.read_text().splitlines()) < 16:
                found += [resident_of(rank) for rank in training.ranks_of(out)]
        process.communicate()
        self.assertEqual(process.returncode, 0)
        return statistics.median(found)

    def test_a_run_goes_on(self):
        """And with whole ones, or with other shards."""
        more = ("--set=training.phases=[{epochs: 6, global_batch: 8}]",)
        whole = self.fit_on("whole", 2, *more, sharding=3)
        part = self.directory / "part"
        self.fit_on("part", 2, "--steps=3", *more, sharding=3)
        for name, ranks, keys in (("more", 4, {"sharding": 3}), ("one", 1, {}), ("tensor", 2, {"tensor": 2}), ("two", 2, {"sharding": 2})):
            self.near(whole, self.fit_on(name, ranks, *more, "--resume", part / "ckpt-000003", **keys))
        self.same_bits(whole, self.fit_on("part", 2, *more, "--resume", part, sharding=3))
