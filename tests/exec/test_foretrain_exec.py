#!/usr/bin/python3
"""The program foretrain-exec as users start it: test_foretrain_exec.py PROGRAM."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
HERE = os.path.dirname(os.path.abspath(__file__))
TOY = os.path.join(HERE, "toy.yaml")
ONE = ["--set", "cluster.nodes=1", "--set", "allreduce.grid={columns: 1, rows: 1}"]


def launch(ranks, *arguments):
    launcher = [sys.executable, os.path.join(HERE, "mpirun.py"), str(ranks)] if ranks else []
    return subprocess.run([*launcher, PROGRAM, *arguments], capture_output=True, encoding="utf-8",
                          timeout=60, check=False)


class ForetrainExec(unittest.TestCase):
    def answer(self, ranks, *arguments):
        done = launch(ranks, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refusal(self, code, ranks, *arguments):
        done = launch(ranks, *arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_runs_alone_without_mpirun(self):
        answer = self.answer(0, TOY, *ONE, "--iterations", "5")
        self.assertEqual((answer["ranks"], answer["iterations"], answer["messages"]), (1, 5, 0))
        self.assertEqual(len(answer["steps"]), 5)
        self.assertEqual(answer["steps"][-1]["loss"], answer["loss_last"])

    def test_learns_on_four_ranks(self):
        answer = self.answer(4, TOY, "--iterations", "20")
        self.assertEqual((answer["ranks"], answer["grain"]), (4, "real"))
        self.assertLess(answer["loss_last"], 0.5 * answer["loss_first"])
        self.assertGreater(answer["step_time_s"], 0)

    def test_equal_data_give_the_losses_of_one_rank(self):
        four = self.answer(4, TOY, "--same-data")
        one = self.answer(1, TOY, *ONE, "--same-data")
        self.assertEqual([step["loss"] for step in four["steps"]],
                         [step["loss"] for step in one["steps"]])

    def test_runs_the_schedule_that_is_predicted(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace")
            answer = self.answer(4, TOY, "--iterations", "3", "--trace-out", path)
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
        self.assertEqual(lines[:3], ["foretrain-trace 1", "backend exec", "grain real"])
        self.assertIn(f"schedule_hash {int(answer['schedule_hash'], 16)}", lines)
        spans = [tuple(map(int, line.split()[:3])) for line in lines if line[0].isdigit()]
        steps = max(step for _, _, step in spans) + 1
        self.assertEqual(sorted(spans), [(i, r, s) for i in range(3) for r in range(4)
                                         for s in range(steps)])
        predicted = subprocess.run([os.environ["FORETRAIN"], "predict", TOY, "--backend",
                                    "analytic", "--json"],
                                   capture_output=True, encoding="utf-8", check=True)
        self.assertEqual(json.loads(predicted.stdout)["schedule_hash"], answer["schedule_hash"])

    def test_refuses_a_wrong_number_of_ranks_once(self):
        message = self.refusal(64, 3, TOY)
        self.assertEqual(message.count("needs 4 ranks, but 3 were started"), 1)

    def test_refuses_what_the_device_cannot_do(self):
        self.assertIn("model.precision.gradients=fp32",
                      self.refusal(69, 0, TOY, "--set", "model.precision.gradients=fp16"))
        self.assertIn("algorithm nccl is a model",
                      self.refusal(69, 0, TOY, *ONE, "--set", "cluster.platform=abci",
                                   "--set", "cluster.devices_per_node=1",
                                   "--set", "allreduce={algorithm: nccl}"))
        self.assertIn("branches at", self.refusal(69, 0, TOY, *ONE, "--set",
                                                  "model.network=resnet18", "--set",
                                                  "model.image=32"))

    def test_refuses_bad_words(self):
        self.refusal(64, 0)
        self.refusal(64, 0, TOY, "--iterations", "0")
        self.refusal(64, 0, TOY, "--interations", "3")
        self.refusal(64, 0, TOY, "--learning-rate", "fast")
        self.refusal(66, 0, "there-is-no-such-file.yaml")

    def test_helps(self):
        done = launch(0, "--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--trace-out", done.stdout)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    if not shutil.which("mpirun"):
        print("mpirun (package openmpi-bin) is not installed")
        sys.exit(77)
    os.environ.update({
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # As in mpirun.py: Open MPI leaks.
        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0",
    })
    unittest.main(verbosity=2)
