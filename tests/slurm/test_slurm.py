#!/usr/bin/python3
"""foretrain under a real Slurm of one node: shards of a sweep as an array, ranks of a training by srun."""
import json
import pathlib
import tempfile
import unittest

import harness
import slurm_node
from harness import EXECUTOR, PROGRAM, ROOT, TOY

SWEEP = ("sweep", ROOT / "experiments/01_sony_abci/v1-1088.yaml", "--set=allreduce.grid=null", "--backend=analytic",
         "--scan=cluster.nodes=1..9", "--list=allreduce.algorithm=nccl,ring")
TRAIN = ("train", TOY, "--device=cpu-naive", "--steps=5", "--json",
         "--set=allreduce.grid={columns: 2, rows: 1}")


class Slurm(unittest.TestCase):
    """All on one node."""

    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="foretrain-slurm-")))
        cls.node = cls.enterClassContext(slurm_node.Node(cls.dir))

    def test_shards_of_an_array_are_one_run(self):
        script = self.dir / "array.sbatch"
        words = " ".join(f"'{word}'" for word in SWEEP if word != "--backend=analytic")
        script.write_text(f"#!/bin/sh\nexec '{PROGRAM}' {words} --shard $SLURM_ARRAY_TASK_ID/3 "
                          f"--csv '{self.dir}'/shard-$SLURM_ARRAY_TASK_ID.csv\n")
        done = self.node.run("sbatch", "--array=1-3", f"--output={self.dir}/shard-%a.txt", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.node.wait("the array does not end", lambda: not self.node.run("squeue", "-h").stdout.strip())
        shards = sorted(self.dir.glob("shard-*.csv"))
        self.assertEqual(len(shards), 3, [path.read_text() for path in self.dir.glob("shard-*.txt")])
        whole, merged = self.dir / "whole.csv", self.dir / "merged.csv"
        journal = self.dir / "all.journal"
        journal.write_bytes(b"".join(self.dir.joinpath(f"{path}.journal").read_bytes() for path in shards))
        harness.good(*SWEEP, "--journal", journal, "--csv", merged)
        harness.good(*SWEEP, "--csv", whole)
        self.assertEqual(merged.read_bytes(), whole.read_bytes())

    def test_ranks_that_srun_starts_train_as_those_of_mpirun(self):
        done = self.node.run("srun", "--mpi=pmix", "-n2", EXECUTOR, *TRAIN)
        self.assertEqual(done.returncode, 0, done.stderr)
        ours = json.loads(harness.good(*TRAIN, "-n", 2).stdout)
        theirs = json.loads(done.stdout)
        self.assertEqual((theirs["ranks"], theirs["steps"]), (2, 5))
        self.assertEqual([step["loss"] for step in theirs["step"]], [step["loss"] for step in ours["step"]])


if __name__ == "__main__":
    if slurm_node.why_not():
        harness.skip(f"no Slurm: {slurm_node.why_not()}")
    harness.main()
