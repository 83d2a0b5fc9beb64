"""What a run tells in files, read by programs that share nothing with it: test_log.py WRITER."""
import csv
import resource
import signal
import sys

import harness
from harness import TOY

WRITER = sys.argv.pop(1)


class Log(harness.Case):
    """Files of a run."""

    def setUp(self):
        super().setUp()
        self.out = self.directory / "deep" / "run"

    def tell(self, start, stop, end="success", code=0, **options):
        """Tell steps start + 1 ... stop."""
        return self.execute(code, WRITER, TOY, self.out, start, stop, end, **options)

    def rows(self, name):
        """The lines of a CSV file."""
        with open(self.out / name, encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))

    def steps(self):
        """Their numbers."""
        return [int(row["step"]) for row in self.rows("steps.csv")]

    def assert_steps(self, count):
        """Each step from 1 to count stands once in the file."""
        self.assertEqual(self.steps(), list(range(1, count + 1)))

    def test_steps_and_evaluations_are_told(self):
        self.tell(0, 40)
        self.assert_steps(40)
        rows = self.rows("steps.csv")
        self.assertEqual([row["step"] for row in rows if row["skipped"] == "1"], ["7"])
        self.assertEqual((rows[6]["loss"], rows[6]["gradient_norm"], rows[7]["loss"]), ("nan", "inf", "0.875"))
        self.assertEqual([(row["step"], float(row["top1"]), float(row["top5"])) for row in self.rows("evaluations.csv")],
                         [(str(10 * i), i / 100, i / 50) for i in (1, 2, 3, 4)])

    def test_a_resumed_run_tells_no_step_twice(self):
        self.tell(0, 33, "killed")
        self.tell(20, 40)
        self.assert_steps(40)
        self.assertEqual([r["step"] for r in self.rows("evaluations.csv")],
                         ["10", "20", "30", "40"])

    def test_lines_cut_by_a_crash_are_mended(self):
        self.tell(0, 25)
        for name in "steps.csv", "evaluations.csv":
            path = self.out / name
            path.write_bytes(path.read_bytes()[:-5])
        self.tell(20, 40)
        self.assert_steps(40)

    def test_a_run_that_goes_on_elsewhere_has_whole_files(self):
        self.tell(20, 40)
        self.assertEqual(self.steps(), list(range(21, 41)))

    def test_lines_reach_the_disk_at_an_evaluation(self):
        self.tell(0, 10, "killed")
        self.assert_steps(10)

    def test_lines_reach_the_disk_when_the_next_step_may_come_too_late(self):
        self.tell(0, 5, "killed", environment={"STEP_S": "1"})
        self.assert_steps(5)

    def test_a_line_on_a_terminal_is_written_over(self):
        said = harness.on_terminal(lambda terminal: self.tell(0, 5, stderr=terminal, environment={"STEP_S": "1"}))
        self.assertTrue(said.startswith("\r\x1b[Kstep 1/40  epoch 0.05/2  mean loss 7.0000  16.0 "
                                        "images/s  ETA 39 s"), said)
        self.assertTrue(said.endswith("5 steps in 5.0 s: 16.0 images/s\r\n"), said)

    def test_says_once_that_a_file_cannot_be_written(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        done = self.tell(0, 200, code=74, preexec_fn=limit, environment=harness.NO_COUNTERS)
        self.assertEqual(done.stderr.count("steps.csv cannot be written: File too large; training "
                                           "continues"), 1)
        self.assertIn("steps.csv: cannot be written: File too large; it ends too early",
                      done.stderr)

    def test_refuses_a_directory_that_cannot_be_made(self):
        self.out.parent.mkdir()
        self.out.write_text("")
        self.assertIn(str(self.out), self.tell(0, 1, code=73).stderr)

    def test_the_line_for_people_tells_pace_loss_and_accuracy(self):
        said = self.tell(0, 40).stderr.splitlines()
        self.assertRegex(said[-2], r"^step 40/40  epoch 2.00/2  mean loss \d+\.\d{4}  top-1 4.00 %  "
                                   r"160000 images/s  1 skipped$")
        self.assertIn("evaluation at epoch 0.50: top-1 1.00 %", "\n".join(said))

    def test_telling_a_step_takes_less_than_50_us_of_the_processor(self):
        """19 us on a common machine.  With sanitizers there is nothing to measure."""
        if harness.SANITIZED:
            self.skipTest("built with sanitizers")
        best = min(float(self.tell(0, 5000).stdout.split()[1]) for _ in range(3))
        self.assertLess(best, 50)
