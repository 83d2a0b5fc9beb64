#!/usr/bin/python3
"""The acceptance for GPUs, on a machine without one.

Usage: test_acceptance.py BUILD_DIRECTORY [CASES...]; all but Software unless said

What finds libraries, judges and reports is tried with made-up input; what compares with PyTorch, on
the CPU, with the device in software, on one rank and on four.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
sys.path.insert(0, str(FOLDER))
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import acceptance
import machine
import pictures
import ranks
import report
import sanitize
import throughput
import toolchain
from report import Clock, Failure, Outcome, Report, Runner, Skip, run_part
from test_calls import Test

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()


def torch_python():
    """A python3 with PyTorch, or None."""
    for python in ("/usr/bin/python3", sys.executable):
        if subprocess.run([python, "-c", "import torch, torchvision"], capture_output=True,
                          check=False).returncode == 0:
            return python
    return None


class Reports(Test):
    """Parts, their time, the table and the file."""

    def setUp(self):
        super().setUp()
        self.report = Report(self.folder, {"name": "a GPU"}, show=lambda line: None)

    def written(self):
        """The file."""
        return json.loads(pathlib.Path(self.report.path).read_text(encoding="utf-8"))

    def test_the_file_has_every_part_as_soon_as_it_is_done(self):
        self.report.add("one", Outcome("pass", "1", "2", {"x": 3}), 4.04)
        self.assertEqual(self.written()["verdict"], "pass")
        self.report.add("two", Outcome("fail", "5"), 6)
        said = self.written()
        self.assertEqual((said["schema"], said["verdict"], said["machine"]["name"]),
                         (report.SCHEMA, "fail", "a GPU"))
        self.assertEqual(said["parts"][0], {"name": "one", "verdict": "pass", "figure": "1",
                                            "limit": "2", "data": {"x": 3}, "seconds": 4.0})

    def test_nothing_done_is_no_success(self):
        self.assertTrue(self.report.failed())

    def test_what_is_skipped_or_measured_does_not_fail(self):
        self.report.add("one", Outcome("skip"), 1)
        self.report.add("two", Outcome("measured"), 1)
        self.assertFalse(self.report.failed())

    def test_the_table_has_a_line_for_each(self):
        self.report.add("one", Outcome("pass", "figure", "limit"), 1.4)
        lines = self.report.table().split("\n")
        self.assertEqual(lines[0].split(), ["part", "verdict", "figure", "limit", "seconds"])
        self.assertEqual(lines[1].split(), ["one", "pass", "figure", "limit", "1"])

    def test_whatever_happens_in_a_part_is_an_outcome(self):
        def raising(error):
            def part():
                raise error
            return part
        clock = Clock(100)
        self.assertEqual(run_part(raising(Skip("why")), clock), Outcome("skip", "why"))
        self.assertEqual(run_part(raising(Failure("why")), clock), Outcome("fail", "why"))
        self.assertEqual(run_part(raising(KeyError("x")), clock).figure, "KeyError: 'x'")
        self.assertEqual(run_part(lambda: Outcome("pass"), clock), Outcome("pass"))
        self.assertEqual(run_part(lambda: Outcome("pass"), Clock(1)).figure, "no time was left")

    def test_a_part_has_no_more_time_than_is_left(self):
        now = [100.0]
        clock = Clock(50, lambda: now[0])
        self.assertEqual(clock.part(20).left(), 20)
        now[0] += 45
        self.assertEqual(clock.part(20).left(), 5)

    def test_a_command_beyond_its_time_ends_with_all_it_started(self):
        runner = Runner(Clock(0.5), self.folder)
        mark = str(self.folder / "mark")
        with self.assertRaisesRegex(Failure, "out of time"):
            # One of a process group of its own, as mpirun starts ranks.
            runner.run([sys.executable, "-c", "import os, time\nif not os.fork():\n"
                        f" os.setpgid(0, 0); time.sleep(2); open({mark!r}, 'w')\ntime.sleep(60)"])
        subprocess.run(["sleep", "2.2"], check=True)
        self.assertFalse(os.path.exists(mark))

    def test_a_failing_command_is_told_by_its_error(self):
        runner = Runner(Clock(20), self.folder)
        with self.assertRaisesRegex(Failure, "sh: exit 3: error: told"):
            runner.run(["sh", "-c", "echo begun; echo error: told >&2; echo '   ^' >&2; exit 3"])
        with open(runner.log, encoding="utf-8") as file:
            self.assertIn("[3]", file.read())

    def test_the_last_object_is_found_behind_other_lines(self):
        self.assertEqual(report.last_object('{"a": 1}\nand\n{\n "b": 2\n}\n'), {"b": 2})
        with self.assertRaises(Failure):
            report.last_object("nothing")


class Libraries(Test):
    """What toolchain.py finds and unpacks."""

    def test_nvcc_says_where_its_toolkit_is(self):
        folder = self.folder.resolve()
        for name in ("bin", "toolkit/bin"):
            (folder / name).mkdir(parents=True)
        toolchain.write_program(folder / "toolkit/bin/nvcc", "#!/bin/sh\necho '#$ TOP="
                                f"{folder}/toolkit/bin/..' >&2\n")
        toolchain.write_program(folder / "bin/nvcc",
                                f'#!/bin/sh\nexec {folder}/toolkit/bin/nvcc "$@"\n')
        with mock.patch.dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}"):
            self.assertEqual(toolchain.find_toolkit([]), folder / "toolkit")

    def test_without_packages_it_is_said_how_to_fetch_them(self):
        with self.assertRaisesRegex(toolchain.Missing, "carry.sh"):
            toolchain.unpack_carried(self.folder, self.folder / "to")

    def test_every_package_of_the_list_has_a_reason(self):
        lines = [line for line in (FOLDER / "packages.txt").read_text(encoding="utf-8").split("\n")
                 if line and not line.startswith("#")]
        self.assertTrue(all("#" in line for line in lines))

    def python_packages(self):
        """cuDNN and NCCL as PyTorch brings them."""
        for name, files in {"cudnn": ["include/cudnn.h", "lib/libcudnn.so.9",
                                      "lib/libcudnn_graph.so.9"],
                            "nccl": ["include/nccl.h", "lib/libnccl.so.2"]}.items():
            for file in files:
                path = self.folder / name / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("", encoding="utf-8")
        return [str(self.folder / "cudnn"), str(self.folder / "nccl")]

    def toolkit(self):
        """A toolkit without them."""
        root = self.folder / "toolkit"
        for file in ("include/cuda_runtime_api.h", "lib64/libcudart.so"):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text("", encoding="utf-8")
        return root

    @mock.patch.object(toolchain, "system_has", lambda *_: False)
    def test_libraries_of_python_packages_get_the_names_that_linkers_look_for(self):
        target = self.folder / "overlay"
        self.assertTrue(toolchain.overlay(self.toolkit(), self.python_packages(), target))
        found = {str(path.relative_to(target)) for path in target.rglob("*.*")}
        self.assertLessEqual({"include/cudnn.h", "include/nccl.h", "lib/libcudnn.so",
                              "lib/libcudnn.so.9", "lib/libcudnn_graph.so.9", "lib/libnccl.so"},
                             found)

    @mock.patch.object(toolchain, "system_has", lambda *_: False)
    def test_what_is_nowhere_is_named(self):
        with self.assertRaisesRegex(toolchain.Missing, "cudnn.h"):
            toolchain.overlay(self.toolkit(), [], self.folder / "overlay")


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

    def test_pictures_are_judged_by_how_they_were_made(self):
        ways = [{"name": name, "mean": 0.01, "worst": 0.005, "labels": True, "images_per_s": 1e4}
                for name in ("pack", "CPU", "device")]
        said = {"decoder": "nvJPEG", "ways": ways}
        ways[2].update(mean=1.5, worst=30)
        self.assertEqual(pictures.judge(said).verdict, "pass")
        for way, key, value in ((0, "worst", 0.02), (1, "worst", 0.02), (2, "mean", 2.1),
                                (1, "labels", False)):
            before = ways[way][key]
            ways[way][key] = value
            self.assertEqual(pictures.judge(said).verdict, "fail", (way, key))
            ways[way][key] = before
        with self.assertRaisesRegex(Skip, "nvJPEG is not installed; pack 10000 images/s"):
            pictures.judge({"decoder": None, "ways": ways[:2]})
        ways[0]["worst"] = 0.02
        self.assertEqual(pictures.judge({"decoder": None, "ways": ways[:2]}).verdict, "fail")

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


# Instead of foretrain-exec: losses that depend on the ranks.
FAKE_EXEC = """#!{python}
import json, os, sys
steps = int(sys.argv[sys.argv.index("--steps") + 1])
rank, ranks = (int(os.environ.get("OMPI_COMM_WORLD_" + n, d)) for n, d in (("RANK", 0), ("SIZE", 1)))
if "fail" in sys.argv[2] and rank == 2:
    sys.exit("error: told by rank 2")
if ranks > 1 and os.environ["NCCL_SOCKET_IFNAME"] != "lo":
    sys.exit("error: not over loopback")
off = 0.01 if "off" in sys.argv[2] and ranks > 1 else 1e-5 * ranks
if rank == 0:
    print("NCCL version 2.28.9")
    print(json.dumps({{"step": [{{"loss": 2.0 / (i + 1) * (1 + off)}} for i in range(steps)]}}))
"""


class Ranks(Test):
    """Four processes against one."""

    def setUp(self):
        super().setUp()
        self.program = self.folder / "exec"
        if not shutil.which("mpirun"):
            self.skipTest("mpirun (package openmpi-bin) is not installed")
        toolchain.write_program(self.program, FAKE_EXEC.format(python=sys.executable))
        self.runner = Runner(Clock(60), self.folder)

    def compare(self, job):
        """Of the fake."""
        return ranks.compare(self.runner, str(self.program), job, "cuda", 5, 1)

    def test_losses_that_agree_pass(self):
        said = self.compare("good.yaml")
        self.assertEqual((said.verdict, len(said.data["four"])), ("pass", 5))

    def test_losses_that_differ_fail(self):
        self.assertEqual(self.compare("off.yaml").verdict, "fail")

    def test_a_rank_that_fails_is_named(self):
        with self.assertRaisesRegex(Failure, "mpirun: exit 1: error: told by rank 2"):
            self.compare("fail.yaml")


class WholeProgram(unittest.TestCase):
    """acceptance.sh itself."""

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
        said = self.parts("input", LD_LIBRARY_PATH=str(BUILD / "tests/cuda"))
        self.assertEqual(said["input"]["verdict"], "pass", said)
        ways = {way["name"]: way for way in said["input"]["data"]["ways"]}
        self.assertLessEqual({"CPU", "device"}, set(ways))
        self.assertEqual(said["input"]["data"]["decoder"], "nvJPEG 13.0, hardware")
        for way in ways.values():
            self.assertEqual(way["refused"], 0)
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
