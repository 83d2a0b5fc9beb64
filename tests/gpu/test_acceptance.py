"""The acceptance for GPUs, on a machine without one.

Usage: test_acceptance.py BUILD_DIRECTORY

What judges is tried with made-up measurements; what measures beside PyTorch and what runs the tests, with
the device in software.  The tests software_* of meson are the other checks.
"""
import json
import os
import pathlib
import re
import sys
import unittest
import unittest.mock

import checks
import harness
import machine
import sanitize
import throughput

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
TESTS = {test["name"]: test for test in json.loads((BUILD / "meson-info/intro-tests.json").read_text(encoding="utf-8"))}
ON_GPU = {name: test for name, test in TESTS.items() if {"gpu", "gpu-long"} & {s.split(":")[1] for s in test["suite"]}}


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
        for best, gpu, verdict in (5000, "A", "pass"), (5001, "A", "fail"), (5000, "NVIDIA H200", "fail"):
            self.assertEqual(throughput.judge(256, ours, {"eager": rated(best)}, {}, {}, gpu).verdict, verdict)
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

    def test_predictions_are_judged_by_the_worst(self):
        said = throughput.judge_predictions({32: 1.04, 64: 0.9}, {32: 1.0, 64: 1.0, 99: 5})
        self.assertEqual((said.verdict, said.figure[:19]), ("fail", "-10.0% at batch 64,"))
        self.assertEqual(throughput.judge_predictions({32: 1.04}, {32: 1.0}).verdict, "pass")

    def test_pictures_are_judged_by_the_worst(self):
        for worst, labels, verdict in ((0.005, True, "pass"), (0.02, True, "fail"),
                                       (0.005, False, "fail")):
            ways = [{"name": name, "mean": 0.001, "worst": w, "labels": same, "images_per_s": 1e4}
                    for name, w, same in (("pack", 0.005, True), ("JPEG", worst, labels))]
            self.assertEqual(checks.judge_pictures({"ways": ways}).verdict, verdict, (worst, labels))

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


class Program(harness.Case):
    """Checks and acceptance.sh themselves."""

    def test_commands_of_the_page_name_tests_and_suites(self):
        suites = {suite.split(":")[1] for test in ON_GPU.values() for suite in test["suite"]}
        page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
        commands = re.findall(r"tests/gpu/acceptance\.sh ([^`#|\n]*)", page)
        self.assertGreater(len(commands), 10)
        for command in commands:
            words = re.sub(r"--(out|seconds) \S+", "", command).split()
            self.assertLessEqual(set(words), {"--suite", *ON_GPU, *suites}, command)

    def test_without_a_gpu_every_test_is_skipped(self):
        try:
            machine.gpu()
            self.skipTest("there is a GPU")
        except machine.NoGpu:
            pass
        self.assertGreater(len(ON_GPU), 20)
        for name, test in ON_GPU.items():
            with self.subTest(name):
                done = self.execute(77, *test["cmd"], environment=test["env"])
                self.assertIn("no NVIDIA GPU", done.stdout)
                if not name.startswith("gpu_kernels"):
                    continue
                self.execute(1, *test["cmd"], environment={**test["env"], "FORETRAIN_TEST_GPU": "1"})

    def accept(self, code, *words):
        """What acceptance.sh prints, with a directory of results; it must end with @code."""
        done = self.execute((code, 69), FOLDER / "acceptance.sh", "--build", BUILD, "--out", self.directory / "out",
                            *words, environment={"PYTHON": sys.executable})
        if done.returncode == 69:
            self.skipTest(done.stdout + done.stderr)
        return done.stdout

    def test_without_a_gpu_the_acceptance_ends(self):
        self.assertRegex(self.accept(77), "^no GPU to use here: ")

    def test_the_acceptance_builds_and_keeps_what_meson_found(self):
        said = self.accept(0, "--arch", "90", "--suite", "cuda", "software_input")
        self.assertRegex(said, r"\nsoftware_input +OK +\S+ s  pass: pack .* images/s, .*JPEG .* \(0.01 levels")
        self.assertEqual(set(os.listdir(self.directory / "out")),
                         {"build.txt", "machine.json", "acceptance.json", "acceptance.txt"})

    def test_tests_end_with_the_time_of_the_acceptance(self):
        said = self.accept(1, "--arch", "90", "--seconds", "4", "--suite", "cuda", "software_ranks")
        self.assertRegex(said, "no time is left|timed out after")

    def check(self, *words):
        """The figures of a check in software."""
        done = harness.execute(sys.executable, FOLDER / "checks.py", "--software", *words)
        if done.returncode == 77:
            self.skipTest(done.stdout)
        return json.loads(done.stdout.splitlines()[-2])

    def test_speed_is_measured_beside_a_server_that_compiles_once(self):
        path = self.directory / "socket"
        server = throughput.serve(sys.executable, path, self.directory / "log", "--device", "cpu", "--batches", 4,
                                  "--network", "resnet18", "--image", 32)
        self.addCleanup(server.kill)
        if not server.stdout.readline():
            self.skipTest((self.directory / "log").read_text(encoding="utf-8"))
        said = throughput.PyTorch(str(path)).ask("variants", harness.HANGS)
        self.assertEqual((said["compiled"] > 0, said["failed"]), (True, 0))
        self.enterContext(unittest.mock.patch.dict(os.environ, FORETRAIN_PYTORCH=str(path)))
        said = self.check("throughput", "4")
        self.assertEqual(set(said["data"]["ours"]), {"bf16"}, said)
        self.assertGreater(said["data"]["ratio"], 0)
        server.kill()
        server.wait()
        said = self.check("throughput", "4")
        self.assertRegex(said["figure"], "^[0-9]+ images/s .*; PyTorch has none$")

    def test_a_run_says_what_its_steps_move(self):
        shape = {"network": "resnet18", "image": 32}
        ours = throughput.Ours(BUILD / "tests/gpu/foretrain-exec-software", checks.SYNTHETIC, 1, 0)
        ours.train(4, "fp16", 1, **shape)
        lines = throughput.schedule(harness.PROGRAM, checks.SYNTHETIC, 4, "convolutions with batch norm", **shape)
        self.assertEqual(len(ours.moved), max(throughput.counts(lines)) + 1)
        # Images with 3 channels padded to 4, a window of 7 x 7 and 64 channels of 16 x 16, 2 bytes each.
        self.assertEqual(ours.moved[1], 2 * (4 * 32 * 32 * 4 + 64 * 7 * 7 * 4 + 4 * 16 * 16 * 64))
