#!/usr/bin/python3
"""Ranks on GPUs in software train what one rank does.

test_train_cuda.py TRAIN_CUDA MPIRUN_PY"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
MPIRUN = ""


class TrainCuda(unittest.TestCase):
    def losses(self, columns, rows, algorithm, dtype, optimizer="sgd", **settings):
        done = subprocess.run([sys.executable, MPIRUN, str(columns * rows), PROGRAM, str(columns), str(rows),
                               algorithm, dtype, optimizer], capture_output=True,
                              encoding="utf-8", timeout=100, check=False,
                              env={**os.environ, **settings})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        losses = [float(line) for line in done.stdout.split()]
        self.assertEqual(len(losses), 12)
        self.assertLess(losses[-1], losses[0])
        return losses

    def compare(self, dtype, grids, limit, optimizer="sgd", **settings):
        """Sums are taken in another order, and training amplifies the difference."""
        alone = self.losses(1, 1, "torus2d", dtype, optimizer, **settings)
        for columns, rows, algorithm in grids:
            together = self.losses(columns, rows, algorithm, dtype, optimizer, **settings)
            self.assertAlmostEqual(together[0], alone[0], delta=1e-6)
            for a, b in zip(together, alone):
                self.assertAlmostEqual(a, b, delta=limit)
        return alone

    # The limits are at least three times what was found; the loss falls by 0.039.

    def test_fp32_gives_the_losses_of_one_rank(self):
        self.compare("fp32", ((2, 1, "torus2d"), (1, 2, "nccl"), (2, 2, "torus2d"),
                              (3, 1, "torus2d"), (1, 3, "torus2d")), 1e-6)

    def test_fp16_gives_the_losses_of_one_rank(self):
        self.compare("fp16", ((2, 2, "torus2d"), (3, 1, "torus2d"), (1, 3, "torus2d")), 1e-3)

    def test_convolutions_apply_batch_norm_or_do_not_in_fp16(self):
        for optimizer in ("sgd", "lars"):
            grids = ((3, 1, "torus2d"),) if optimizer == "lars" else ()
            merged = self.compare("fp16", grids, 1e-3, optimizer)
            apart = self.compare("fp16", ((3, 1, "torus2d"),), 1e-3, optimizer,
                                 FORETRAIN_TEST_APART="1")
            self.assertNotEqual(merged, apart)
            for a, b in zip(merged, apart):
                self.assertAlmostEqual(a, b, delta=1e-3)

    def test_a_resumed_run_goes_on_in_the_schedule_of_the_learning_rate(self):
        with tempfile.TemporaryDirectory() as folder:
            self.losses(2, 1, "torus2d", "fp16", FORETRAIN_TEST_FOLDER=folder)
            self.assertIn("ckpt-000005", os.listdir(folder))

    def test_bf16_gives_the_losses_of_one_rank(self):
        self.compare("bf16", ((2, 2, "torus2d"),), 2e-3)


if __name__ == "__main__":
    PROGRAM, MPIRUN = sys.argv[1:]
    del sys.argv[1:]
    if not shutil.which("mpirun"):
        print("mpirun (package openmpi-bin) is not installed")
        sys.exit(77)
    unittest.main(verbosity=2)
