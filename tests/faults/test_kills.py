"""Killed at any moment, by a random time or at a random system call: nobody is left, nothing is lost,
and the next run ends as one that nothing disturbed."""
import os
import random
import re
import signal
import subprocess
import time
import unittest

import faults
import support

ROUNDS = int(os.environ.get("FORETRAIN_TEST_KILLS", "100" if faults.ALL else "2"))

OPEN_MPI = r"/ompi\.|/(vader|sm)_segment\."  # what it leaves when mpirun is killed, for orte-clean
ALONE = r"/sm_segment\."  # and version 5 when a single rank is, which has no daemon to tidy up


def name_of(pid):
    """What a process is: "rank 0", "mpirun", "foretrain"; None where it has gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            for word in file.read().split(b"\0"):
                if word.startswith(b"OMPI_COMM_WORLD_RANK="):
                    return "rank " + word.split(b"=")[1].decode()
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return os.path.basename(file.read().split("\0")[0])
    except OSError:
        return None


class Kills(faults.Case):
    """In each round one process dies."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(faults.SEED)

    def right(self, words):
        """Answer, files and time of a run that nothing disturbs."""
        begin = time.monotonic()
        answer = self.answers(words)[0]
        return answer, faults.files_below(self.place.out), time.monotonic() - begin

    def kill_at_a_time(self, words, seconds, names):
        """One of its processes, by name, after a part of the time."""
        self.place.clear()
        process = self.place.start(words)
        name, moment = self.random.choice(names), self.random.uniform(0, seconds)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            for pid in faults.processes_of(self.place.root):
                if name_of(pid) == name:
                    os.kill(pid, signal.SIGKILL)
                    break
        talk = process.communicate(timeout=faults.HANGS)[1]
        return f"{name} after {moment:.3f} s: exit code {process.returncode}: {talk[-200:]!r}"

    def kill_at_a_call(self, words, program, last):
        """At one of the calls that change files."""
        self.place.clear()
        number = self.random.randint(1, last)
        code, _, talk = self.place.run(words, LD_PRELOAD=faults.LIBRARY, FAIL_CLASS="disk",
                                       FAIL_PROGRAM=program, FAIL_ERROR="KILL", FAIL_RANK="0",
                                       FAIL_CALL=str(number), FAIL_BELOW=str(self.place.out))
        return f"{program} at call {number}: exit code {code}: {talk[-200:]!r}"

    def nobody_is_left(self, what):
        """Processes; where it died between two calls, a file may be there under its long name."""
        left = [name for name in self.place.leftovers() if name.startswith("process")]
        self.expect(not left, what, "leaves", left)
        for path in filter(faults.is_temporary, self.place.out.rglob("*.*")):
            if path.is_file():
                path.unlink()

    def each_round(self, words, last, names=("foretrain",)):
        """Kill, and run again to the same end."""
        answer, files, seconds = self.right(words)
        for i in range(ROUNDS):
            if i % 2 and faults.LIBRARY:
                what = self.kill_at_a_call(words, "foretrain", last)
            else:
                what = self.kill_at_a_time(words, seconds, names)
            self.nobody_is_left(what)
            for name, content in faults.files_below(self.place.out).items():
                self.expect(content == files[name], what, name, "is not whole")
            self.expect(self.place.run(words)[:2] == (0, answer), what, "another answer")
            found = faults.files_below(self.place.out)
            self.expect(found == files, what, "other files", sorted(found))
            left = self.place.leftovers()
            self.expect(not left, what, "leaves", left)
        self.finish(self.title(words), ROUNDS, faults.SEED)

    @staticmethod
    def title(words):
        """A command without folders."""
        return " ".join(os.path.basename(str(word)) for word in words)

    def test_sweep(self):
        self.each_round(["sweep", self.place.training, "--backend", "analytic", "--jobs", "2", "--scan",
                         "cluster.nodes=2..16", "--csv", "all.csv"], 24)

    def test_pack(self):
        self.each_round(["data", "pack", self.place.root / "images", "--to", "a.ftp", "--image=8"], 8)

    def each_goes_on(self, what_trains, last):
        """Kill what trains, at one of its @last calls or at a time, and go on to the same bits."""
        words = self.place.words()
        names = (*map("rank {}".format, range(self.place.ranks)), "mpirun", "foretrain")
        seconds = self.right(words)[2]
        whole = self.place.checkpoint()
        for i in range(ROUNDS):
            if i % 2 and faults.LIBRARY:
                what = self.kill_at_a_call(words, "foretrain-exec", last)
            else:
                what = self.kill_at_a_time(words, seconds, names)
            self.nobody_is_left(what)
            if self.place.checkpoint() != whole:
                code, _, talk = self.place.go_on()
                self.expect(code == 0, what, "does not go on:", talk)
            self.expect(self.place.checkpoint() == whole, what, "trains something else")
            left = self.place.leftovers()
            if what.startswith("mpirun "):
                left = [path for path in left if not re.search(OPEN_MPI, path)]
            self.expect(not left, what, "leaves", left)
        self.finish(what_trains, ROUNDS, faults.SEED)

    @unittest.skipUnless(faults.HAS_MPI, "built without MPI, or mpirun is missing")
    def test_train(self):
        self.each_goes_on("train on two ranks", 260)

    @unittest.skipUnless(faults.HAS_MPI, "built without MPI, or mpirun is missing")
    def test_train_on_a_mesh(self):
        self.place.training.write_text(faults.MESH_JOB, encoding="utf-8")
        self.place.ranks = 8
        self.each_goes_on("train a transformer on 2 x 2 x 2 ranks", 700)

    def each_ends(self, words, names, written=None):
        """Kill what answers differently each time: nobody is left, and the next one answers."""
        seconds = self.right(words)[2]
        rounds = max(2, ROUNDS // 4)
        for _ in range(rounds):
            what = self.kill_at_a_time(words, seconds, names)
            self.nobody_is_left(what)
            if written and (self.place.out / written).exists():
                code, _, talk = self.place.run(["show", "device", "./" + written])
                self.expect(code == 0, what, written, "is not whole:", talk)
            code, _, talk = self.place.run(words)
            self.expect(code == 0, what, "does not begin again:", talk)
            left = [path for path in self.place.leftovers()
                    if not re.search(OPEN_MPI if what.startswith("mpirun ") else ALONE, path)]
            self.expect(not left, what, "leaves", left)
        self.finish(self.title(words), rounds, faults.SEED)

    @unittest.skipUnless(support.has_simulator(), "built without SimGrid")
    def test_simulator(self):
        self.each_ends(["predict", self.place.job, "--backend", "sim", "--grain", "full"],
                       ("foretrain", "foretrain-sim"))

    @unittest.skipUnless(faults.HAS_EXECUTOR, "there is no foretrain-exec")
    def test_measuring(self):
        self.each_ends(["calibrate", "device", "--device", "cpu-naive", "--networks", "resnet8",
                        "--batch", "1,2", "--threads", "1", "--budget", "2", "-o", "here.yaml"],
                       ("foretrain", "foretrain-exec"), "here.yaml")

    @unittest.skipUnless(faults.HAS_MPI, "built without MPI, or mpirun is missing")
    def test_measuring_on_two_ranks(self):
        self.each_ends(["collective", "--backend", "exec", "--grid", "2x1", "--bytes", "1MB", "--repeats", "3"],
                       ("foretrain", "rank 0", "rank 1", "mpirun"))
