"""Signals to `foretrain train` alone, and keys of its terminal: test_signals.py FORETRAIN.

The first asks the ranks to save and to end, the second ends them at once; nobody is left."""

import os
import pty
import select
import shutil
import signal
import subprocess
import time

import harness
import training
from test_faults import JOB

# A step of many minutes: what ends it is no step that ends by itself.
SLOW = ("--set", "model={network: resnet50, image: 224, classes: 4}", "--set",
        "training.micro_batch=8", "--set", "training.phases=[{epochs: 4, global_batch: 256}]")
ASKED = "the ranks end after the step at hand"


def become_job(words, notes, orders):
    """Be a shell with one job in front: note what becomes of it, and when it has stopped, continue it
    by order."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(words[0], words)
    while True:
        status = os.waitpid(pid, os.WUNTRACED)[1]
        if not os.WIFSTOPPED(status):
            os.write(notes, b"end %d\n" % os.waitstatus_to_exitcode(status))
            os._exit(0)
        os.write(notes, b"stop %d\n" % os.WSTOPSIG(status))
        os.read(orders, 1)
        os.tcsetpgrp(0, pid)
        os.killpg(pid, signal.SIGCONT)


class Terminal:
    """A terminal with foretrain in front."""

    def __init__(self, words):
        self.end, notes = os.pipe()
        orders, self.orders = os.pipe()
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            become_job(words, notes, orders)
        os.close(notes)
        os.close(orders)
        self.text, self.notes = "", ""

    def press(self, key):
        """Type."""
        os.write(self.file, key)

    def read_until(self, done):
        """Take in what comes until `done()`; whether it came to that."""
        deadline = time.monotonic() + harness.HANGS
        while not done() and time.monotonic() < deadline:
            for file in select.select([self.file, self.end], [], [], 0.05)[0]:
                try:
                    read = os.read(file, 4096).decode(errors="replace")
                except OSError:  # everybody has left the terminal
                    read = ""
                if file == self.end:
                    self.notes += read
                else:
                    self.text += read
        return done()

    def close(self):
        """Hang up."""
        os.close(self.file)
        os.close(self.end)
        os.close(self.orders)
        os.waitpid(self.pid, 0)


class Signals(training.Run):
    """What becomes of a run."""

    JOB = JOB

    def begin_slow(self, ranks):
        """Start training that ends no step, and wait until there are ranks."""
        shutil.rmtree(self.out, ignore_errors=True)
        process = self.begin(*self.command("--out", self.out, "-n", str(ranks), *SLOW))
        self.assertTrue(harness.wait_until(lambda: len(self.ranks()) == ranks))
        return process

    def ranks(self):
        return training.ranks_of(self.out)

    def states(self):
        """Of the ranks."""
        found = []
        for pid in self.ranks():
            with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
                found.append(stat.read().rsplit(")", 1)[1].split()[0])
        return found

    def steps(self):
        """The steps that the run has told so far."""
        try:
            lines = (self.out / "steps.csv").read_text(encoding="utf-8").splitlines()
            return [int(line.split(",")[0]) for line in lines[1:]]
        except FileNotFoundError:
            return []

    def ends(self, process, *codes):
        """It ends with one of the exit codes and leaves nobody; what it says."""
        try:
            talk = process.communicate(timeout=1000)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail("it goes on: " + process.communicate()[1])
        self.assertIn(process.returncode, codes, talk)
        self.assertTrue(harness.wait_until(lambda: not self.ranks()), self.ranks())
        return talk

    def test_the_first_saves_and_ends(self):
        for ranks, number in ((1, signal.SIGINT), (2, signal.SIGUSR1), (2, signal.SIGHUP),
                              (2, signal.SIGTERM)):
            shutil.rmtree(self.out, ignore_errors=True)
            process = self.start("-n", str(ranks))
            process.send_signal(number)
            talk = self.ends(process, 75)
            self.assertIn("stopped by a signal after step", talk)
            self.assertIn(self.checkpoints()[-1], talk)
        self.check_whole()

    def test_two_at_once_are_one(self):
        """timeout(1) sends its child two, as child and as member of its group.  However late each is
        sent, a process that rests gets both together, if they are not the same."""
        process = self.start("-n", "2")
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            process.send_signal(number)
        self.ends(process, 75)

    def test_the_second_ends_at_once(self):
        for ranks, number in ((1, signal.SIGINT), (2, signal.SIGINT), (2, signal.SIGTERM)):
            process = self.begin_slow(ranks)
            process.send_signal(signal.SIGUSR1)  # only asks, however often
            talk = ""
            while ASKED not in talk:
                talk = process.stderr.readline()
                self.assertTrue(talk)
            # One that comes so soon after another that both are one does not count.
            self.assertTrue(harness.wait_until(
                lambda: process.poll() is not None or process.send_signal(number)))
            talk = self.ends(process, 128 + number)  # however many come while it says so
            self.assertIn("ended by a signal", talk)
            self.assertNotIn("--resume", talk)  # there is no checkpoint

    def test_none_is_too_early(self):
        for i in range(0, 12, 3):
            ranks, number = 1 + i % 2, (signal.SIGTERM, signal.SIGUSR1)[i // 2 % 2]
            shutil.rmtree(self.out, ignore_errors=True)
            process = self.begin(*self.command("--out", self.out, "-n", str(ranks)))
            process.stderr.readline()  # the line that is started next
            time.sleep(0.05 * i)
            process.send_signal(number)
            talk = process.communicate(timeout=1000)[1]
            self.assertIn(process.returncode, (75, -number), (i, talk))  # or nothing was started
            if process.returncode == 75:
                self.assertIn("stopped by a signal after step", talk)
                self.assertTrue(self.checkpoints())
            self.assertEqual(self.ranks(), [])

    def test_a_killed_parent_leaves_nobody(self):
        for ranks in (1, 2):
            process = self.begin_slow(ranks)
            process.kill()
            self.ends(process, -signal.SIGKILL)

    def test_a_validation_has_nothing_to_save(self):
        process = self.begin(harness.PROGRAM, "validate", self.job, "-n", "2", "--device",
                             "cpu-naive", "--backend", "analytic", *SLOW)
        self.out = self.job  # by which ranks are found
        self.assertTrue(harness.wait_until(lambda: len(self.ranks()) == 2))
        process.send_signal(signal.SIGINT)
        self.assertIn("ended by a signal: Interrupt", self.ends(process, 130))

    def test_control_c_saves(self):
        terminal = Terminal(self.command("--out", self.out, "-n", "2"))
        self.assertTrue(terminal.read_until(self.checkpoints), terminal.text)
        terminal.press(b"\x03")
        self.assertTrue(terminal.read_until(lambda: "end" in terminal.notes), terminal.text)
        terminal.close()
        self.assertEqual(terminal.notes, "end 75\n", terminal.text)
        self.assertEqual(self.ranks(), [])
        self.check_whole()

    def test_control_z_rests_and_goes_on(self):
        terminal = Terminal(self.command("--out", self.out, "-n", "2"))
        self.assertTrue(terminal.read_until(self.checkpoints), terminal.text)
        terminal.press(b"\x1a")
        self.assertTrue(terminal.read_until(lambda: "stop" in terminal.notes), terminal.text)
        self.assertTrue(harness.wait_until(lambda: self.states() == ["T", "T"]), self.states())
        saved = self.checkpoints()
        os.write(terminal.orders, b"g")
        self.assertTrue(terminal.read_until(lambda: self.checkpoints() > saved), terminal.text)
        terminal.press(b"\x03")
        self.assertTrue(terminal.read_until(lambda: "end" in terminal.notes), terminal.text)
        terminal.close()
        self.assertEqual(terminal.notes, f"stop {int(signal.SIGTSTP)}\nend 75\n", terminal.text)

    def test_a_terminal_that_goes_away_lets_ranks_save(self):
        """The one checkpoint is of the last step there was, of a job that goes on for days."""
        never = ("--set", "training.checkpoint.every=0")
        terminal = Terminal(self.command("--out", self.out, "-n", "2", *never))
        self.assertTrue(terminal.read_until(self.steps), terminal.text)
        self.assertEqual(self.checkpoints(), [])
        terminal.close()
        self.assertTrue(harness.wait_until(lambda: not self.ranks()), self.ranks())
        self.assertEqual(self.checkpoints(), [f"ckpt-{self.steps()[-1]:06}"])
        self.check_whole(*never)
