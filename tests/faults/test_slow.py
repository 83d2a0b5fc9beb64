"""Ranks that are slow or stand still: they are named, and training goes on to the same losses."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import faults
import harness

STEPS = 32
JOB = faults.JOB.replace("epochs: 2,", f"epochs: {STEPS // 4},").replace("0.5 epochs", "1 epochs")
CORE = min(os.sched_getaffinity(0))


@unittest.skipUnless(faults.HAS_MPI, "built without MPI, or mpirun is missing")
class Slow(faults.Case):
    """On two ranks."""

    expected = None  # losses, of a run that nothing disturbs

    def setUp(self):
        super().setUp()
        self.place.training.write_text(JOB, encoding="utf-8")
        if not Slow.expected:
            code, _, talk = self.place.train()
            self.assertEqual(code, 0, talk)
            Slow.expected = self.losses()
            self.place.clear()

    def losses(self):
        """As they are in the log."""
        lines = (self.place.out / "run" / "steps.csv").read_text(encoding="utf-8").splitlines()
        return [line.split(",")[4] for line in lines[1:]]

    def begin(self, *words):
        """A run that has a checkpoint, and the processes of its ranks in their order."""
        process = self.place.start(self.place.words(*words))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        while not list(self.place.out.glob("run/ckpt-*")) and process.poll() is None:
            time.sleep(0.01)
        ranks = {}
        for pid in faults.processes_of(self.place.root):
            with contextlib.suppress(OSError):
                for word in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    if word.startswith(b"OMPI_COMM_WORLD_RANK="):
                        ranks[int(word.split(b"=")[1])] = pid
        self.assertEqual(sorted(ranks), [0, 1])
        return process, ranks

    def goes_on(self, process):
        """What it said, at the end of a training like any other."""
        talk = process.communicate(timeout=faults.HANGS)[1]
        self.expect(process.returncode == 0, "exit code", process.returncode, talk)
        self.expect(self.losses() == self.expected, "other losses")
        left = self.place.leftovers()
        self.expect(not left, "leaves", left)
        return talk

    def test_stopped_for_two_seconds(self):
        for _ in range(10 if faults.ALL else 1):
            self.place.clear()
            process, rank = self.begin()
            os.kill(rank[1], signal.SIGSTOP)
            time.sleep(2)
            os.kill(rank[1], signal.SIGCONT)
            talk = self.goes_on(process)
            self.expect(f"pid {rank[1]}) did not run for" in talk, "not named:", talk)
        self.finish("a rank stopped for 2 s", 10 if faults.ALL else 1)

    def test_last_in_the_queue_of_a_busy_core(self):
        process, rank = self.begin()
        for thread in map(int, os.listdir(f"/proc/{rank[1]}/task")):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(thread, {CORE})
                os.setpriority(os.PRIO_PROCESS, thread, 19)
        with subprocess.Popen([sys.executable, "-c", "while True: pass"],
                              preexec_fn=lambda: os.sched_setaffinity(0, {CORE})) as busy:
            said = next((line for line in process.stderr if "holds up the others" in line), "")
            busy.kill()
        self.goes_on(process)
        self.expect(f"pid {rank[1]}) holds up the others" in said, "not named:", said)
        self.finish("a rank niced to 19 on a busy core", 1)

    def test_all_stopped_longer_than_the_timeout(self):
        """Nobody could hear the others meanwhile, and nobody blames them."""
        process, rank = self.begin("--timeout", "2")
        for number, pause in (signal.SIGSTOP, 4), (signal.SIGCONT, 0):
            for pid in rank.values():
                os.kill(pid, number)
            time.sleep(pause)
        talk = self.goes_on(process)
        self.expect("has not answered" not in talk, "blamed:", talk)
        self.finish("all ranks stopped for twice the timeout", 1)

    def test_stopped_for_good(self):
        words = [] if faults.ALL else ["--timeout", "3"]
        process, rank = self.begin(*words)
        begin = time.monotonic()
        os.kill(rank[1], signal.SIGSTOP)
        talk = process.communicate(timeout=faults.HANGS)[1]
        self.expect(process.returncode == 71, "exit code", process.returncode, talk)
        self.expect(f"pid {rank[1]}) has not answered since" in talk, "not named:", talk)
        left = self.place.leftovers()
        self.expect(not left, "leaves", left)
        self.expect(self.place.go_on()[0] == 0, "does not go on")
        self.expect(self.losses() == self.expected, "other losses")
        print(f"ended after {time.monotonic() - begin:.0f} s, and went on")
        self.finish("a rank stopped for good", 1)

    @unittest.skipUnless(faults.ALL, "takes a minute: .ci/nightly faults")
    def test_one_never_starts(self):
        """The second program of this job is no rank: MPI's start waits for it."""
        done = harness.execute("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", 1, harness.EXECUTOR,
                               "train", self.place.training, "--timeout=1", ":", "-n", 1, "sleep", 900,
                               environment=self.place.environment({}))
        self.expect(done.returncode == 71, "exit code", done.returncode, done.stderr)
        self.expect("not all ranks have started" in done.stderr, "not told:", done.stderr)
        self.finish("a rank that never starts", 1)
