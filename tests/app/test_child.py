#!/usr/bin/python3
"""foretrain-sim may die in any way: the user sees one line."""
import contextlib
import os
import re
import signal
import subprocess
import time
import unittest

import support
from support import PROGRAM, has_simulator

BACKTRACE = """echo '[0.000000] ./src/x.cpp:7: [root/CRITICAL] link has no bandwidth' >&2
echo 'Backtrace (displayed in process maestro):' >&2
printf '  ->  #%d simgrid::xbt::Backtrace::Backtrace() at ./b.cpp:1' 0 >&2
kill -ABRT $$
"""


class Child(support.Case):
    """A script stands in for foretrain-sim."""

    def fake(self, body):
        """What foretrain says when foretrain-sim is @body; with its exit code."""
        self.write("foretrain-sim", "#!/bin/sh\n" + body, mode=0o755)
        done = support.run("predict", self.job, "-b", "sim", FORETRAIN_LIBEXEC=str(self.directory))
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def assert_one_line(self, code, said, *words):
        """Exit code 70, one line with all @words and what was simulated."""
        self.assertEqual(code, 70)
        self.assertEqual(said.count("\n"), 1, said)
        for word in (*words, "foretrain-sim stopped", "of ", "job.yaml"):
            self.assertIn(word, said)

    def test_killed(self):
        self.assert_one_line(*self.fake("kill -9 $$\n"), "signal 9", "phase 1")

    def test_aborted_with_a_backtrace(self):
        code, said = self.fake(BACKTRACE)
        self.assert_one_line(code, said, "signal 6", "link has no bandwidth")
        self.assertNotIn("Backtrace", said)

    def test_garbage_empty_and_truncated_answers(self):
        for body in ("echo garbage\n", "exit 0\n", "head -c 100000 /dev/urandom\n"):
            self.assert_one_line(*self.fake(body), "not a trace")

    def test_an_unknown_exit_code(self):
        self.assert_one_line(*self.fake("echo tired >&2; exit 3\n"), "exit code 3", "tired")

    def test_a_message_of_its_own_is_passed_on(self):
        self.assertEqual(self.fake("echo job.yaml:1:1: error: no >&2; exit 65\n"),
                         (65, "job.yaml:1:1: error: no\n"))

    def test_what_cannot_be_executed(self):
        self.write("foretrain-sim", "#!/no/such/shell\n", mode=0o755)
        said = self.refused(69, "predict", self.job, "-b", "sim",
                            FORETRAIN_LIBEXEC=str(self.directory))
        self.assertIn("cannot start", said)

    def test_debugging_shows_everything(self):
        self.write("foretrain-sim", "#!/bin/sh\n" + BACKTRACE, mode=0o755)
        done = support.run("predict", self.job, "-b", "sim", FORETRAIN_DEBUG="1",
                           FORETRAIN_LIBEXEC=str(self.directory))
        self.assertIn("Backtrace", done.stderr)

    def test_a_child_dies_with_its_parent(self):
        pid_file = self.directory / "pid"
        self.write("foretrain-sim", f"#!/bin/sh\necho $$ > {pid_file}.new\n"
                   f"mv {pid_file}.new {pid_file}\nexec sleep 100000\n", mode=0o755)
        environment = {**os.environ, "FORETRAIN_LIBEXEC": str(self.directory)}
        with subprocess.Popen([PROGRAM, "predict", str(self.job), "-b", "sim"], env=environment,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as parent:
            self.wait_for(pid_file.exists)
            parent.send_signal(signal.SIGKILL)
        pid = int(pid_file.read_text(encoding="utf-8"))
        try:
            self.wait_for(lambda: not is_running(pid))
        finally:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)

    def test_a_long_simulation_is_announced(self):
        for done, seconds, said in ((25, 4, "about 16 s by 100 messages"), (50, 5, None), (0, 0, None),
                                    (3, 0.9, None)):
            text = self.fake(f"echo progress 0 100 0 >&2; echo progress {done} 100 {seconds} >&2\n"
                             f"sleep {2 if said else 0.5}; echo job.yaml:1:1: error: no >&2; exit 65\n")[1]
            self.assertIn("job.yaml:1:1: error: no\n", text)
            self.assertNotIn("progress", text)
            lines = [f"simulating {what} of {self.job}: {said}\n"
                     for what in ("phase 1", "phase 2", "the baseline") if said]
            self.assertEqual(sorted(re.findall("simulating .*\n", text)), lines)

    def test_a_terminal_shows_what_is_left(self):
        self.write("foretrain-sim", "#!/bin/sh\necho progress 0 100 0 >&2\n"
                   "sleep 1; echo progress 25 100 1 >&2; sleep 100000\n", mode=0o755)
        said, code = self.on_terminal(r"\(2 running, 1 to come\): \d+ s, 25 %, about \d+ s left",
                                      FORETRAIN_LIBEXEC=str(self.directory))
        self.assertEqual(code, 130)
        self.assertRegex(said, r"error:\x1b\[0m interrupted while simulating phase 1 of .*job.yaml\r\n$")

    @unittest.skipUnless(has_simulator(), "built without SimGrid")
    def test_a_simulation_on_a_terminal_can_be_interrupted(self):
        job = support.ROOT / "experiments/01_sony_abci/v1-1088.yaml"
        said, code = self.on_terminal(r"messages\r\n(.|\s)* \d+ %, about \d+ s left", "--grain=full",
                                      job=job)
        self.assertEqual(code, 130)
        # 13 buckets; a row of 34 sends 2 * 33 rounds, a column of 32 sends 2 * 31
        self.assertIn(f"by {1088 * 13 * (2 * 33 + 2 * 31)} messages", said)
        self.assertRegex(said, r"error:\x1b\[0m interrupted while simulating phase 1 of .*v1-1088.yaml\r\n$")

    def on_terminal(self, until, *words, job=None, **environment):
        """What `predict` prints on a terminal, all of it interrupted after @until; with its code.

        The program does not lead the terminal's session: when a leader exits, Linux drops what is not yet read.
        """
        ours, theirs = os.openpty()
        with subprocess.Popen([PROGRAM, "predict", str(job or self.job), "-bsim", *words], stdin=theirs, stdout=theirs,
                              stderr=theirs, env={**os.environ, "TERM": "xterm", **environment},
                              process_group=0) as process:
            os.close(theirs)
            said, interrupted = "", False
            with contextlib.suppress(OSError):  # the other end is closed
                while part := os.read(ours, 4096):
                    said += part.decode()
                    if not interrupted and re.search(until, said):
                        os.killpg(process.pid, signal.SIGINT)
                        interrupted = True
        os.close(ours)
        return said, process.returncode

    def wait_for(self, condition):
        """As long as only what hangs takes."""
        deadline = time.monotonic() + 600
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)


def is_running(pid):
    """Whether the process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@unittest.skipUnless(has_simulator(), "built without SimGrid")
class ByHand(support.Case):
    """The real foretrain-sim."""

    ONE = ("collective", "--bytes=4MB", "--platform=abci", "--nodes=6", "--backend=sim")

    def simulate(self, code, *words, **options):
        """Run it by hand."""
        return self.execute(code, support.SIMULATOR, *words, **options)

    def test_it_prints_a_trace(self):
        done = self.simulate(0, input=self.workload("predict", self.job, "--set=baseline=null", "-bsim"))
        self.assertTrue(done.stdout.startswith("foretrain-trace 1\nbackend sim\n"))

    def test_the_messages_it_announces_are_those_it_simulates(self):
        for words in (["--algorithm=torus2d"], ["--algorithm=tree", "--chunk=1MB"], ["--algorithm=nccl"],
                      ["--algorithm=hierarchical"], ["--algorithm=ring", "--channels=4"]):
            for grain in ("full", "folded", "smoothed"):
                done = self.simulate(0, input=self.workload(*self.ONE, f"--grain={grain}", *words))
                messages = re.search(r"(?m)^messages (\d+)$", done.stdout)[1]
                self.assertEqual(done.stderr.split("\n")[0], f"progress 0 {messages} 0.000")

    def test_its_faults_are_messages(self):
        self.assertIn("Usage: foretrain-sim", self.simulate(64, self.job).stderr)
        self.assertIn("Usage: foretrain-sim", self.simulate(0, "--help").stdout)
        for text in ("", "{}", "[]", "no JSON", self.workload(*self.ONE)[:-1]):
            self.assertRegex(self.simulate(65, input=text).stderr, "^error: stdin")
