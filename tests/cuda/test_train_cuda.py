"""Ranks on GPUs in software train what one rank does.

test_train_cuda.py TRAIN_CUDA [CASE...]; cases are FP32, FP16, BF16 and Watched."""

import array
import functools
import os
import re
import struct
import sys
import tempfile

import harness

harness.need_mpi()

PROGRAM = sys.argv.pop(1)


@functools.lru_cache(maxsize=None)
def losses(columns, rows, algorithm, dtype, optimizer="sgd", told="", **settings):
    """Of each step; the same run is made once.  @told: what stderr says, among others."""
    done = harness.execute(*harness.on_ranks(columns * rows, PROGRAM, columns, rows, algorithm, dtype, optimizer),
                           environment=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(told, done.stderr), done.stderr
    found = [float(line) for line in done.stdout.split()]
    assert len(found) == 12 and found[-1] < found[0], found
    return found


class Case(harness.Case):
    """A type of what is computed and of gradients."""

    def compare(self, dtype, grids, limit, optimizer="sgd", **settings):
        """Sums are taken in another order, and training amplifies the difference."""
        alone = losses(1, 1, "torus2d", dtype, optimizer, **settings)
        for columns, rows, algorithm in grids:
            together = losses(columns, rows, algorithm, dtype, optimizer, **settings)
            self.assertAlmostEqual(together[0], alone[0], delta=1e-6)
            for a, b in zip(together, alone):
                self.assertAlmostEqual(a, b, delta=limit)
        return alone

    def numbers(self, path, name):
        """Of a file of safetensors, as fp32; what follows the header."""
        path = os.path.join(path, max(n for n in os.listdir(path) if n.startswith("ckpt-")), name)
        with open(path, "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            file.read(size)
            return array.array("f", file.read())

    def shards(self, dtype, columns, rows, algorithm, optimizer="sgd", limit=0.0, **settings):
        """A sharded optimizer's losses and checkpoints are those of the whole one, over a resume:
        bit by bit, or within @limit of the largest number."""
        found = []
        for shards in {}, {"FORETRAIN_TEST_SHARDED": "1"}:
            with tempfile.TemporaryDirectory() as folder:
                loss = losses(columns, rows, algorithm, dtype, optimizer, **settings, **shards,
                              FORETRAIN_TEST_FOLDER=folder)
                found.append([loss, self.numbers(folder, "model.safetensors"),
                              self.numbers(folder, "optim.safetensors")])
        for whole, mine in zip(*found):
            self.assertEqual(len(whole), len(mine))
            if limit == 0:
                self.assertEqual(bytes(array.array("d", whole)), bytes(array.array("d", mine)))
            worst = max(abs(a - b) for a, b in zip(whole, mine))
            self.assertLessEqual(worst, limit * max(map(abs, whole)))
        return found[0][0]


# The limits are at least three times what was found; the loss falls by 0.039.

class FP32(Case):
    def test_ranks_have_the_losses_of_one(self):
        self.compare("fp32", ((1, 2, "nccl"), (2, 2, "torus2d"), (1, 3, "torus2d")), 1e-6)

    def test_one_all_reduce_of_all_gradients_gives_the_bits_of_buckets(self):
        self.assertEqual(losses(1, 2, "nccl", "fp32"),
                         losses(1, 2, "nccl", "fp32", FORETRAIN_TEST_AT_ONCE="1"))

    def test_shards_of_sgd_have_the_bits_of_the_whole(self):
        for columns, rows, algorithm in (1, 3, "nccl"), (2, 2, "ring"), (2, 2, "torus2d"):
            with self.subTest(algorithm=algorithm):
                self.shards("fp32", columns, rows, algorithm)

    def test_shards_of_lars_differ_by_their_norms_alone(self):
        self.shards("fp32", 2, 2, "torus2d", "lars", 1e-6)


class FP16(Case):
    def test_shards_of_sgd_have_the_bits_of_the_whole(self):
        for columns, rows, algorithm in (1, 3, "nccl"), (2, 2, "torus2d"):
            with self.subTest(algorithm=algorithm):
                self.shards("fp16", columns, rows, algorithm)

    def test_shards_of_lars_differ_by_their_norms_alone(self):
        self.shards("fp16", 1, 2, "nccl", "lars", 1e-6)

    def test_shards_skip_the_steps_that_the_whole_skips(self):
        self.shards("fp16", 1, 2, "nccl", FORETRAIN_TEST_OVERFLOW="1")

    def test_ranks_have_the_losses_of_one(self):
        self.compare("fp16", ((2, 2, "torus2d"), (3, 1, "torus2d")), 1e-3)

    def test_ranks_have_the_losses_of_one_with_lars(self):
        self.compare("fp16", ((3, 1, "torus2d"),), 1e-3, "lars")

    def test_without_memory_of_nccl_gradients_lie_in_that_of_cuda(self):
        refused = "(foretrain-exec: NCCL has no memory for 0.0 MB of gradients .*cudaMalloc.*\n){2}"
        self.assertEqual(losses(2, 2, "torus2d", "fp16"),
                         losses(2, 2, "torus2d", "fp16", told=refused, FORETRAIN_TEST_NO_MEMORY="1"))

    def test_a_resumed_run_goes_on_in_the_schedule_of_the_learning_rate(self):
        losses(2, 1, "torus2d", "fp16", FORETRAIN_TEST_FOLDER=str(self.directory))
        self.assertIn("ckpt-000005", os.listdir(self.directory))


class BF16(Case):
    def test_ranks_have_the_losses_of_one(self):
        self.compare("bf16", ((2, 2, "torus2d"),), 2e-3)
