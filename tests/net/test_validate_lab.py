"""`validate` in a lab: a rehearsal in the network of a platform, compared with its prediction."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
import uuid

import cases
import harness
import lab

harness.need_mpi()
lab.need_lab()

JOB = cases.SMALL_JOB.replace("nodes: 16", "nodes: 4").replace("columns: 4, rows: 4", "columns: 2, rows: 2")


class ValidateLab(harness.Case):
    def setUp(self):
        super().setUp()
        self.job = self.write("job.yaml", JOB)

    def words(self, job, *more):
        return [harness.PROGRAM, "validate", job, "--timeout=120",
                f"--set=cluster.platform={lab.platform('flat-4')}", *more]

    def validate(self, *words):
        return lab.lab("flat-4", *self.words(*words))

    def refused_there(self, code, *words):
        done = lab.lab("flat-4", *words)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        return done.stderr

    def test_the_labs_platform_is_the_predictions(self):
        done = self.validate(self.job, "--device=replay", "--steps=4", "--json")
        self.assertIn(done.returncode, (0, 1, 75), done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual((result["platform"], result["lab"], result["ranks"], result["device"]),
                         ("flat-4", True, 4, "replay"))
        rows = {row["name"]: row for row in result["rows"]}
        column = rows["bucket 0 column all-reduce"]
        print(f"step: predicted {rows['step']['predicted_s']:.4f} s, measured "
              f"{rows['step']['measured_s']:.4f} s; column: {column['predicted_s']:.4f} s, "
              f"{column['measured_s']:.4f} s")
        # 1.08 MB by 4 of 4 ranks over 100 Mb/s: 2 * 3/4 of them leave each card.
        self.assertAlmostEqual(rows["step"]["predicted_s"], 1.5 * 8.64e6 / 99.268e6, delta=0.02)
        # The wires cannot be faster, whatever else runs.
        self.assertGreater(rows["step"]["measured_s"], 0.95 * rows["step"]["predicted_s"])
        self.assertGreater(column["measured_s"], 0.95 * column["predicted_s"])

    def test_a_name_is_no_command(self):
        before = set(os.listdir("."))
        for name in ("j';touch PWNED;'.yaml", "$(touch PWNED).yaml", "a b.yaml"):
            job = os.path.join(self.directory, name)
            shutil.copy(self.job, job)
            done = self.validate(job, "--device=replay", "--steps=1")
            self.assertIn(done.returncode, (0, 1, 75), done.stderr)
            self.assertIn("measured in its lab", done.stdout)
        self.assertEqual(set(os.listdir(".")), before)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody without privilege")
    def test_without_privilege(self):
        os.chmod(self.directory, 0o755)
        done = lab.run_as(65534, *self.words(self.job, "--device=replay", "--steps=1"))
        self.assertIn(done.returncode, (0, 1, 75), done.stderr)

    def test_more_ranks_than_the_lab_has_are_refused(self):
        grid = "--set=allreduce.grid={columns: 4, rows: 2}"
        said = self.refused_there(64, *self.words(self.job, "--device=replay", "-n8", grid))
        self.assertIn("error: platform flat-4 has only 4 nodes, not 8", said)

    def test_ranks_agree_that_their_machines_have_different_numbers(self):
        """With 2, 1 and 1 of 4 ranks, the first machine alone could take all to have two."""
        said = self.refused_there(64, "mpirun", "--map-by", "seq", "--host", "h0,h0,h1,h2", harness.EXECUTOR,
                                  "train", self.job, "--device=cpu-naive", "--steps=1", "--timeout=60",
                                  "--set=allreduce={algorithm: hierarchical}")
        self.assertIn("the same number of ranks on each machine", said)

    def test_nothing_is_left_however_it_ends(self):
        for number in (signal.SIGINT, signal.SIGKILL):
            mark, place = f"LAB_TEST={uuid.uuid4()}", tempfile.mkdtemp(dir=self.directory)
            self.addCleanup(lab.kill_all, mark)
            process = self.begin(
                "env", mark, f"TMPDIR={place}", *lab.words("flat-4"),
                *self.words(self.job, "--device=replay", "--steps=100000",
                            "--set=training.phases=[{epochs: 1000, global_batch: 64}]"),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # Four ranks, their daemons and mpirun.
            self.assertTrue(harness.wait_until(lambda: len(lab.processes_of(mark)) > 10))
            os.kill(process.pid, number)
            self.assertEqual(process.wait(1000), -number)
            self.assertTrue(harness.wait_until(lambda: not lab.processes_of(mark)))
            self.assertEqual(os.listdir(place), [])

    def test_a_failure_in_the_lab_is_told(self):
        said = self.refused_there(66, *self.words(
            self.job, "--device=cpu-naive", "--set=training.dataset={source: imagefolder, path: /no/such/folder, "
            "train_images: 50000, validation_images: 1000}"))
        self.assertIn("/no/such/folder", said)
        # ranks compute, and the prediction is of a device that needs no time for it
        self.assertIn("the device of flat-4 computes in no time", said)
