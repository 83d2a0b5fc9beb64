"""Ranks on CPUs that have parts of a small transformer train as one rank does.

Usage: test_mesh.py
"""
import math
import random

import harness
from test_gpt import BF16, LAMB, SEQUENCES, Gpt
from test_gpt import words as tokens

DEVICE = "cpu"
BASE = ("--set=model.layers=4", "--set=model.tied=true", "--set=training.micro_batch=2")
NEAR, BF16_NEAR = 1e-5, 5e-4


def words(**keys):
    """parallel.KEY=VALUE for each."""
    return [f"--set=parallel.{key}={value}" for key, value in keys.items()]


class Mesh(Gpt):
    """Runs of four blocks in four micro-batches, with tied weights and clipping."""

    def fit_on(self, name, ranks, *more, **keys):
        """Train on so many ranks; the directory."""
        return self.fit(name, f"-n{ranks}", *BASE, *words(**keys), *more, device=DEVICE)

    def need_bf16(self):
        """Skip the test where a processor would have to emulate it."""
        if self.train("--dry-run", self.source, BF16, device=DEVICE, code=(0, 69)).returncode:
            self.skipTest("this CPU has no instructions for bf16")

    def near(self, one, other, delta=NEAR):
        """The losses, of the last steps if the other run has fewer."""
        a, b = self.losses(one), self.losses(other)
        self.assertTrue(b)
        for x, y in zip(a[-len(b):], b, strict=True):
            self.assertAlmostEqual(x / y, 1, delta=delta)

    def near_weights(self, one, other):
        """Each tensor, but biases of keys, whose gradients are rounding alone."""
        a, b = self.tensors(one), self.tensors(other)
        self.assertEqual(a.keys(), b.keys())
        for name in a:
            if not name.endswith("key.bias"):
                self.assertLessEqual(math.dist(a[name][1], b[name][1]), NEAR * math.hypot(*a[name][1]), name)


class Equal(Mesh):
    """One rank and a mesh."""

    def test_a_pipeline_of_two(self):
        one, two = self.fit_on("one", 1), self.fit_on("two", 2, pipeline=2)
        self.near(one, two)
        self.same_bits(two, self.fit_on("again", 2, pipeline=2))
        shown = harness.answer("inspect", two)
        self.assertEqual((shown["progress"]["network"], shown["progress"]["classes"]), ("transformer", 61))
        self.assertEqual([tensor["file"] for tensor in shown["tensors"]].count("model.safetensors"), 68)

    def test_layers_of_two(self):
        one, two = self.fit_on("one", 1), self.fit_on("two", 2, tensor=2)
        self.near(one, two)
        self.same_bits(two, self.fit_on("again", 2, tensor=2))

    def test_attention_by_blocks(self):
        """Of queries, of which the last has fewer: as with all scores at once and on the naive device, on any mesh."""
        (self.directory / "words.bin").write_bytes(tokens(SEQUENCES * 300 + 1))
        more = "--steps=3", "--set=model.layers=2", "--set=model.sequence=300", "--set=model.dropout=true", "--set=model.kv_heads=2"
        one = self.fit_on("one", 1, *more, "--set=cluster.software=pytorch")
        self.near(one, self.fit("naive", "-n1", *BASE, *more))
        flash = *more, "--set=cluster.software=pytorch-flash"
        for ranks, keys in ((1, {}), (4, {"tensor": 2, "pipeline": 2})):
            with self.subTest(ranks=ranks):
                blocks = self.fit_on(f"blocks-{ranks}", ranks, *flash, **keys)
                self.near(one, blocks)
                self.near_weights(one, blocks)
                self.same_bits(blocks, self.fit_on(f"again-{ranks}", ranks, *flash, **keys))
        self.need_bf16()
        self.near(one, self.fit_on("bf16", 1, *flash, BF16), BF16_NEAR)

    def test_blocks_of_positions(self):
        """Each rank that shares layers has a block of them between these, and what is dropped and measured is of all."""
        for i, (more, meshes) in enumerate((
                ((), ((2, {}), (8, {"pipeline": 2}), (8, {"tensor": 4}), (4, {"sharding": 3}))),
                (("--steps=5", "--set=model.dropout=true", "--set=training.micro_batch=1"), ((2, {}), (8, {"tensor": 4, "pipeline": 2}))),
                ((LAMB, "--set=model.norm=rms", "--set=model.tied=false"), ((4, {"sharding": 1}), (4, {"pipeline": 2}))))):
            one = self.fit_on(f"one-{i}", 1, *more)
            for ranks, keys in meshes:
                with self.subTest(ranks=ranks, more=more, **keys):
                    keys = {"tensor": 2, "sequence": "true", **keys}
                    mesh, again = (self.fit_on(f"{name}-{i}-{ranks}-{'-'.join(keys)}", ranks, *more, **keys) for name in ("mesh", "again"))
                    self.near(one, mesh)
                    if more:  # 50 steps of AdamW: 1.6e-5 in biases without blocks, 2e-5 with
                        self.near_weights(one, mesh)
                    self.same_bits(mesh, again)

    def test_lamb(self):
        """Norms are of whole tensors, wherever their parts are, with clipping and without."""
        for clip in ("1", "null"):
            more = (LAMB, f"--set=training.optimizer.clip={clip}")
            one = self.fit_on(f"one-{clip}", 1, *more)
            for tensor, pipeline, ranks in ((1, 2, 2), (2, 1, 2), (4, 1, 4), (2, 2, 8)):
                with self.subTest(clip=clip, tensor=tensor, pipeline=pipeline):
                    mesh = self.fit_on(f"{clip}-{tensor}-{pipeline}", ranks, *more, tensor=tensor, pipeline=pipeline)
                    self.near(one, mesh)
                    self.near_weights(one, mesh)

    def test_eight_ranks(self):
        more = ("--steps=2", "--set=training.label_smoothing=0.1", "--set=model.dropout=true")
        self.near(self.fit_on("one", 1, *more), self.fit_on("eight", 8, *more, pipeline=2, tensor=2))

    def test_gates_rotary_positions_and_shared_keys(self):
        more = ("--steps=5", *(f"--set=model.{key}" for key in (
            "norm=rms", "gated=true", "position=rotary", "bias=false", "kv_heads=2", "tied=false")))
        self.near(self.fit_on("one", 1, *more), self.fit_on("four", 4, *more, pipeline=2, tensor=2))

    def test_sends_in_parts(self):
        """Of ranks that share layers each sends some of a value, where software cuts it, and the next stage gathers."""
        one = self.fit_on("one", 1, "--steps=3")
        self.near(one, self.fit_on("cut", 4, "--steps=3", "--set=cluster.software=megatron-core", pipeline=2, tensor=2))

    def test_bf16(self):
        """As near to fp32 as the roundings are: by 2^-8 at most, of both operands of 50 products that a gradient comes through,
        and of what is exchanged: four sums of each block, on each rank that adds to them, and what stages send.  Losses: test_gpt.py."""
        self.need_bf16()
        one, exact = (self.fit_on(f"one{i}", 1, "--steps=2", *more) for i, more in enumerate(((BF16,), ())))
        for ranks, tensor, pipeline, more in (
                (2, 1, 2, {}), (2, 2, 1, {}), (8, 2, 2, {}), (4, 4, 1, {}),
                (2, 1, 1, {"sharding": 1}), (4, 2, 1, {"sharding": 1}), (4, 1, 2, {"sharding": 1}), (8, 2, 2, {"sharding": 1})):
            with self.subTest(ranks=ranks, tensor=tensor, pipeline=pipeline, **more):
                mesh, again = (self.fit_on(f"{name}-{ranks}-{tensor}-{pipeline}-{len(more)}", ranks, "--steps=2", BF16,
                                           tensor=tensor, pipeline=pipeline, **more) for name in ("mesh", "again"))
                self.same_bits(mesh, again)
                self.near(one, mesh, BF16_NEAR)
                roundings = 2 * 50 + (tensor > 1) * 16 * tensor + 2 * (pipeline - 1)
                ours, want = self.tensors(mesh, "optim"), self.tensors(exact, "optim")
                for name in want:
                    if not name.endswith(("key.bias", "square")):
                        self.assertLess(math.dist(ours[name][1], want[name][1]) / math.hypot(*want[name][1]),
                                        math.sqrt(roundings) * 2 ** -8, name)
                self.assertNotEqual(self.losses(mesh), self.losses(exact))

    def test_a_divided_optimizer(self):
        """Of stages, parts of layers and whole networks; without clipping, whose norm is a sum in another order, to the bit."""
        for i, (ranks, keys, more) in enumerate((
                (4, {"pipeline": 2}, ()), (4, {"tensor": 2}, ()), (8, {"pipeline": 2, "tensor": 2}, ()),
                (8, {"pipeline": 2}, ("--set=allreduce={algorithm: torus2d, grid: {columns: 2, rows: 2}}",)))):
            more += ("--steps=3", "--set=training.optimizer.clip=null")
            with self.subTest(ranks=ranks, **keys):
                whole = self.fit_on(f"whole{i}", ranks, *more, **keys)
                shards = self.fit_on(f"shards{i}", ranks, *more, sharding=1, **keys)
                self.same_bits(whole, shards)
                self.near(whole, self.fit_on(f"clipped{i}", ranks, *more, "--set=training.optimizer.clip=100", sharding=1, **keys))

    def test_random_meshes_end_and_are_equal(self):
        """Nothing waits for ever: every order of a stage, chunks, parts of layers, other micro-batches, data beside."""
        draw, ones = random.Random(7), {}
        for turn in range(6):
            stages, tensor, replicas = draw.choice([(2, 1, 1), (2, 1, 2), (3, 1, 1), (4, 1, 1), (2, 2, 1), (1, 2, 2), (1, 4, 1)])
            micro, order = draw.choice([1, 2, 4]), draw.choice(["1f1b", "gpipe"])
            micros = 8 // replicas // min(micro, 8 // replicas)
            chunks = 2 if stages == 2 and order == "1f1b" and micros % 2 == 0 and draw.random() < 0.5 else 1
            clip = draw.choice(["1", "null"])
            more = ("--steps=3", f"--set=training.micro_batch={micro}", f"--set=training.optimizer.clip={clip}")
            with self.subTest(stages=stages, tensor=tensor, replicas=replicas, micro=micro, order=order, chunks=chunks, clip=clip):
                if clip not in ones:
                    ones[clip] = self.fit_on(f"one-{clip}", 1, *more)
                keys = {"pipeline": stages, "schedule": order, **({"chunks": chunks} if chunks > 1 else {})} if stages > 1 else {}
                self.near(ones[clip], self.fit_on(f"mesh{turn}", stages * tensor * replicas, *more, tensor=tensor, **keys))

    def test_evaluation_and_norms(self):
        more = ("--steps=2", "--set=training.phases=[{epochs: 2, global_batch: 8}]", "--set=training.optimizer.clip=null",
                f"--set=training.dataset.validation_path={self.directory / 'words.bin'}",
                "--set=training.dataset.validation_images=8", "--set=training.evaluate_every=1")
        found = []
        for ranks, keys in ((1, {}), (4, {"pipeline": 2, "tensor": 2})):
            run = self.fit_on(f"run{ranks}", ranks, *more, **keys)
            rows = (run / "evaluations.csv").read_text().splitlines()
            norms = [line.split(",") for line in (run / "steps.csv").read_text().splitlines()]
            at = norms[0].index("gradient_norm")
            found.append(([row.split(",")[3:7] for row in rows[1:]], [float(row[at]) for row in norms[1:]]))
        self.assertEqual(len(found[0][0]), 2)
        for a, b in zip(found[0][0], found[1][0]):
            self.assertEqual(a[1:], b[1:])
            self.assertAlmostEqual(float(a[0]) / float(b[0]), 1, delta=NEAR)
        for a, b in zip(found[0][1], found[1][1]):
            self.assertAlmostEqual(a / b, 1, delta=NEAR)


class Resumed(Mesh):
    """Checkpoints hold whole tensors."""

    def test_on_the_same_mesh_and_on_another(self):
        short = ("--set=training.phases=[{epochs: 8, global_batch: 8}]",)
        whole = self.fit_on("whole", 2, *short, pipeline=2)
        part = self.directory / "part"
        self.fit_on("part", 2, "--steps=4", *short, pipeline=2)
        self.near(whole, self.fit_on("elsewhere", 2, *short, "--resume", part / "ckpt-000004", tensor=2))
        self.same_bits(whole, self.fit_on("part", 2, *short, "--resume", part, pipeline=2))

    def test_with_a_divided_optimizer(self):
        short = ("--set=training.phases=[{epochs: 6, global_batch: 8}]", "--set=training.optimizer.clip=null")
        self.goes_on(NEAR, *short)

    def goes_on(self, delta, *more):
        """On the same mesh to the bit, and on another as near as that."""
        mesh, part = {"pipeline": 2, "sharding": 1}, self.directory / "part"
        whole = self.fit_on("whole", 4, *more, **mesh)
        self.fit_on("part", 4, "--steps=3", *more, **mesh)
        self.near(whole, self.fit_on("elsewhere", 4, *more, "--resume", part / "ckpt-000003", tensor=2, sharding=1), delta)
        self.same_bits(whole, self.fit_on("part", 4, *more, "--resume", part, **mesh))

    def test_with_a_divided_optimizer_in_bf16(self):
        self.need_bf16()
        self.goes_on(BF16_NEAR, "--set=training.phases=[{epochs: 6, global_batch: 8}]", BF16)


class Refused(Mesh):
    """What does not work has a name and a place."""

    def refused(self, code, ranks, *more, device=DEVICE, **keys):
        """The message."""
        return self.train(f"-n{ranks}", self.source, *BASE, *words(**keys), *more, code=code, device=device).stderr

    def test_meshes(self):
        for code, ranks, more, keys, message in (
                (65, 3, (), {"pipeline": 2}, "3 devices are no multiple of the 2"),
                (65, 8, (), {"pipeline": 8}, "more than its 4 blocks"),
                (65, 3, (), {"tensor": 3}, "model.heads, 4, cannot be split in 3 equal parts"),
                (65, 3, (), {"tensor": 2}, "do not fill a job of 3"),
                (69, 2, ("--set=cluster.software=megatron-core",), {"tensor": 2, "sequence": "true"}, "whole, not beside products"),
                (69, 2, ("--set=model.norm=post-layer",), {"tensor": 2}, "behind norms that nothing else reads"),
                (69, 2, (), {"pipeline": 2, "recompute": "full"}, "devices keep what backward reads"),
                (69, 2, ("--set=training.optimizer={name: lars}",), {"pipeline": 2}, "train with sgd, adamw and lamb"),
                (65, 4, (), {"pipeline": 2, "sharding": 3}, "1 shards the optimizer alone"),
                (65, 2, ("--set=allreduce.overlap=none",), {"sharding": 2}, "allreduce.overlap must be backward"),
                (69, 2, ("--set=model.precision.gradients=bf16",), {"pipeline": 2}, "gradients of parts of a network in fp32")):
            with self.subTest(message=message):
                self.assertIn(message, self.refused(code, ranks, *more, **keys))
