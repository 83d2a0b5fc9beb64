"""Each system call fails once, and each from one on: there is an end with the right exit code or the
right answer, files are whole or not there, and nothing is left behind."""
import errno
import pathlib
import re
import unittest

import faults
import support

# Exit codes of DESIGN.md: no memory, process or descriptor; cannot create; output error.
CODES = {"fork": {71}, "thread": {71}, "pipe": {71}, "mmap": {71}, "write": {73, 74},
         "fsync": {74}, "rename": {73, 74}, "close": {74}, "create": {73, 74}}
SOME = 6  # calls of each class and command in ./test.sh


class Calls(faults.Case):
    """Of commands that answer at once."""

    def count(self, words, program, name, more):
        """How many calls of a class a command makes, what it answers, and its files."""
        answer, talk = self.answers(words, LD_PRELOAD=faults.LIBRARY, FAIL_CLASS=name,
                                    FAIL_PROGRAM=program, FAIL_CALL="0", FORETRAIN_DEBUG="1", **more)
        self.assertEqual(self.place.leftovers(), [])
        counted = [int(number) for number in re.findall(r"calls: ([0-9]+)", talk)]
        return max(counted, default=0), answer, faults.files_below(self.place.out)

    def one_fails(self, words, program, name, number, how, right, more):
        """One failure."""
        expected, files = right
        self.place.clear()
        environment = {"FAIL_CLASS": name, "FAIL_PROGRAM": program, "FAIL_CALL": str(number),
                       "LD_PRELOAD": faults.LIBRARY, "FORETRAIN_DEBUG": "1", **how, **more}
        code, answer, talk = self.place.run(words, **environment)
        what = f"{words[0]}: {name} {number} of {program} {how}: exit code {code}: {talk[-300:]!r}"
        self.expect(code in {0, *CODES[name]}, what)
        if code == 0:
            self.expect(answer == expected, what, "another answer")
        else:
            self.expect(re.search(r"error: |cannot |out of memory", talk), what, "without a reason")
        left, found = self.place.leftovers(), faults.files_below(self.place.out)
        if "out of memory" in talk:  # ends at once
            left = [path for path in left if path.startswith("process")]
        self.expect(not left, what, "leaves", left)
        if code == 0:
            self.expect(found == files, what, "other files")
        else:
            self.expect(not set(found.items()) - set(files.items()), what, "has parts of files")
        return code

    def each_fails(self, words, program="foretrain", names=tuple(CODES), **more):
        """All calls of these classes."""
        cases = refused = 0
        for name in names:
            total, *right = self.count(words, program, name, more)
            ways = [{}, {"FAIL_ON": "1"}]
            if name == "write":
                ways += [{"FAIL_ERROR": "SHORT"}]
            if name == "create":  # a file system whose files all have a name
                ways += [{"FAIL_ERROR": str(errno.EOPNOTSUPP)}]
            for how in ways:
                for number in faults.choose(total, SOME // len(ways) + 1):
                    cases += 1
                    refused += self.one_fails(words, program, name, number, how, right, more) != 0
        said = " ".join(pathlib.Path(str(word)).name for word in words)
        self.finish(said if program == "foretrain" else f"{program} of {said}", cases)
        self.assertGreater(refused, 0)

    def test_predict(self):
        self.each_fails(["predict", self.place.job, "--json", "--backend", "analytic"])

    def test_predict_with_files(self):
        self.each_fails(["predict", self.place.job, "--backend", "analytic", "--trace", "t.json",
                         "--csv", "b.csv"])

    @unittest.skipUnless(support.has_simulator(), "built without SimGrid")
    def test_simulator(self):
        words = ["predict", self.place.job, "--json", "--backend", "sim"]
        self.each_fails(words)
        self.each_fails(words, "foretrain-sim")

    def test_explain(self):
        self.each_fails(["explain", self.place.job, "--json", "--csv", "e.csv"])

    def test_sweep(self):
        self.each_fails(["sweep", self.place.training, "--backend", "analytic", "--jobs", "1",
                         "--scan", "cluster.nodes=2..8:x2", "--csv", "all.csv"])

    def test_pack(self):
        self.each_fails(["data", "pack", self.place.root / "images", "--to", "a.ftp", "--image=8",
                         "--json"])


@unittest.skipUnless(faults.HAS_MPI, "built without MPI, or mpirun is missing")
class Training(faults.Case):
    """Calls of rank 0 for files of the run."""

    def test_train(self):
        self.place.train()
        whole = self.place.checkpoint()
        self.place.clear()
        fail = {"LD_PRELOAD": faults.LIBRARY, "FAIL_PROGRAM": "foretrain-exec", "FAIL_RANK": "0",
                "FAIL_BELOW": str(self.place.out)}
        cases = 0
        for name in "create", "write", "fsync", "rename", "close":
            self.place.clear()
            talk = self.place.train(FAIL_CLASS=name, FAIL_CALL="0", **fail)[2]
            total = max(int(number) for number in re.findall(r"calls: ([0-9]+)", talk))
            self.assertEqual(self.place.checkpoint(), whole)
            later = [{"FAIL_ON": "1"}, {"FAIL_ERROR": "SHORT"}] if name == "write" else []
            for how in {}, *later:
                points = faults.choose(total, 2 - bool(how))
                for number in points[::4] if how and faults.ALL else points:
                    self.one_fails(name, number, how, fail, whole)
                    cases += 1
        self.finish("foretrain-exec train, rank 0 of 2", cases)

    def one_fails(self, name, number, how, fail, whole):
        """One failure, and going on from it."""
        self.place.clear()
        code, _, talk = self.place.train(FAIL_CLASS=name, FAIL_CALL=str(number), **fail, **how)
        what = f"train: {name} {number} {how}: exit code {code}: {talk[-300:]!r}"
        self.expect(code in {0, *CODES[name]}, what)
        self.expect(code == 0 or "error: " in talk, what, "without a reason")
        left = self.place.leftovers()
        self.expect(not left, what, "leaves", left)
        if code:
            code, _, talk = self.place.go_on()
            self.expect(code == 0, what, "does not go on:", talk)
        self.expect(self.place.checkpoint() == whole, what, "trains something else")
