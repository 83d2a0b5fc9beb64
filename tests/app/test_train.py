#!/usr/bin/python3
"""foretrain train before any rank is started: test_train.py."""

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import unittest

FORETRAIN = os.environ["FORETRAIN"]
ROOT = os.environ["FORETRAIN_DATADIR"]
TOY = os.path.join(ROOT, "tests", "exec", "toy.yaml")
LARS = os.path.join(ROOT, "experiments", "03_learning", "lars.yaml")
GPU = os.path.join(ROOT, "experiments", "04_gpu", "resnet50.yaml")
NAIVE = ["--device", "cpu-naive"]  # in every build
SONY = os.path.join(ROOT, "experiments", "01_sony_abci", "v1-1088.yaml")
NAMES = ["a'b", "a b", "a$HOME", "a\nb", "a`id`", "j';touch PWNED;'", 'a"b', "a\\b", "~a", "*",
         "#a", "a=b", "a&b", "-\t", "'"]


def train(*arguments):
    return subprocess.run([FORETRAIN, "train", *arguments], capture_output=True,
                          encoding="utf-8", check=False)


def line_of(job, *options):
    """The words that start 4 ranks of the toy job."""
    return dry_run(job, *options, *NAIVE)["command"][:-1]  # without --json


def dry_run(*arguments):
    done = train("--dry-run", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Train(unittest.TestCase):
    def refusal(self, code, *arguments):
        done = train(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_prints_the_line_that_a_user_could_run(self):
        done = train(TOY, "--dry-run", "--steps", "5", "--set", "seed=3", "--out", "a b", *NAIVE)
        self.assertEqual(done.returncode, 0, done.stderr)
        line = done.stdout.splitlines()[-1]
        self.assertTrue(line.startswith("mpirun "), line)
        self.assertIn("-n 4 ", line)
        self.assertTrue(line.endswith(f"train {TOY} --set seed=3 --out 'a b' --steps=5 "
                                      "--device=cpu-naive"), line)
        one = train(TOY, "--dry-run", "-n", "1", "--set", "allreduce.grid=null", *NAIVE).stdout
        self.assertIn("foretrain-exec train", one)
        self.assertNotIn("mpirun", one)

    def test_the_line_holds_whatever_a_name_holds(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in NAMES:
                job = os.path.join(folder, name + ".yaml")
                shutil.copy(TOY, job)
                out = train(job, "--dry-run", "--out", name, *NAIVE).stdout
                line = out[out.index("mpirun "):]
                words = line_of(job, "--out", name)
                self.assertEqual(shlex.split(line), words)
                done = subprocess.run(["sh", "-c", f"printf '%s\\0' {line}"], cwd=folder,
                                      capture_output=True, encoding="utf-8", check=True)
                self.assertEqual(done.stdout.split("\0")[:-1], words)
                self.assertEqual(os.listdir(folder), [name + ".yaml"])
                os.remove(job)

    def test_a_program_that_looks_like_an_assignment_is_quoted(self):
        libexec = os.path.relpath(os.path.dirname(os.path.realpath(FORETRAIN)))
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.realpath(libexec), os.path.join(folder, "A=b"))
            done = subprocess.run(
                [FORETRAIN, "train", TOY, "--dry-run", "-n", "1", "--set", "allreduce.grid=null",
                 *NAIVE], cwd=folder, env={**os.environ, "FORETRAIN_LIBEXEC": "A=b"},
                capture_output=True, encoding="utf-8", check=True)
        self.assertTrue(done.stdout.splitlines()[-1].startswith("'A=b/foretrain-exec' train "))

    def test_several_rings_are_refused(self):
        done = subprocess.run([FORETRAIN, "train", TOY, "--dry-run", *NAIVE,
                               "--set=allreduce.grid=null", "--set=allreduce.algorithm=ring",
                               "--set=allreduce.channels=2"],
                              capture_output=True, encoding="utf-8", check=False)
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("allreduce.channels=1", done.stderr)

    def test_a_limit_of_nccl_is_refused_on_cpus(self):
        done = train(TOY, "--dry-run", *NAIVE, "--set=allreduce.ctas=8")
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("--set allreduce.ctas=null", done.stderr)
        again = train(TOY, "--dry-run", *NAIVE, "--set=allreduce.ctas=8", "--set=allreduce.ctas=null")
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_tells_the_memory_of_a_rank(self):
        lines = train(TOY, "--dry-run", *NAIVE).stdout.splitlines()
        self.assertEqual(lines[0], "memory of one rank, 4 images of which 4 at once")
        for word in ("weights", "gradients", "momentum", "activations", "together", "device"):
            self.assertTrue(any(line.startswith("  " + word) for line in lines), word)

    def test_columns_are_aligned_and_units_said(self):
        cuda = ["--device", "cuda"]
        for words in ([LARS, *NAIVE], [GPU, *cuda], [TOY, *NAIVE], [LARS, *cuda], [TOY, *cuda]):
            lines = train(*words, "--dry-run").stdout.splitlines()[1:-2]
            for line in lines:
                if "not counted" not in line:
                    self.assertRegex(line, r"^  \w+ {2,}\d+\.\d{3} [kMGT]B(   \S.*)?$")
                    self.assertNotIn(" 0.000 ", line)
            self.assertEqual(len({line.index("B   ") for line in lines if "B   " in line}), 1)

    def test_convolutions_of_a_gpu_take_a_bounded_workspace(self):
        out = train(GPU, "--dry-run", "--device", "cuda").stdout
        self.assertRegex(out, r"(?m)^  workspace +1\.074 GB +at most, of convolutions$")
        self.assertRegex(out, r"(?m)^  activations +12\.307 GB +at most; 10\.624 GB where")
        told = dry_run(GPU, "--device", "cuda")
        memory = told["memory"]
        self.assertEqual(memory["workspace"], "at most")
        self.assertEqual(memory["workspace_bytes"], 1 << 30)
        self.assertEqual(memory["total_bytes"], sum(
            memory[name + "_bytes"] for name in ("weights", "gradients", "momentum", "activations",
                                                 "images", "workspace")))
        self.assertLess(memory["activations_least_bytes"], memory["activations_bytes"])
        device = told["platform_device"]
        each = (memory["activations_bytes"] + memory["images_bytes"]) / 256
        rest = device["memory_bytes"] - memory["total_bytes"] + 256 * each
        self.assertEqual(device["largest_batch"], int(rest / each))
        for compute in ("fp32", "bf16"):
            memory = dry_run(GPU, "--device", "cuda", "--set",
                             "model.precision.compute=" + compute)["memory"]
            self.assertEqual(memory["activations_least_bytes"], memory["activations_bytes"])

    def test_a_cpu_holds_all_in_fp32(self):
        half = dry_run(LARS, *NAIVE, "--set", "model.precision={compute: bf16, gradients: fp16}")
        self.assertEqual(half["memory"], dry_run(LARS, *NAIVE)["memory"])

    def test_says_what_does_not_fit(self):
        out = train(GPU, "--dry-run", "--device", "cuda", "--set",
                    "training.phases=[{epochs: 90, global_batch: 4096}]").stdout
        self.assertRegex(out, r"(?m)^  largest batch +2850 images at once: 4096 do not fit, see "
                              r"training\.micro_batch$")

    def test_a_device_of_another_kind_holds_nothing(self):
        for job, device, note in ((LARS, "cuda", "has no GPU"), (GPU, "cpu-naive", "--device cuda")):
            fp32 = ["--device", device, "--set", "model.precision.compute=fp32"]
            out = train(job, "--dry-run", *fp32).stdout
            self.assertNotIn("largest", out)
            self.assertRegex(out, r"(?m)^  device .*" + note)
            self.assertIsNone(dry_run(job, *fp32)["platform_device"]["largest_batch"])

    def test_a_rehearsal_is_of_the_platforms_device(self):
        memory = dry_run(GPU, "--device", "replay")["memory"]
        self.assertEqual(memory, dry_run(GPU, "--device", "cuda")["memory"])
        self.assertIn("rehearsal", train(GPU, "--dry-run", "--device", "replay").stdout)

    def test_asks_onednn_for_its_workspace(self):
        done = train(LARS, "--dry-run", "--threads", "1")
        if "without oneDNN" in done.stderr:
            self.skipTest("this build is without oneDNN")
        self.assertRegex(done.stdout, r"(?m)^  workspace +\d+\.\d{3} MB   of oneDNN, 1 thread$")
        small = dry_run(LARS, "--threads", "1")
        large = dry_run(LARS, "--threads", "1", "--set", "training.micro_batch=64")
        self.assertEqual(small["memory"]["workspace"], "exact")
        self.assertLess(small["memory"]["workspace_bytes"], large["memory"]["workspace_bytes"])
        self.assertLess(0, small["platform_device"]["largest_batch"])

    def test_says_that_a_workspace_is_not_counted(self):
        out = train(LARS, "--dry-run", *NAIVE).stdout
        self.assertRegex(out, r"(?m)^  workspace +not counted$")
        self.assertIn("without the workspace", out)
        memory = dry_run(LARS, *NAIVE)["memory"]
        self.assertEqual((memory["workspace"], memory["workspace_bytes"]), ("not counted", 0))

    def test_the_executor_tells_the_workspace_of_onednn_alone(self):
        program = os.path.join(os.path.dirname(FORETRAIN), "foretrain-exec")
        done = subprocess.run([program, "workspace", TOY, *NAIVE],
                              capture_output=True, encoding="utf-8", check=False)
        self.assertEqual((done.returncode, done.stdout), (64, ""))
        self.assertIn("does not know its workspace", done.stderr)

    def test_a_dry_run_fails_where_the_run_would(self):
        done = train(GPU, "--dry-run")
        self.assertEqual((done.returncode, done.stdout), (69, ""))
        if "without oneDNN" not in done.stderr:
            self.assertIn("--device cuda on a GPU", done.stderr)

    def test_json_conforms_and_has_nothing_else(self):
        told = dry_run(TOY, *NAIVE)
        done = subprocess.run([FORETRAIN, "schema", "dry-run"], capture_output=True, check=True)
        described = json.loads(done.stdout)
        self.assertEqual(list(told), list(described["properties"]))
        self.assertEqual(list(told["memory"]), list(described["properties"]["memory"]["properties"]))
        self.assertEqual(told["command"][-2:], ["--device=cpu-naive", "--json"])
        try:
            import jsonschema
        except ImportError:
            self.skipTest("jsonschema (package python3-jsonschema) is not installed")
        jsonschema.validate(told, described)

    def test_does_not_start_a_thousand_ranks_by_itself(self):
        message = self.refusal(64, SONY)
        self.assertIn("1088 devices", message)
        self.assertIn("-n", message)

    def test_finds_faults_before_it_starts_ranks(self):
        self.assertIn("needs 4 ranks, not 3", self.refusal(64, TOY, "-n", "3"))
        self.assertNotIn("mpirun", self.refusal(64, TOY, "-n", "3"))
        self.assertIn("cannot be divided evenly",
                      self.refusal(64, TOY, "-n", "3", "--set", "allreduce.grid=null"))
        self.assertIn("no multiple of training.micro_batch",
                      self.refusal(65, TOY, "--set", "training.micro_batch=3"))
        self.assertIn("no effect without", self.refusal(65, TOY, "--set",
                                                        "training.collapse.power=2"))
        self.assertIn("needs either", self.refusal(65, TOY, "--set",
                                                   "training.phases=[{epochs: 1}]"))
        self.assertIn("without --device cuda", self.refusal(64, TOY, "--tune"))
        self.assertIn("without --device replay", self.refusal(64, TOY, "--time-scale=2", "--dry-run"))
        self.assertIn("without --trace or --spans", self.refusal(64, TOY, "--traced-steps=3"))
        self.refusal(66, "there-is-no-such-file.yaml")


if __name__ == "__main__":
    unittest.main(verbosity=2)
