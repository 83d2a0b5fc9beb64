"""foretrain under a real Slurm of one node: ranks of a training by srun."""
import json
import pathlib
import tempfile
import unittest

import harness
import slurm_node
from harness import EXECUTOR, TOY

if slurm_node.why_not():
    harness.skip(f"no Slurm: {slurm_node.why_not()}")

TRAIN = ("train", TOY, "--device=cpu-naive", "--steps=5", "--json",
         "--set=allreduce.grid={columns: 2, rows: 1}")


class Slurm(unittest.TestCase):
    """All on one node."""

    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="foretrain-slurm-")))
        cls.node = cls.enterClassContext(slurm_node.Node(cls.dir))

    def test_ranks_that_srun_starts_train_as_those_of_mpirun(self):
        done = self.node.run("srun", "--mpi=pmix", "-n2", EXECUTOR, *TRAIN)
        self.assertEqual(done.returncode, 0, done.stderr)
        ours = json.loads(harness.good(*TRAIN, "-n", 2).stdout)
        theirs = json.loads(done.stdout)
        self.assertEqual((theirs["ranks"], theirs["steps"]), (2, 5))
        self.assertEqual([step["loss"] for step in theirs["step"]], [step["loss"] for step in ours["step"]])
