"""A directory belongs to one run, from its start to its last resume."""

import os
import shlex
import shutil
import signal
import socket

import training

JOB = """version: 1
model:      {network: toy, image: 16, classes: 4}
cluster:    {platform: t1-torus, nodes: 2}
training:
  dataset: {source: procedural, train_images: 256, validation_images: 64}
  phases:
    - {epochs: 1000000, global_batch: 16}
  micro_batch: 8
  learning_rate: {base: 0.05, decay: cosine}
  checkpoint: {every: 1 epochs, keep: 4}
allreduce:  {algorithm: ring, bucket: 16 KiB, overlap: backward}
"""


class Runs(training.Run):
    JOB = JOB

    def good(self, *words, **more):
        """Train on one rank, unless told otherwise."""
        return self.train(*(() if "-n" in words else ("-n", "1")), *words, **more)

    def refusal(self, code, *words):
        """What is said; nothing may have changed on the disk."""
        before = self.content()
        done = self.good(*words, code=code)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("error: "), 1, done.stderr)
        self.assertEqual(self.content(), before)
        return done.stderr

    def content(self):
        """Every file below the folder with its bytes."""
        return {path: path.read_bytes() for path in self.directory.rglob("*") if path.is_file()}

    @staticmethod
    def send(number, ranks):
        for rank in ranks:
            os.kill(rank, number)

    def steps(self):
        lines = (self.out / "steps.csv").read_text(encoding="utf-8").splitlines()
        return [line.split(",")[0] for line in lines[1:]]

    def test_a_fresh_run_leaves_an_older_one_alone(self):
        self.good("--out", self.out, "--steps", "5")
        said = self.refusal(73, "--out", self.out, "--steps", "2")
        for way in (f"--resume {self.out}", "--overwrite", "--out"):
            self.assertIn(way, said)
        for name in self.checkpoints():
            shutil.rmtree(self.out / name)
        self.assertNotIn("--resume", self.refusal(73, "--out", self.out, "--steps", "2"))

    def test_the_way_on_can_be_pasted(self):
        for name in ("a b", "it's", "$HOME", "a;b"):
            self.out = self.directory / name
            self.good("--out", self.out, "--steps", "1")
            said = self.refusal(73, "--out", self.out)
            line = said[said.index("--resume "):said.index(", replace it by")]
            self.assertEqual(shlex.split(line), ["--resume", str(self.out)])

    def test_what_is_overwritten_is_not_gone_on_with(self):
        self.good("--out", self.out, "--steps", "20")
        old = self.json("run", "run.json")["run"]
        (self.out / "notes.txt").write_text("mine", encoding="utf-8")
        self.good("--out", self.out, "--steps", "5", "--overwrite")
        self.assertEqual(self.checkpoints(), ["ckpt-000005"])
        self.good("--out", self.out, "--resume", self.out, "--steps", "1")
        self.assertEqual(self.steps(), ["1", "2", "3", "4", "5", "6"])
        self.assertTrue((self.out / "notes.txt").exists())
        new = self.json("run", "run.json")["run"]
        self.assertNotEqual(new, old)
        for path, content in self.content().items():
            self.assertNotIn(old.encode(), content, path)

    def test_a_directory_that_is_moved_goes_on_where_it_is(self):
        process, place = self.start("-n", "2", "--steps", "80"), self.directory / "elsewhere"
        ranks = training.ranks_of(self.out)
        self.send(signal.SIGSTOP, ranks)
        self.out.rename(place)
        self.assertIsNone(process.poll())
        self.send(signal.SIGCONT, ranks)
        _, said = process.communicate()
        self.assertEqual(process.returncode, 0, said)
        self.assertIn(f"{self.out} has been moved; this run continues in {place}\n", said)
        self.assertFalse(self.out.exists())
        self.out = place
        self.assertEqual(self.steps(), [str(step) for step in range(1, 81)])
        self.assertEqual(self.checkpoints()[-1], "ckpt-000080")
        self.good("-n", "2", "--out", place, "--resume", place, "--steps", "1")

    def test_a_directory_that_is_removed_is_an_error(self):
        process = self.start("-n", "1", "--steps", "100000")
        ranks = training.ranks_of(self.out)
        self.send(signal.SIGSTOP, ranks)
        shutil.rmtree(self.out)
        self.send(signal.SIGCONT, ranks)
        _, said = process.communicate()
        self.assertEqual(process.returncode, 73, said)
        self.assertIn("was removed during the run", said)
        self.assertEqual([path.name for path in self.out.iterdir()], self.checkpoints())

    def test_a_record_that_is_a_link_is_not_followed(self):
        self.out.mkdir()
        (self.directory / "victim").touch()
        (self.out / "run.json").symlink_to(self.directory / "victim")
        self.assertIn("run.json: cannot be", self.refusal(73, "--out", self.out, "--steps", "1"))

    def test_every_file_says_which_run_it_is_of(self):
        self.good("--out", self.out, "--steps", "5", "--set", "training.evaluate_every=0.125")
        run = self.json("run", "run.json")["run"]
        self.assertEqual(self.json("run", "ckpt-000005", "state.json")["run"], run)
        logs = [path for path in self.out.iterdir()
                if path.name not in ("run.json", "job.yaml", "job.set", "ckpt-000005")]
        self.assertEqual(len(logs), 2)
        for path in logs:
            self.assertIn(run.encode(), path.read_bytes(), path)

    def test_a_second_run_is_refused_while_the_first_lives(self):
        first = self.start("-n", "2")
        for words in ((), ("-n", "2"), ("--overwrite",), ("--resume", self.out)):
            done = self.good("--out", self.out, "--steps", "1", *words, code=73)
            owner = self.json("run", "run.json")
            self.assertIn(f"process {owner['process']} on {socket.gethostname()}", done.stderr)
            self.assertEqual(done.stderr.count("error: "), 1, done.stderr)
        self.assertTrue(os.path.exists(f"/proc/{owner['process']}"))
        self.assertIsNone(first.poll())
        first.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(1000), 75)
        self.assertEqual(self.steps(), [str(i + 1) for i in range(len(self.steps()))])

    def test_a_killed_run_leaves_nothing_that_keeps_others_out(self):
        first = self.start("-n", "2")
        os.kill(self.json("run", "run.json")["process"], signal.SIGKILL)
        first.wait(1000)
        before = self.checkpoints()
        self.good("--out", self.out, "--resume", self.out, "--steps", "1")
        self.assertGreater(self.checkpoints()[-1], before[-1])

    def test_a_run_does_not_write_into_what_was_given_to_another(self):
        first = self.start("-n", "2")
        shutil.rmtree(self.out, ignore_errors=True)
        shutil.rmtree(self.out, ignore_errors=True)  # the first may have written meanwhile
        self.good("--out", self.out, "--steps", "2", "--overwrite")
        # 74 if the directory vanished under a checkpoint that was being written, before the other came
        self.assertIn(first.wait(1000), (73, 74))
        self.assertEqual(self.checkpoints(), ["ckpt-000002"])

    def test_a_run_goes_on_in_another_directory_as_another(self):
        other = self.directory / "other"
        self.good("--out", self.out, "--steps", "5")
        self.good("--out", other, "--resume", self.out, "--steps", "2")
        self.assertEqual(self.checkpoints(other), ["ckpt-000007"])
        self.assertNotEqual(self.json("run", "run.json")["run"],
                            self.json("other", "run.json")["run"])
        self.assertIn("another", self.refusal(73, "--out", other, "--resume", self.out))
        self.good("--out", other, "--resume", other, "--steps", "1")

    def test_a_run_has_one_future(self):
        """Going on from an older checkpoint beside a newer one, which the next resume would take."""
        self.good("--out", self.out, "--steps", "5")
        self.good("--out", self.out, "--resume", self.out, "--steps", "5")
        older = self.out / "ckpt-000005"
        self.assertIn("ckpt-000010", self.refusal(73, "--out", self.out, "--resume", older))
        self.good("--out", self.directory / "other", "--resume", older, "--steps", "1")
        shutil.rmtree(self.out / "ckpt-000010")
        self.good("--out", self.out, "--resume", older, "--steps", "1")
        self.assertEqual(self.checkpoints(), ["ckpt-000005", "ckpt-000006"])

    def test_a_flipped_bit_falls_back_to_the_older_checkpoint(self):
        self.good("--out", self.out, "--steps", "10")
        self.good("--out", self.out, "--resume", self.out, "--steps", "5")
        shutil.copytree(self.out, self.directory / "sound")
        for name in ("model.safetensors", "optim.safetensors", "state.json"):
            shutil.rmtree(self.out)
            shutil.copytree(self.directory / "sound", self.out)
            path = self.out / "ckpt-000015" / name
            content = bytearray(path.read_bytes())
            content[100] ^= 1
            path.write_bytes(content)
            done = self.good("--out", self.out, "--resume", self.out, "--steps", "3")
            self.assertIn("ckpt-000015 is passed over", done.stderr)
            self.assertIn(name, done.stderr)
            self.assertEqual(len(self.steps()), 13)

    def test_another_job_does_not_go_on_in_silence(self):
        self.good("--out", self.out, "--steps", "5")
        on = ["--out", self.out, "--resume", self.out, "--steps", "1"]
        kinds = ["--set", "training.optimizer.name=lars", "--set", "model.classes=8"]
        said = self.refusal(65, *on, *kinds, "--allow-change", "training")
        self.assertIn('training.optimizer.name: "sgd" -> "lars": a run cannot change it', said)
        self.assertIn("model.classes: 4 -> 8: a run cannot change it", said)
        batch = ["--set", "training.phases=[{epochs: 400, global_batch: 32}]"]
        said = self.refusal(65, *on, *batch, "--set", "seed=2", "--allow-change", "seed")
        self.assertIn("training.phases.0.global_batch: 16 -> 32: to change it knowingly: "
                      "--allow-change training.phases.0.global_batch", said)
        self.assertNotIn("seed:", said)
        done = self.good(*on, *batch, "--set", "seed=2", "--allow-change", "seed",
                         "--allow-change", "training.phases", "--set", "cluster.platform=abci",
                         "--set", "cluster.devices_per_node=1")
        self.assertIn("training.phases.0.global_batch: 16 -> 32", done.stderr)
        self.assertIn("seed: 1 -> 2", done.stderr)
        self.assertIn('the result stays: cluster.platform: "t1-torus" -> "abci"', done.stderr)
        self.assertEqual(self.json("run", "ckpt-000006", "state.json")["position"], 5 * 16 + 32)
        self.refusal(65, *on)  # the newest is of the changed job now
        self.good(*on, *batch, "--set", "seed=2")

    def test_ranks_that_change_the_batch_are_another_job(self):
        each = ["--set", "training.phases=[{epochs: 400, batch_per_device: 8}]"]
        self.good("--out", self.out, "--steps", "5", *each)
        on = ["--out", self.out, "--resume", self.out, "--steps", "1", "-n", "2"]
        self.assertIn("global_batch: 8 -> 16", self.refusal(65, *on, *each))
        done = self.good(*on, "--set", "training.phases=[{epochs: 400, global_batch: 8}]",
                         "--set", "training.micro_batch=4", "--allow-change",
                         "training.micro_batch")
        self.assertIn("written on 1 rank, continued on 2", done.stderr)

    def test_a_directory_of_checkpoints_is_not_that_of_a_run(self):
        self.good("--out", self.out, "--steps", "5")
        os.remove(self.out / "run.json")
        self.assertIn("run.json", self.refusal(66, "--resume", self.out))
        self.refusal(73, "--resume", self.out / "ckpt-000005", "--out", self.out)
        self.refusal(73, "--out", self.out)
        self.good("--resume", self.out / "ckpt-000005", "--steps", "1")

    def test_a_job_in_the_directory_of_its_run_stays(self):
        os.mkdir(self.out)
        self.job = shutil.move(self.job, self.out)
        self.good("--out", self.out, "--steps", "5")
        self.good("--out", self.out, "--resume", self.out, "--steps", "1")
        self.good("--out", self.out, "--overwrite", "--steps", "1")
        self.assertEqual((self.out / "job.yaml").read_text(encoding="utf-8"), JOB)

    def test_another_job_in_the_directory_is_not_replaced(self):
        os.mkdir(self.out)
        (self.out / "job.yaml").write_text("mine", encoding="utf-8")
        for words in ((), ("--overwrite",)):
            self.assertIn("job.yaml", self.refusal(73, "--out", self.out, *words))

    def test_what_failed_before_its_first_step_keeps_no_directory(self):
        self.good("--out", self.out, "--set", "training.dataset.source=imagefolder", "--set",
                  "training.dataset.path=/nowhere", code=66)
        self.good("--out", self.out, "--steps", "1")

    def test_parents_of_the_directory_are_made(self):
        self.good("--out", self.directory / "a" / "b" / "c", "--steps", "1")
        self.assertEqual(self.checkpoints(self.directory / "a" / "b" / "c"), ["ckpt-000001"])

    def test_options_that_do_not_fit_each_other_are_refused(self):
        self.assertIn("--out", self.refusal(64, "--overwrite"))
        self.assertIn("--resume", self.refusal(64, "--overwrite", "--out", self.out, "--resume",
                                               self.out))
        self.assertIn("--resume", self.refusal(64, "--allow-change", "seed"))
        self.assertIn("did you mean 'seed'", self.refusal(64, "--resume", self.out,
                                                          "--allow-change", "sead"))
