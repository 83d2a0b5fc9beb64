"""Each request for memory fails once: the program says so and exits with 71, whoever asked, or gives
the right answer."""
import concurrent.futures
import os
import re
import unittest

import faults
from support import Case, has_simulator, run

ALL = os.environ.get("FORETRAIN_TEST_MALLOCS") == "all"
SAMPLE = 1000 if faults.ALL else 60  # points of each command otherwise, evenly
LAST = 12000  # of foretrain-sim all are too many: later ones are SimGrid's, in each message


def failing(number, program, words):
    """Run foretrain while request @number of @program fails."""
    return run(*words, LD_PRELOAD=faults.LIBRARY, FAIL_CLASS="malloc", FAIL_CALL=str(number),
               FAIL_PROGRAM=program, FORETRAIN_DEBUG="1")


class Memory(Case):
    def each_request_fails(self, program, *words):
        right = run(*words)
        self.assertEqual(right.returncode, 0, right.stderr)
        counted = failing(0, program, words)
        self.assertEqual(counted.stdout, right.stdout)
        total = max(map(int, re.findall(r"calls: ([0-9]+)", counted.stderr)))
        last = min(total, LAST)
        points = sorted({1 + i * (last - 1) // (SAMPLE - 1) for i in range(SAMPLE)})
        if ALL:
            points = range(1, last + 1)
        refused = bad = 0
        with concurrent.futures.ThreadPoolExecutor(2) as workers:
            for n, done in zip(points, workers.map(lambda n: failing(n, program, words), points)):
                with self.subTest(program=program, words=words, request=n):
                    bad += done.returncode not in (0, 71)
                    self.assertIn(done.returncode, (0, 71), done.stderr)
                    if done.returncode == 0:
                        self.assertEqual(done.stdout, right.stdout)
                    else:
                        self.assertEqual(done.stdout, "")
                        self.assertIn("out of memory: cannot allocate", done.stderr)
                    refused += done.returncode == 71
        faults.record("memory", f"{program} {words[0]}", len(points), bad)
        self.assertGreater(refused, len(points) * 0.9)

    def test_check(self):
        self.each_request_fails("foretrain", "check", self.job)

    def test_show(self):
        self.each_request_fails("foretrain", "show", "platform", "abci")

    def test_predict(self):
        self.each_request_fails("foretrain", "predict", self.job, "--json", "--backend", "analytic")

    @unittest.skipUnless(has_simulator(), "built without SimGrid")
    def test_simulator(self):
        self.each_request_fails("foretrain", "predict", self.job, "--json")
        self.each_request_fails("foretrain-sim", "predict", self.job, "--json")
