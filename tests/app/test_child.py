#!/usr/bin/python3
"""foretrain-sim may die in any way: the user sees one line."""
import os
import shlex
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
        """Exit code 70, one line with all @words and how to repeat it."""
        self.assertEqual(code, 70)
        self.assertEqual(said.count("\n"), 1, said)
        for word in (*words, "foretrain-sim stopped", "run it by hand: foretrain-sim", "job.yaml"):
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

    def test_the_line_to_run_by_hand_is_one_word_a_name(self):
        for name in ("a'b", "a b", "a$b", "a\nb", "a`id`", "~a"):
            self.job = self.write(name + ".yaml", support.JOB)
            said = self.fake("exit 3\n")[1]
            line = said[said.index("by hand: ") + len("by hand: "):]
            self.assertIn(str(self.job), shlex.split(line))
            done = subprocess.run(["sh", "-c", f"printf '%s\\0' {line}"], capture_output=True,
                                  text=True, check=True)
            self.assertIn(str(self.job), done.stdout.split("\0"))

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

    def simulate(self, *words):
        """Run it as a user would."""
        return subprocess.run([support.program_beside(), *map(str, words)], capture_output=True,
                              text=True, timeout=1000, check=False)

    def test_it_prints_a_trace(self):
        for words in ((self.job, "--phase=1"), (self.job, "--baseline"),
                      ("--collective=1MB", "--platform=t1-torus", "--grid=4x4",
                       "--algorithm=torus2d")):
            done = self.simulate(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout)

    def test_its_faults_are_messages(self):
        self.assertEqual(self.simulate().returncode, 64)
        self.assertEqual(self.simulate(self.directory / "gone.yaml").returncode, 66)
        self.assertEqual(self.simulate("--collective=1MB").returncode, 64)


if __name__ == "__main__":
    unittest.main(verbosity=2)
