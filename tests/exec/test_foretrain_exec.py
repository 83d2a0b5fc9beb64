"""The program foretrain-exec as users start it: test_foretrain_exec.py PROGRAM."""

import json
import os
import pathlib
import tempfile
import time

import harness
import training
from harness import TOY

harness.need_mpi()
os.environ.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})

NAIVE = ["--device", "cpu-naive"]
ONE = ["--set", "allreduce.grid={columns: 1, rows: 1}", "--set", "cluster.nodes=1",
       "--set", "training.micro_batch=4"]


def launch(ranks, *arguments, code=0):
    done = harness.execute(*harness.on_ranks(ranks, harness.EXECUTOR, *arguments))
    assert done.returncode == code, (done.returncode, done.stderr)
    return done


class ForetrainExec(training.Run):
    @classmethod
    def setUpClass(cls):
        """The whole toy on four ranks, with a checkpoint, which no case changes."""
        cls.whole = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="foretrain-")), "run")
        cls.trained = cls.answer(4, TOY, "--out", cls.whole)

    @staticmethod
    def answer(ranks, *arguments):
        return json.loads(launch(ranks, "train", *arguments, *NAIVE, "--json").stdout)

    def refusal(self, code, ranks, *arguments):
        done = launch(ranks, *arguments, code=code)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_runs_alone_without_mpirun(self):
        answer = self.answer(0, TOY, *ONE, "--steps", "5")
        self.assertEqual((answer["ranks"], answer["steps"], answer["finished"]), (1, 5, False))
        self.assertEqual(len(answer["step"]), 5)
        self.assertEqual(answer["step"][-1]["loss"], answer["loss_last"])

    def test_learns_on_four_ranks(self):
        answer = self.trained
        self.assertEqual((answer["schema"], answer["ranks"]), ("foretrain/training/3", 4))
        self.assertLess(answer["loss_last"], answer["loss_first"])
        self.assertGreater(answer["images_per_s"], 0)
        self.assertTrue(0 <= answer["top1"] <= answer["top5"] <= 1)

    def test_a_finished_run_that_goes_on_has_no_speed_and_no_loss(self):
        short = (TOY, *ONE, "--set", "training.dataset.train_images=64")
        trained = self.answer(0, *short, "--out", self.out)
        self.assertEqual((trained["finished"], trained["steps"]), (True, 8))
        again = self.answer(0, *short, "--resume", self.out)
        done = launch(0, "train", *short, *NAIVE, "--resume", self.out)
        self.assertEqual((again["finished"], again["steps"], again["steps_here"]),
                         (True, trained["steps"], 0))
        self.assertEqual(again["loss"], trained["loss_last"])
        for key in ("images_per_s", "loss_first", "loss_last"):
            self.assertIsNone(again[key], key)
        self.assertRegex(done.stdout, r"(?m)^speed +unknown: no step was left to run$")
        self.assertNotIn("\nloss ", done.stdout)

    def test_runs_the_schedule_that_is_predicted(self):
        path, trace = self.directory / "spans", self.directory / "trace.json"
        answer = self.answer(4, TOY, "--steps", "6", "--spans", path, "--traced-steps", "3",
                             "--trace", trace)
        lines = path.read_text(encoding="utf-8").splitlines()
        events = self.json("trace.json")["traceEvents"]
        self.assertEqual(lines[:3], ["foretrain-trace 1", "backend exec", "grain real"])
        self.assertIn(f"schedule_hash {int(answer['schedule_hash'], 16)}", lines)
        spans = [tuple(map(int, line.split()[:3])) for line in lines if line[0].isdigit()]
        steps = max(step for _, _, step in spans) + 1
        self.assertEqual(sorted(spans), [(i, r, s) for i in range(3) for r in range(4)
                                         for s in range(steps)])
        self.assertTrue(any("all_gather" in event["name"] for event in events))
        predicted = harness.answer("predict", TOY, "--backend", "analytic")
        self.assertEqual(predicted["schedule_hash"], answer["schedule_hash"])

    def test_no_collective_ends_before_the_last_of_its_ranks_enters(self):
        trace = self.directory / "trace.json"
        answer = self.answer(4, TOY, "--steps", "8", "--traced-steps", "8", "--trace", trace)
        events = self.json("trace.json")["traceEvents"]
        self.assertEqual(answer["trace_error_s"], 0)
        together = {}
        for event in events:
            if event["name"].startswith("nccl:"):
                args = event["args"]
                key = args["iteration"], args["step id"], args["Process Group Ranks"]
                together.setdefault(key, []).append((event["ts"], event["ts"] + event["dur"]))
        self.assertGreater(len(together), 8)
        for key, spans in together.items():
            self.assertEqual(len(spans), len(key[2].split(",")))
            self.assertGreaterEqual(min(end for _, end in spans) + 1e-3,
                                    max(begin for begin, _ in spans), key)

    def test_says_what_a_checkpoint_costs(self):
        """Seconds are those of writing alone: at most what is left of the run beside its steps."""
        words = ("--set", "training.checkpoint.every=1", "--set", "training.checkpoint.keep=9")
        begin = time.monotonic()
        told = self.answer(2, TOY, "--out", self.out, *words, "--set",
                           "allreduce.grid={columns: 2, rows: 1}")
        whole = time.monotonic() - begin
        written = self.checkpoints()
        size = sum(entry.stat().st_size for entry in os.scandir(told["checkpoint"]))
        self.assertEqual((told["checkpoints"], told["checkpoint_bytes"]), (len(written), size))
        self.assertEqual(len(written), 2)
        self.assertGreater(told["checkpoint_s"], 0)
        self.assertLess(2 * told["checkpoint_s"] + told["seconds"], whole)
        more = launch(0, "train", TOY, *ONE, *NAIVE, "--steps", "1", "--out",
                      self.directory / "one")
        self.assertRegex(more.stdout, r"checkpoints +1 written, [0-9.e-]+ s each "
                                      r"\(training.checkpoint.cost\), [0-9.]+ MB: [0-9.]+ MB/s")
        self.assertIsNone(self.answer(0, TOY, *ONE, "--steps", "1")["checkpoint_s"])

    def test_evaluation_counts_every_image_once_on_any_number_of_ranks(self):
        trained, answers = self.trained, []
        for ranks in (0, 3, 4):
            done = launch(ranks, "evaluate", trained["checkpoint"], *NAIVE, "--json")
            answers += json.loads(done.stdout)["evaluations"]
        done = launch(2, "evaluate", "--ensemble", trained["checkpoint"], self.whole, *NAIVE, "--json")
        twice, = json.loads(done.stdout)["evaluations"]
        for answer in answers:
            self.assertEqual(answer["images"], 30)
            self.assertEqual(answer["top1_images"], answers[0]["top1_images"])
            self.assertAlmostEqual(answer["loss"], answers[0]["loss"], delta=1e-6)
        self.assertAlmostEqual(trained["top1"], answers[0]["top1"])
        self.assertEqual(twice["top5_images"], answers[0]["top5_images"])
        self.assertEqual(twice["checkpoints"], [trained["checkpoint"]] * 2)

    def test_evaluates_runs_by_their_newest_checkpoint_one_after_the_other(self):
        runs = [str(self.directory / name) for name in "ab"]
        trained = [self.answer(0, TOY, *ONE, "--steps", "2", "--set", f"seed={i}", "--out",
                               run)["checkpoint"] for i, run in enumerate(runs)]
        for words in (runs[:1], runs, trained, [runs[0], "--ensemble"]):
            done = launch(2, "evaluate", *words, *NAIVE, "--json")
            paths = [told["checkpoints"] for told in json.loads(done.stdout)["evaluations"]]
            self.assertEqual(paths, [[path] for path in trained
                                     if path in words or os.path.dirname(path) in words])
        lines = launch(0, "evaluate", *runs, *NAIVE).stdout.splitlines()
        self.assertEqual([line.split(", ")[0] for line in lines], trained)
        both = launch(0, "evaluate", *runs, "--ensemble", *NAIVE).stdout
        self.assertTrue(both.startswith("ensemble of 2, 30 images: "), both)
        os.remove(os.path.join(trained[0], "state.json"))
        self.assertIn("state.json", self.refusal(66, 2, "evaluate", runs[0], *NAIVE))

    def test_sixteen_bit_gradients_learn_as_well(self):
        plain = self.trained["step"][29]["loss"]
        for word in ("fp16", "bf16"):
            half = self.answer(4, TOY, "--steps", "30", "--set", "model.precision.gradients=" + word, "--set",
                               "training.loss_scale={initial: 128, dynamic: true}")
            self.assertAlmostEqual(half["loss_last"], plain, delta=0.05)
            self.assertNotEqual(half["loss_last"], plain)

    def test_refuses_a_wrong_number_of_ranks_once(self):
        message = self.refusal(64, 3, "train", TOY, *NAIVE)
        self.assertEqual(message.count("needs 4 ranks, not 3"), 1)

    def test_refuses_what_the_device_cannot_do(self):
        self.assertIn("model.precision.compute=fp32",
                      self.refusal(69, 0, "train", TOY, *ONE, *NAIVE, "--set",
                                   "model.precision.compute=fp16", "--set",
                                   "cluster.platform=abci", "--set",
                                   "cluster.devices_per_node=1"))
        self.assertIn("algorithm nccl is a model",
                      self.refusal(69, 0, "train", TOY, *ONE, *NAIVE, "--set",
                                   "cluster.platform=abci", "--set",
                                   "cluster.devices_per_node=1", "--set",
                                   "allreduce={algorithm: nccl}"))
        self.assertIn("each rank normalises alone",
                      self.refusal(69, 0, "train", TOY, *ONE, *NAIVE, "--set",
                                   "cluster.platform=dgx-1", "--set",
                                   "cluster.devices_per_node=2", "--set", "allreduce="
                                   "{algorithm: ring}", "--set", "training.batch_norm.group=2"))

    def test_refuses_bad_words(self):
        self.refusal(64, 0)
        self.refusal(64, 0, "train")
        self.refusal(64, 0, "trian", TOY)
        self.refusal(64, 0, "train", TOY, "--stepps", "3")
        self.refusal(66, 0, "train", "there-is-no-such-file.yaml")
        self.refusal(66, 0, "train", TOY, *ONE, *NAIVE, "--resume", "there-is-no-such-directory")

    def test_helps(self):
        self.assertIn("--resume", launch(0, "train", "--help").stdout)
