"""foretrain train before any rank is started: test_train.py."""

import os
import pathlib
import shlex
import shutil

import support
from support import PROGRAM, ROOT, good, run

TOY = ROOT / "tests" / "exec" / "toy.yaml"
LARS = ROOT / "experiments" / "03_learning" / "lars.yaml"
GPU = ROOT / "experiments" / "04_gpu" / "resnet50.yaml"
NAIVE = ["--device", "cpu-naive"]  # in every build
SONY = ROOT / "experiments" / "01_sony_abci" / "v1-1088.yaml"
NAMES = ["a'b", "a b", "a$HOME", "a\nb", "a`id`", "j';touch PWNED;'", 'a"b', "a\\b", "~a", "*",
         "#a", "a=b", "a&b", "-\t", "'"]


def line_of(job, *options):
    """The words that start 4 ranks of the toy job."""
    return dry_run(job, *options, *NAIVE)["command"][:-1]  # without --json


def dry_run(*arguments):
    return support.answer("train", "--dry-run", *arguments)


class Train(support.Case):
    def test_prints_the_line_that_a_user_could_run(self):
        done = good("train", TOY, "--dry-run", "--steps", "5", "--set", "seed=3", "--out", "a b", *NAIVE)
        line = done.stdout.splitlines()[-1]
        self.assertTrue(line.startswith("mpirun "), line)
        self.assertIn("-n 4 ", line)
        self.assertTrue(line.endswith(f"train {TOY} --steps=5 --set=seed=3 '--out=a b' "
                                      "--device=cpu-naive"), line)
        one = run("train", TOY, "--dry-run", "-n", "1", "--set", "allreduce.grid=null", *NAIVE).stdout
        self.assertIn("foretrain-exec train", one)
        self.assertNotIn("mpirun", one)

    def test_the_line_holds_whatever_a_name_holds(self):
        folder = self.directory / "names"
        folder.mkdir()
        for name in NAMES:
            job = folder / (name + ".yaml")
            shutil.copy(TOY, job)
            out = run("train", job, "--dry-run", "--out", name, *NAIVE).stdout
            line = out[out.index("mpirun "):]
            words = line_of(job, "--out", name)
            self.assertEqual(shlex.split(line), words)
            done = self.execute(0, "sh", "-c", f"printf '%s\\0' {line}", cwd=folder)
            self.assertEqual(done.stdout.split("\0")[:-1], words)
            self.assertEqual(os.listdir(folder), [job.name])
            job.unlink()

    def test_a_program_that_looks_like_an_assignment_is_quoted(self):
        (self.directory / "A=b").symlink_to(pathlib.Path(PROGRAM).resolve().parent)
        done = self.execute(0, PROGRAM, "train", TOY, "--dry-run", "-n1", "--set=allreduce.grid=null", *NAIVE,
                            cwd=self.directory, environment={"FORETRAIN_LIBEXEC": "A=b"})
        self.assertTrue(done.stdout.splitlines()[-1].startswith("'A=b/foretrain-exec' train "))

    def test_several_rings_are_refused(self):
        self.assertIn("allreduce.channels=1", self.refused(
            69, "train", TOY, "--dry-run", *NAIVE, "--set=allreduce.grid=null",
            "--set=allreduce.algorithm=ring", "--set=allreduce.channels=2"))

    def test_a_limit_of_nccl_is_refused_on_cpus(self):
        words = ("train", TOY, "--dry-run", *NAIVE, "--set=allreduce.ctas=8")
        self.assertIn("--set allreduce.ctas=null", self.refused(69, *words))
        good(*words, "--set=allreduce.ctas=null")

    def test_what_only_predictions_know_of_an_optimizer_is_refused(self):
        cuda = ("--device", "cuda")
        for device, change, way in ((NAIVE, "name=rmsprop", "name=adamw"), (cuda, "name=adamw", "name=sgd"),
                                    (cuda, "clip=1", "clip=null")):
            self.assertIn(f"use --set training.optimizer.{way}", self.refused(
                69, "train", TOY, "--dry-run", *device, f"--set=training.optimizer.{change}"))

    def test_tells_the_memory_of_a_rank(self):
        lines = run("train", TOY, "--dry-run", *NAIVE).stdout.splitlines()
        self.assertEqual(lines[0], "memory of one rank, 4 images of which 4 at once")
        for word in ("weights", "gradients", "momentum", "activations", "together", "device"):
            self.assertTrue(any(line.startswith("  " + word) for line in lines), word)

    def test_columns_are_aligned_and_units_said(self):
        cuda = ["--device", "cuda"]
        for words in ([LARS, *NAIVE], [GPU, *cuda], [TOY, *NAIVE], [LARS, *cuda], [TOY, *cuda]):
            lines = run("train", *words, "--dry-run").stdout.splitlines()[1:-2]
            for line in lines:
                if "not counted" not in line:
                    self.assertRegex(line, r"^  \w+ {2,}\d+\.\d{3} [kMGT]B(   \S.*)?$")
                    self.assertNotIn(" 0.000 ", line)
            self.assertEqual(len({line.index("B   ") for line in lines if "B   " in line}), 1)

    def test_convolutions_of_a_gpu_take_a_bounded_workspace(self):
        out = run("train", GPU, "--dry-run", "--device", "cuda").stdout
        self.assertRegex(out, r"(?m)^  workspace +1\.074 GB +at most, of convolutions$")
        self.assertRegex(out, r"(?m)^  activations +12\.307 GB$")
        told = dry_run(GPU, "--device", "cuda")
        memory = told["memory"]
        self.assertEqual(memory["workspace"], "at most")
        self.assertEqual(memory["workspace_bytes"], 1 << 30)
        self.assertEqual(memory["total_bytes"], sum(
            memory[name + "_bytes"] for name in ("weights", "gradients", "momentum", "activations",
                                                 "images", "workspace")))
        device = told["platform_device"]
        each = (memory["activations_bytes"] + memory["images_bytes"]) / 256
        rest = device["memory_bytes"] - memory["total_bytes"] + 256 * each
        self.assertEqual(device["largest_batch"], int(rest / each))

    def test_a_cpu_holds_all_in_fp32(self):
        half = dry_run(LARS, *NAIVE, "--set", "model.precision={compute: bf16, gradients: fp16}")
        self.assertEqual(half["memory"], dry_run(LARS, *NAIVE)["memory"])

    def test_says_what_does_not_fit(self):
        out = run("train", GPU, "--dry-run", "--device", "cuda", "--set",
                    "training.phases=[{epochs: 90, global_batch: 4096}]").stdout
        self.assertRegex(out, r"(?m)^  largest batch +2850 images at once: 4096 do not fit, see "
                              r"training\.micro_batch$")

    def test_a_device_of_another_kind_holds_nothing(self):
        for job, device, note in ((LARS, "cuda", "has no GPU"), (GPU, "cpu-naive", "--device cuda")):
            fp32 = ["--device", device, "--set", "model.precision.compute=fp32"]
            out = run("train", job, "--dry-run", *fp32).stdout
            self.assertNotIn("largest", out)
            self.assertRegex(out, r"(?m)^  device .*" + note)
            self.assertIsNone(dry_run(job, *fp32)["platform_device"]["largest_batch"])

    def test_a_rehearsal_is_of_the_platforms_device(self):
        memory = dry_run(GPU, "--device", "replay")["memory"]
        self.assertEqual(memory, dry_run(GPU, "--device", "cuda")["memory"])
        self.assertIn("rehearsal", run("train", GPU, "--dry-run", "--device", "replay").stdout)

    def test_asks_onednn_for_its_workspace(self):
        done = run("train", LARS, "--dry-run", "--threads", "1")
        if "without oneDNN" in done.stderr:
            self.skipTest("this build is without oneDNN")
        self.assertRegex(done.stdout, r"(?m)^  workspace +\d+\.\d{3} MB   of oneDNN, 1 thread$")
        small = dry_run(LARS, "--threads", "1")
        large = dry_run(LARS, "--threads", "1", "--set", "training.micro_batch=64")
        self.assertEqual(small["memory"]["workspace"], "exact")
        self.assertLess(small["memory"]["workspace_bytes"], large["memory"]["workspace_bytes"])
        self.assertLess(0, small["platform_device"]["largest_batch"])

    def test_says_that_a_workspace_is_not_counted(self):
        out = run("train", LARS, "--dry-run", *NAIVE).stdout
        self.assertRegex(out, r"(?m)^  workspace +not counted$")
        self.assertIn("without the workspace", out)
        memory = dry_run(LARS, *NAIVE)["memory"]
        self.assertEqual((memory["workspace"], memory["workspace_bytes"]), ("not counted", 0))

    def test_the_executor_tells_the_workspace_of_onednn_alone(self):
        done = self.execute(64, f"{PROGRAM}-exec", "workspace", TOY, *NAIVE)
        self.assertEqual(done.stdout, "")
        self.assertIn("does not know its workspace", done.stderr)

    def test_a_dry_run_fails_where_the_run_would(self):
        said = self.refused(69, "train", GPU, "--dry-run")
        if "without oneDNN" not in said:
            self.assertIn("--device cuda on a GPU", said)

    def test_does_not_start_a_thousand_ranks_by_itself(self):
        message = self.refused(64, "train", SONY)
        self.assertIn("1088 devices", message)
        self.assertIn("-n", message)

    def test_finds_faults_before_it_starts_ranks(self):
        self.assertIn("needs 4 ranks, not 3", self.refused(64, "train", TOY, "-n", "3"))
        self.assertNotIn("mpirun", self.refused(64, "train", TOY, "-n", "3"))
        self.assertIn("cannot be divided evenly",
                      self.refused(64, "train", TOY, "-n", "3", "--set", "allreduce.grid=null"))
        self.assertIn("in parts of 3",
                      self.refused(65, "train", TOY, "--set", "training.micro_batch=3"))
        self.assertIn("no effect without", self.refused(65, "train", TOY, "--set",
                                                        "training.collapse.power=2"))
        self.assertIn("needs either", self.refused(65, "train", TOY, "--set",
                                                   "training.phases=[{epochs: 1}]"))
        self.refused(66, "train", "there-is-no-such-file.yaml")
