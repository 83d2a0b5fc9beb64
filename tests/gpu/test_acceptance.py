"""The acceptance for GPUs, on a machine without one.

Usage: test_acceptance.py BUILD_DIRECTORY [CASES...]; all but Software unless said

What judges is tried with made-up measurements; what compares with PyTorch, on
the CPU, with the device in software, on one rank and on four.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
sys.path.insert(0, str(FOLDER))
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import acceptance
import machine
import pictures
import sanitize
import throughput
from report import Clock, Runner

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()


def torch_python():
    """A python3 with PyTorch, or None."""
    for python in ("/usr/bin/python3", sys.executable):
        if subprocess.run([python, "-c", "import torch, torchvision"], capture_output=True,
                          check=False).returncode == 0:
            return python
    return None


class Judging(unittest.TestCase):
    """Verdicts, from made-up measurements."""

    def test_a_ratio_counts_the_best_of_both(self):
        def rated(value):
            return throughput.rate(256, [[256 / value]] * 3)
        ours = {"fp16": rated(6500), "bf16": rated(6000)}
        theirs = {"compiled-fp16": rated(4800), "compiled-bf16": rated(5000)}
        said = throughput.judge(256, ours, theirs, {}, {"a": 256 / 10000, "b": 256 / 13000})
        self.assertEqual(said.verdict, "pass")
        self.assertAlmostEqual(said.data["ratio"], 1.3)
        self.assertRegex(said.figure, "ratio 1.30, aim missed, 65% of the limit of a, 50% .* of b$")
        self.assertRegex(throughput.judge(256, ours, {"eager": rated(3600)}, {}, {}).figure,
                         "aim reached$")
        self.assertEqual(throughput.judge(256, ours, {"eager": rated(5001)}, {}, {}).verdict, "fail")
        self.assertEqual(throughput.judge(256, ours, {}, {}, {}).verdict, "fail")

    def test_a_rate_is_the_median_of_windows(self):
        said = throughput.rate(100, [[1, 1, 9], [2, 2, 2], [4, 4, 4]])
        self.assertEqual(said, {"images_per_s": 50, "lowest": 25, "highest": 100, "windows": 3})

    def test_the_limit_adds_up_every_kernels_bottleneck(self):
        lines = "0 a forward fp16, 100 FLOP, 10 B, 1 kernels\n1 b 0 FLOP, 30 B, 1 kernels\n"
        self.assertAlmostEqual(throughput.kernel_limit(lines, 10, 10), 10 + 3)
        self.assertAlmostEqual(throughput.kernel_limit(lines, 10, 10, [200, 20]), 20 + 2)

    def test_layers_are_told_from_a_trace(self):
        def event(name, step, micros, lane=0):
            return {"ph": "X", "pid": 0, "tid": lane, "name": name, "dur": micros,
                    "args": {"step id": step}}
        trace = {"traceEvents": [event("conv1 forward", 1, 5), event("conv1 forward", 1, 7),
                                 event("conv1 forward", 1, 6), event("bn1 forward", 2, 3),
                                 event("input", 0, 99, 3)]}
        lines = ("   1  compute  conv1 forward fp16, 100 FLOP, 10 B, 1 kernels\n"
                 "   2  compute  bn1 forward fp16, 0 FLOP, 30 B, 1 kernels\n")
        rows = throughput.layer_rows(trace, lines, 1e9, 1e9)
        self.assertEqual([(row["name"], round(row["seconds"] * 1e6, 3), row["limit_s"])
                          for row in rows], [("conv1 forward", 6, 1e-7), ("bn1 forward", 3, 3e-8)])
        self.assertEqual(set(throughput.grouped(rows)), {"convolution forward",
                                                         "batch norm forward"})
        self.assertIn("conv1 forward", throughput.layer_table(rows))

    def test_predictions_are_judged_by_the_worst(self):
        said = throughput.judge_predictions({32: 1.04, 64: 0.9}, {32: 1.0, 64: 1.0, 99: 5})
        self.assertEqual((said.verdict, said.figure[:19]), ("fail", "-10.0% at batch 64,"))
        self.assertEqual(throughput.judge_predictions({32: 1.04}, {32: 1.0}).verdict, "pass")

    def test_pictures_are_judged_by_the_worst(self):
        for worst, labels, verdict in ((0.005, True, "pass"), (0.02, True, "fail"),
                                       (0.005, False, "fail")):
            ways = [{"name": name, "mean": 0.001, "worst": w, "labels": same, "images_per_s": 1e4}
                    for name, w, same in (("pack", 0.005, True), ("JPEG", worst, labels))]
            self.assertEqual(pictures.judge({"ways": ways}).verdict, verdict, (worst, labels))

    def test_errors_of_the_sanitizer_are_ours_or_a_librarys(self):
        text = ("========= COMPUTE-SANITIZER\n"
                "========= Error: Race reported between Write access at sums<float>(long)+0x10\n"
                "=========     and Read access at sums<float>(long)+0x20\n"
                "=========\n"
                "========= Warning: Race reported between Read access at cudnn::other()+0x5\n"
                "========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)\n")
        ours = sanitize.our_kernels(ROOT)
        self.assertLessEqual({"sums", "norms", "update_kernel"}, ours)
        self.assertEqual(sanitize.judge(text, "racecheck", ours), (1, 1))
        self.assertEqual(sanitize.judge("========= ERROR SUMMARY: 0 errors\n", "memcheck", ours),
                         (0, 0))
        bad = "========= Invalid __global__ read of size 4 bytes\n=========     at foo()+0x1\n"
        self.assertEqual(sanitize.judge(bad, "memcheck", ours), (1, 0))


class WholeProgram(unittest.TestCase):
    """acceptance.sh itself."""

    def test_commands_of_the_page_name_parts_of_the_acceptance(self):
        options = argparse.Namespace(build="build", tiny=False, torch="cuda", only=None, software=False,
                                     gpu={"name": "NVIDIA H200"})
        names = {name for stage in acceptance.Acceptance(options, {}).stages() for lane in stage for name, _, _ in lane}
        page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
        commands = re.findall(r'acceptance\.sh .*--only "([^"]*)"', page)
        self.assertGreater(len(commands), 10)
        for parts in commands:
            self.assertLessEqual(set(parts.split(",")), names)

    def test_without_a_gpu_it_says_so(self):
        try:
            machine.gpu()
        except machine.NoGpu:
            pass
        else:
            self.skipTest("there is a GPU")
        python = torch_python()
        if not python:
            self.skipTest("no python3 with PyTorch")
        done = subprocess.run([FOLDER / "acceptance.sh"], capture_output=True, text=True,
                              env={**os.environ, "PYTHON": python}, check=False)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertRegex(done.stdout, r"^no GPU to use here: ")

    def test_programs_for_a_gpu_say_that_there_is_none(self):
        for name in (name for names in acceptance.TESTS.values() for name in names):
            done = subprocess.run([BUILD / "tests/gpu" / name], capture_output=True, text=True,
                                  env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=False)
            self.assertEqual((name, done.returncode), (name, 77), done.stderr)
            self.assertIn("no NVIDIA GPU", done.stdout + done.stderr)

    def parts(self, names, **settings):
        """Verdicts of some parts, tiny, with the device in software; @settings are added to the
        environment."""
        python = torch_python()
        if not python or not (BUILD / "tests/gpu/device_step_software").exists():
            self.skipTest("no python3 with PyTorch, or the device in software is not built")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [FOLDER / "acceptance.sh", "--built", "--build", BUILD, "--out", folder, "--torch",
                 "cpu", "--tiny", "--threads", "1", "--seconds", "3000", "--patience", "8",
                 "--software", "--only", names], capture_output=True, text=True,
                env={**os.environ, "PYTHON": python, **settings}, check=False)
            with open(os.path.join(folder, "acceptance.json"), encoding="utf-8") as file:
                said = json.load(file)
            # With pytorch.txt, device.yaml and convolutions, all that any part leaves.
            self.assertLessEqual(set(os.listdir(folder)),
                                 {"acceptance.json", "log.txt", "pytorch.txt"})
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return {part["name"]: part for part in said["parts"]}

    def test_a_small_net_in_software_computes_what_pytorch_computes(self):
        said = self.parts("small net")
        self.assertEqual(said["small net"]["verdict"], "pass", said)

    def test_pictures_in_software_are_those_of_the_cpu(self):
        program = BUILD / (pictures.PROGRAM + "_software")
        if not program.exists():
            self.skipTest("a build without libjpeg")
        said = self.parts("input")
        self.assertEqual(said["input"]["verdict"], "pass", said)
        ways = {way["name"]: way for way in said["input"]["data"]["ways"]}
        self.assertIn("JPEG", ways)
        for way in ways.values():
            self.assertGreater(way["images_per_s"], 0)

    def test_four_ranks_in_software_follow_one(self):
        if not shutil.which("mpirun"):
            self.skipTest("mpirun (package openmpi-bin) is not installed")
        said = self.parts("four ranks")
        self.assertEqual(said["four ranks"]["verdict"], "pass", said)

    def test_a_run_says_what_its_steps_move(self):
        program = BUILD / "tests/gpu/foretrain-exec-software"
        if not program.exists():
            self.skipTest("the device in software is not built")
        with tempfile.TemporaryDirectory() as folder:
            runner = Runner(Clock(100), folder, {**os.environ, "XDG_CACHE_HOME": folder,
                                                 "FORETRAIN_DATADIR": str(ROOT)})
            job = ROOT / "experiments/04_gpu/resnet50.yaml"
            shape = {"network": "resnet18", "image": 32}
            ours = throughput.Ours(runner, program, job, "cuda", 1, 0)
            ours.train(4, "fp16", 1, **shape)
            lines = throughput.schedule(runner, BUILD / "foretrain", job, 4,
                                        "convolutions with batch norm", **shape)
        self.assertEqual(len(ours.moved), max(throughput.counts(lines)) + 1)
        # Images with 3 channels padded to 4, a window of 7 x 7 and 64 channels of 16 x 16, 2 bytes each.
        self.assertEqual(ours.moved[1], 2 * (4 * 32 * 32 * 4 + 64 * 7 * 7 * 4 + 4 * 16 * 16 * 64))


class Software(WholeProgram):
    """The parts that take longest: .ci/nightly runs them, and the others again."""

    def test_the_device_in_software_computes_what_pytorch_computes(self):
        said = self.parts("gradients bf16,losses")
        self.assertEqual(said["gradients bf16"]["verdict"], "pass", said)
        self.assertEqual(len(said["losses"]["data"]["ours"]), 6, said)

    def test_speed_and_layers_are_measured(self):
        said = self.parts("plans 4,throughput 4,layers,tuned 4")
        self.assertEqual(said["plans 4"]["verdict"], "measured", said)
        self.assertEqual(set(said["throughput 4"]["data"]["ours"]), {"bf16"}, said)
        self.assertGreater(said["throughput 4"]["data"]["ratio"], 0)
        self.assertRegex(said["tuned 4"]["figure"], "times as fast as without --tune$")
        self.assertEqual(said["layers"]["verdict"], "measured", said)
        names = {row["name"] for row in said["layers"]["data"]["steps"]}
        self.assertLessEqual({"conv1 forward", "layer4.1.bn2 backward-data", "optimizer"}, names)


if __name__ == "__main__":
    CASES = [name for name, found in globals().items() if isinstance(found, type)
             and issubclass(found, unittest.TestCase) and name != "Software"]
    unittest.main(argv=[sys.argv[0], *(sys.argv[2:] or CASES)])
