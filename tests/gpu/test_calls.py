#!/usr/bin/python3
"""What acceptance.py does when, on clocks, servers and programs that are made up."""
import argparse
import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import acceptance
import machine
import report
import throughput
import toolchain
from report import Clock, Failure, OutOfTime, Outcome, Report, Skip, run_part


class Test(unittest.TestCase):
    """With a folder, and an acceptance on a GPU that is not there."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def acceptance(self, **options):
        """As after read_options()."""
        found = acceptance.Acceptance(argparse.Namespace(**{
            "out": self.folder, "build": self.folder, "scratch": self.folder, "tiny": False,
            "torch": "cuda", "only": None, "device": "cuda", "threads": 1, "patience": 1,
            "python": sys.executable, "built": True, "software": False,
            "gpu": {"name": "NVIDIA H200"}, **options}), dict(os.environ))
        found.begin(Clock(100))
        return found


class Time:
    """A clock that stands until a part adds to it."""

    def __init__(self):
        self.at = 0

    def now(self):
        """Seconds."""
        return self.at


# Instead of pytorch_server.py: notes when it works, and answers as that does.
FAKE_SERVER = """#!{python}
import json, sys, time
def work(reply, seconds):
    begin = time.monotonic()
    time.sleep(seconds)
    with open({busy!r}, "a") as file:
        print(begin, time.monotonic(), file=file)
    print(json.dumps(reply), flush=True)
work({{"compiled": 1, "failed": 0}}, 1)
for line in sys.stdin:
    word = line.split()
    work({{"capture": lambda: {{"batch": int(word[1]), "variants": ["eager-fp16"], "failed": {{}}}},
          "window": lambda: {{"seconds": [0.05]}},
          "rates": lambda: {{"flops": 1e12, "bytes_per_s": 1e12}}}}[word[0]](), 0.05)
"""


class Still(Test):
    """PyTorch's server and our programs, which must not run at the same time."""

    def test_pytorch_does_nothing_while_ours_is_timed(self):
        busy, ours = str(self.folder / "busy"), []
        server = self.folder / "server"
        toolchain.write_program(server, FAKE_SERVER.format(python=sys.executable, busy=busy))

        def run(_, words, **__):
            begin = time.monotonic()
            time.sleep(0.02)
            ours.append((begin, time.monotonic()))
            return subprocess.CompletedProcess(words, 0, json.dumps(
                {"loss_last": 1, "step": [{"step_s": 0.1}] * 60, "distance": 0, "spread": 1,
                 "steps": 1}), "")
        whole = self.acceptance(python=str(server))
        table = Report(self.folder, {}, show=lambda _: None)
        with mock.patch.object(report.Runner, "run", run):
            acceptance.run(whole, table, Clock(540))
        whole.server.close()
        with open(busy, encoding="utf-8") as file:
            theirs = [tuple(map(float, line.split())) for line in file]
        both = [(mine, other) for mine in ours for other in theirs
                if mine[0] < other[1] and other[0] < mine[1]]
        self.assertEqual(both, [])
        self.assertGreater(len(ours), 20)
        self.assertGreaterEqual(len(theirs), 2 + 2 * (1 + throughput.WINDOWS), table.table())

    def test_a_server_that_breaks_costs_nothing_but_its_figures(self):
        server = self.folder / "server"
        toolchain.write_program(server, """#!/bin/sh
echo '{"compiled": 1, "failed": 0}'; read word; echo '{"error": "told"}'""")
        whole = self.acceptance(python=str(server))
        with self.assertRaisesRegex(Failure, "PyTorch: told"):
            whole.pytorch()
        whole.server.process.wait()
        for _ in range(2):
            with self.assertRaisesRegex(Failure, "has ended"):
                whole.server.capture(256, 5)
        whole.server.close()

    def test_a_server_that_is_late_is_ended(self):
        server = self.folder / "server"
        toolchain.write_program(server, "#!/bin/sh\nsleep 60\n")
        asked = throughput.PyTorch(str(server), str(self.folder), [], self.folder / "log")
        with self.assertRaises(OutOfTime):
            asked.wait(0.1)
        self.assertIsNotNone(asked.process.poll())


class Compiling(Test):
    """pytorch_server.py, without PyTorch."""

    def made(self, seconds):
        """(what was made, what was not) of two batches, each 50 s of the compiler's, in so many."""
        stand_ins = {"torch": mock.MagicMock(), "torchvision": mock.MagicMock()}
        with mock.patch.dict(sys.modules, stand_ins), mock.patch("os.dup2"), \
                mock.patch("os.dup", lambda _: os.open(os.devnull, os.O_WRONLY)), \
                contextlib.redirect_stderr(io.StringIO()), mock.patch("sys.stdin", []):
            import pytorch_server  # pylint: disable=import-outside-toplevel
            clock = Time()

            def compiling(*_):
                clock.at += 50
            with mock.patch("time.perf_counter", clock.now), \
                    mock.patch.object(pytorch_server.Variant, "warm", compiling):
                server = pytorch_server.Server(argparse.Namespace(
                    device="cuda", network="resnet50", image=224, batches=[256, 512],
                    seconds=seconds))
                server.serve()
                server.answers.close()
        return ([f"{name} {batch}" for batch, name in server.variants],
                [f"{name} {batch}" for batch, name in server.failed])

    def test_what_there_is_no_time_to_compile_is_left_out(self):
        eager = [f"eager-{kind} {batch}" for kind in ("fp16", "bf16") for batch in (256, 512)]
        compiled = [name.replace("eager", "compiled") for name in eager]
        for seconds, count in ((200, 4), (199, 3), (99, 1), (0, 1), (-1, 0)):
            made, failed = self.made(seconds)
            self.assertEqual(made, [*eager, *compiled[:count]] if seconds >= 0 else [], seconds)
            self.assertEqual(len(made) + len(failed), 8)


class Driver(unittest.TestCase):
    """What machine.py asks of the driver."""

    def test_a_gpu_is_described(self):
        def fill(values):
            def call(target, *words):
                getattr(target, "_obj", target).value = values.get(words[0] if words else None, 1)
                return 0
            return call
        driver = mock.Mock()
        driver.cuInit.return_value = driver.cuDeviceGet.return_value = 0
        driver.cuDeviceGetCount = fill({})
        driver.cuDeviceGetName = fill({256: b"NVIDIA H200"})
        for mode in (0, 3):
            driver.cuDeviceGetAttribute = fill({75: 9, 76: 0, 16: 132, 20: mode})
            with mock.patch("ctypes.CDLL", lambda _: driver):
                self.assertEqual(machine.gpu(), {"name": "NVIDIA H200", "capability": "90",
                                                 "multiprocessors": 132, "shared": mode == 0})


class Plans(Test):
    """Of convolutions."""

    def test_they_outlive_a_call(self):
        carried, work = (self.folder / name for name in ("carried", "work"))
        carried.mkdir()
        for name in ("convolutions", "convolutions-tuned"):
            (carried / name).write_text("carried", encoding="utf-8")
            cache = pathlib.Path(toolchain.bring_plans(carried, work)) / "foretrain" / name
            self.assertEqual(cache.read_text(encoding="utf-8"), "carried")
            cache.write_text("found", encoding="utf-8")
            toolchain.bring_plans(carried, work)
            toolchain.keep_plans(work, self.folder)
            self.assertEqual((self.folder / name).read_text(encoding="utf-8"), "found")

    def test_there_may_be_none(self):
        toolchain.bring_plans(self.folder, self.folder / "work")
        toolchain.keep_plans(self.folder / "work", self.folder)
        self.assertEqual(os.listdir(self.folder), [])


class Verdicts(Test):
    """Of parts that do not just run."""

    def test_what_had_too_little_time_is_skipped(self):
        def part():
            raise OutOfTime("late")
        self.assertEqual(run_part(part, Clock(50).part(20)), Outcome("fail", "late"))
        self.assertEqual(run_part(part, Clock(50).part(60)),
                         Outcome("skip", "too little time was left: late"))
        self.assertEqual(run_part(part, Clock(1)), Outcome("skip", "no time was left"))

    def losses(self, *distances):
        """The part, of runs that come so far from PyTorch's."""
        said = [{"distance": distance, "spread": 1.0, "steps": 50} for distance in distances]
        whole = self.acceptance()
        with mock.patch.object(whole, "compare", lambda *_: said.pop(0)):
            return whole.losses(), len(said)

    def test_losses_are_compared_again_once(self):
        self.assertEqual(self.losses(0.5, 0.5)[1], 1)
        said, left = self.losses(1.5, 0.5)
        self.assertEqual((said.verdict, left), ("pass", 0))
        self.assertRegex(said.figure, "once repeated.* at first 1.5, more than 1")
        said, left = self.losses(1.5, 1.2, 0.5)
        self.assertEqual((said.verdict, left), ("fail", 1))

    def test_a_stack_that_cannot_be_pinned_says_nothing_of_kernels(self):
        with open(pathlib.Path(__file__).with_name("pinned.c"), encoding="utf-8") as file:
            self.assertIn(f'"{acceptance.NO_STACK}: ', file.read())
        for line, error in ((f"{acceptance.NO_STACK}: not supported", Skip),
                            ("no NVIDIA GPU to test on: no device", Failure)):
            whole = self.acceptance()
            with mock.patch.object(report.Runner, "run", lambda _, words, **__:
                                   subprocess.CompletedProcess(words, 77, f"{line}\n", "")):
                with self.assertRaisesRegex(error, re.escape(line)):
                    whole.test_programs(["test_a"])()

    def test_turns_end_while_there_is_time(self):
        def spend(seconds):
            clock.at += seconds
            return {"seconds": [0.1]}
        for budget, turns in ((1000, 3), (121, 2), (60, 1)):
            clock = Time()
            ours = mock.Mock(window=lambda *_: spend(10)["seconds"])
            theirs = mock.Mock(ask=lambda *_: spend(20), capture=lambda *_: {"variants": ["a", "b"]})
            said = throughput.interleave(ours, theirs, 256, 40, ["fp16"],
                                         Clock(budget, clock.now))
            self.assertEqual((said[0]["fp16"]["windows"], said[1]["b"]["windows"]), (turns, turns))

    def test_a_variant_that_fails_leaves_the_others(self):
        def ask(words, _):
            if "eager" in words:
                raise Failure("told")
            return {"seconds": [0.2]}
        theirs = mock.Mock(ask=ask, capture=lambda *_: {"variants": ["compiled-fp16", "eager-fp16"],
                                                        "failed": {}})
        ours = mock.Mock(window=lambda *_: [0.1])
        said = throughput.interleave(ours, theirs, 256, 40, ["fp16"], Clock(100))
        self.assertEqual((list(said[0]), list(said[1])), (["fp16"], ["compiled-fp16"]))
        self.assertEqual(said[2]["failed"], {"eager-fp16": "told"})

    def test_convolutions_are_judged_by_their_last_line(self):
        for status, verdict in ((0, "pass"), (1, "fail"), (77, "fail")):
            whole = self.acceptance()
            with mock.patch.object(report.Runner, "run", lambda _, words, status=status, **__:
                                   subprocess.CompletedProcess(words, status, "forward\n2 f\n", "")):
                self.assertEqual(whole.convolutions(), Outcome(verdict, "2 f", "0 faults"))

    def test_searches_with_engines_that_are_wrong_are_counted(self):
        search = acceptance.ROOT / "exec/cuda/conv/conv_cudnn.c"
        line = "foretrain-exec: of cuDNN's "
        self.assertIn(line, search.read_text(encoding="utf-8"))
        for told, end in (("", "loss 7.000"), (f"{line}10 engines ...\n" * 3, " in 3 searches: log.txt")):
            whole = self.acceptance()
            with mock.patch.object(report.Runner, "run", lambda _, words, told=told:
                                   subprocess.CompletedProcess(words, 0, '{"loss_last": 7}', told)):
                self.assertTrue(whole.plans(256, "fp16")().figure.endswith(end))

    def test_a_gpu_is_judged_by_what_its_like_reached(self):
        judge = throughput.judge_published
        self.assertEqual(judge(7951, "NVIDIA H200").verdict, "pass")
        self.assertEqual(judge(7949, "NVIDIA H200").verdict, "fail")
        self.assertEqual(judge(7949, "NVIDIA H200").limit, ">= 7950 images/s on an H200")
        self.assertEqual(judge(7161, "NVIDIA H100 80GB HBM3").verdict, "pass")
        self.assertEqual(judge(7161, "NVIDIA H100 PCIe").verdict, "measured")

    def test_commands_of_the_page_name_parts_of_the_acceptance(self):
        names = {name for stage in self.acceptance().stages() for lane in stage
                 for name, _, _ in lane}
        page = (acceptance.ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
        commands = re.findall(r'acceptance\.sh .*--only "([^"]*)"', page)
        self.assertGreater(len(commands), 10)
        for parts in commands:
            self.assertLessEqual(set(parts.split(",")), names)

    def test_of_a_failed_link_the_name_is_told(self):
        self.assertEqual(report.gist("[1/2] Linking\nld: a.o: undefined reference to `f'\n"
                                     "collect2: error: ld returned 1 exit status\n"),
                         "ld: a.o: undefined reference to `f'")


if __name__ == "__main__":
    unittest.main()
