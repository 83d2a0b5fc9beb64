"""What a parent may leave behind: SIGCHLD ignored, descriptors closed or few, files that may not
grow.  Whatever it is, there is an end, with the right message and exit code."""
import os
import resource
import signal
import unittest

import support
from harness import TOY, execute
from support import PROGRAM, has_executor, has_simulator

HAS_MPI = has_executor() and "mpirun" in support.run("train", TOY, "--dry-run", "--device", "cpu-naive").stdout
LOSE_CHILDREN = os.environ.get("LOSE_CHILDREN")  # none where a sanitizer must be loaded first
TRAIN = ("train", TOY, "--device=cpu-naive", "--quiet", "--steps=2")
ONE = ("-n", 1, "--set", "allreduce.grid=null")


def run(*words, before=None, **how):
    """Run foretrain after calling @before in the child; it must end."""
    return execute(PROGRAM, *words, preexec_fn=before, **how)


def ignore_children():
    """As some supervisors and `trap '' CHLD` do."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def block_children():
    """A mask is inherited as well."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})


def closing(*files):
    """What closes these descriptors."""
    return lambda: [os.close(file) for file in files]


def limiting(what, limit):
    """What sets a limit."""
    return lambda: resource.setrlimit(what, (limit, limit))


class Children(support.Case):
    """Their exit codes are known, or it is said that they are lost."""

    @unittest.skipUnless(has_simulator(), "built without SimGrid")
    def test_a_simulation_ends(self):
        expected = run("predict", self.job, "-b", "sim").stdout
        for before in (ignore_children, block_children):
            self.assertEqual(run("predict", self.job, "-b", "sim", before=before).stdout, expected)

    @unittest.skipUnless(has_executor(), "there is no foretrain-exec")
    def test_what_a_rank_says_is_the_exit_code(self):
        for before in (ignore_children, block_children):
            done = run(*TRAIN, *ONE, "--resume", "/nonexist", before=before)
            self.assertEqual(done.returncode, 66, done.stderr)
            self.assertIn("/nonexist: there is no", done.stderr)
            if HAS_MPI:
                done = run(*TRAIN, "--resume", "/nonexist", before=before)
                self.assertEqual(done.returncode, 66, done.stderr)

    def test_a_rank_that_is_killed_is_told(self):
        for number in (signal.SIGKILL, signal.SIGBUS):
            fake = self.write("foretrain-exec", f"#!/bin/sh\nkill -{number.value} $$\n")
            fake.chmod(0o755)
            done = run(*TRAIN, *ONE, environment={"FORETRAIN_LIBEXEC": str(self.directory)})
            self.assertEqual(done.returncode, 128 + number, done.stderr)
            self.assertIn(f"a rank was killed by signal {number.value} (", done.stderr)
            self.assertEqual("memory" in done.stderr, number == signal.SIGKILL)

    @unittest.skipUnless(LOSE_CHILDREN, "a sanitizer needs more memory than any limit")
    def test_a_program_that_is_not_loaded_ends_with_a_documented_code(self):
        env = {"FORETRAIN_LIBEXEC": str(self.directory)}
        for program, words in (("foretrain-exec", (*TRAIN, *ONE)), ("foretrain-sim", ("predict", self.job, "-b", "sim")),
                               ("foretrain-read", ("import", "onnx", self.job))):
            for code, usual in (126, 69), (127, 69), (1, 70):
                self.write(program, f"#!/bin/sh\necho 'libx.so: cannot map' >&2\nexit {code}\n", 0o755)
                if code > 1:
                    done = run(*words, environment=env, before=limiting(resource.RLIMIT_AS, 1 << 30))
                    self.assertEqual((done.returncode, done.stdout), (71, ""), (words, code, done.stderr))
                done = run(*words, environment=env)
                self.assertEqual((done.returncode, done.stdout), (usual, ""), (words, code, done.stderr))
                self.assertIn("libx.so: cannot map", done.stderr)

    @unittest.skipUnless(LOSE_CHILDREN, "the sanitizer must be loaded first")
    def test_a_child_that_is_lost_is_an_end(self):
        lost = {"LD_PRELOAD": LOSE_CHILDREN or ""}
        if has_simulator():
            done = run("predict", self.job, "-b", "sim", environment=lost)
            self.assertEqual((done.returncode, done.stdout), (70, ""))
            self.assertIn("how it ended is lost", done.stderr)
        if has_executor():
            done = run(*TRAIN, *ONE, environment=lost)
            self.assertEqual(done.returncode, 71, done.stderr)  # whatever it said before it was ended
            self.assertIn("its exit code is lost", done.stderr)


class Descriptors(support.Case):
    """Closed ones, and few."""

    def commands(self):
        """Words that answer on stdout."""
        yield "check", self.job
        yield "show", "model", "resnet50"
        if has_simulator():
            yield "predict", self.job, "-b", "sim"
        if has_executor():
            yield *TRAIN, *ONE
        if HAS_MPI:
            yield TRAIN

    def test_a_closed_stdout_cannot_be_written(self):
        for words in self.commands():
            for files in ((1,), (0, 1)):
                done = run(*words, before=closing(*files), stdout=None)
                self.assertEqual(done.returncode, 74, done.stderr)
                self.assertRegex(done.stderr, r"cannot write to standard output\n$")
            self.assertEqual(run(*words, before=closing(0, 1, 2)).returncode, 74, words)

    def test_a_full_disk_is_an_output_error(self):
        for words in ("--version",), *self.commands():
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = run(*words, stdout=full)
            self.assertEqual(done.returncode, 74, done.stderr)
            self.assertRegex(done.stderr, r"cannot write to standard output\n$")

    def test_others_may_be_closed(self):
        for words in self.commands():
            expected = run(*words)
            self.assertEqual(expected.returncode, 0, expected.stderr)
            for files in ((0,), (2,), (0, 2)):
                done = run(*words, before=closing(*files))
                self.assertEqual(done.returncode, 0, (files, done.stderr))
                if words[0] != "train":  # which tells times
                    self.assertEqual(done.stdout, expected.stdout)

    def few(self, limit, *words):
        """What comes of it when so many descriptors may be open."""
        done = run(*words, before=limiting(resource.RLIMIT_NOFILE, limit))
        if done.returncode:  # 127: the program itself could not be loaded
            self.assertIn(done.returncode, (71, 127), (limit, words, done.stderr))
            self.assertEqual(done.stdout, "")
            last = done.stderr.splitlines()[-1]
            self.assertRegex(last, "Too many open files|need.* open files|loading shared", words)
        return done.returncode

    def test_few_are_enough_or_it_is_said(self):
        for words in self.commands():
            self.assertEqual(self.few(200, *words), 0, words)
            for limit in range(3, 21):
                self.few(limit, *words)
        if has_executor():
            for limit in (9, 20, 30, 40, 50, 60, 73):  # MPI waited for ever, or talked of plugins
                self.assertEqual(self.few(limit, *TRAIN, *ONE), 71)

    @unittest.skipUnless(has_executor(), "there is no foretrain-exec")
    def test_a_soft_limit_is_raised(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        done = run(*TRAIN, *ONE, before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                                   (20, hard)))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_file_that_may_not_grow_is_told(self):
        if has_simulator():
            done = run("predict", self.job, "-b", "sim", environment=support.NO_COUNTERS,
                       before=limiting(resource.RLIMIT_FSIZE, 500))
            self.assertEqual((done.returncode, done.stdout), (74, ""))
            self.assertIn("cannot store the workload: File too large", done.stderr)
        with open(self.directory / "out", "wb") as out:
            done = run("predict", "--help", stdout=out, environment=support.NO_COUNTERS,
                       before=limiting(resource.RLIMIT_FSIZE, 100))
        self.assertEqual(done.returncode, 74, done.stderr)

    def test_the_simulator_says_so_itself(self):
        if not has_simulator():
            self.skipTest("built without SimGrid")
        workload = self.workload("collective", "--grid=2x1", "--platform=t1-torus", "--backend=sim")
        done = self.execute(74, support.SIMULATOR, preexec_fn=closing(1), input=workload, stdout=None)
        self.assertIn("cannot write", done.stderr)
