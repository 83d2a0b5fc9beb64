#!/usr/bin/python3
"""`import log`: from the lines of a run to the speed of its devices, which makes a prediction as long as they are.

The forms of lines are those that Megatron-LM, NeMo (its own lines and its progress bar), torchtitan (all ranks, in colours)
and Composer print; the numbers are made up.
"""
import itertools
import random
import unittest

import support
from support import answer

JOB = """version: 1
model: {network: llama-3-8b, sequence: 8192, precision: {compute: bf16, gradients: fp32}}
parallel: {sharding: 1, recompute: full}
cluster: {platform: dgx-h100, nodes: 8, software: megatron-core}
training:
  phases: [{tokens: 0.16T, batch_per_device: 2, micro_batch: 1}]
  optimizer: {name: adamw}
allreduce: {algorithm: nccl, overlap: backward}
"""
STEP, BATCH, DEVICES, TOKENS = 2.5, 128, 64, 8192  # of each log
READS = "has no Python to read" if support.part("foretrain-read") is None else ""


def megatron(step, seconds):
    return (f" [2026-01-01 10:00:00.123] iteration {step:8d}/     100 | consumed samples: {step * BATCH:12d} | elapsed time per "
            f"iteration (ms): {1e3 * seconds:.1f} | learning rate: 1.0E-05 | global batch size: {BATCH:5d} | lm loss: 1.1E+01 |\n")


def nemo(step, seconds):
    return (f"Training epoch 0, iteration {step}/99 | lr: 4.5e-05 | global_batch_size: {BATCH} | global_step: {step} | "
            f"reduced_train_loss: 11.03 | train_step_timing in s: {seconds:.5g} | consumed_samples: {step * BATCH}\n")


def progress(step, seconds):
    return (f"Epoch 0: :  {step}%|##  | {step}/100 [10:48<00:00, reduced_train_loss=0.0172, global_step={step}.00, "
            f"consumed_samples={step * BATCH}.0, train_step_timing in s={seconds:.5g}]\r")


def torchtitan(step, seconds):
    rate = BATCH * TOKENS / DEVICES / seconds
    return "".join(f"[rank{rank}]:\x1b[31m[titan] 2026-01-01 10:00:00,774 - root - INFO - \x1b[32mstep: {step:2d}  \x1b[33mloss:  "
                   f"4.9925  grad_norm:  2.6422  memory: 66.91GiB(37.51%)  \x1b[34mtps: {rate:,.0f}  tflops: 314.71  mfu: 31.99%\n"
                   for rank in range(4))


def composer(_, seconds):
    return f"Train throughput/device/tokens_per_sec: {BATCH * TOKENS / DEVICES / seconds:.4f}\n"


def log_of(form, *begin):
    """41 steps about STEP, the first much longer, one as if a checkpoint was written."""
    noise = random.Random(form.__name__)
    steps = [STEP + 30 * (i in (0, 20)) + noise.gauss(0, 0.02) for i in range(41)]
    return "".join(itertools.chain(begin, (form(i + 1, seconds) for i, seconds in enumerate(steps))))


@unittest.skipIf(READS, READS)
class Logs(support.Case):
    """Logs of one job."""

    def setUp(self):
        super().setUp()
        self.job = self.write("job.yaml", JOB)

    def test_a_prediction_is_as_long_as_the_run(self):
        centre = answer("predict", self.job, "--backend=analytic")
        for form in (megatron, nemo, progress, torchtitan, composer):
            told = answer("import", "log", self.write("a.log", log_of(form)), "--job", self.job)["result"]
            step, = told["kinds"]
            self.assertAlmostEqual(step["measured_s"] / STEP, 1, delta=0.01, msg=form.__name__)
            self.assertAlmostEqual(step["predicted_s"] / centre["step_s"], 1, delta=1e-6)
            self.assertEqual(told["steps"], 40, form.__name__)
            says = ("--set", f"cluster.speed={told['speed']!r}", "--set", f"cluster.speed_spread={told['speed_spread']!r}")
            fitted = answer("predict", self.job, "--backend=analytic", *says)
            self.assertAlmostEqual(fitted["step_s"] / step["measured_s"], 1, delta=2e-4)
            width = (fitted["step_s_high"] - fitted["step_s_low"]) / fitted["step_s"]
            self.assertLess(width, 0.9 * (centre["step_s_high"] - centre["step_s_low"]) / centre["step_s"])

    def test_the_job_counts_with_its_own_speed(self):
        half = self.write("half.yaml", JOB.replace("nodes: 8", "nodes: 8, speed: 50 %"))
        log = self.write("a.log", log_of(nemo))
        first, second = (answer("import", "log", log, "--job", job)["result"] for job in (self.job, half))
        self.assertEqual(second["kinds"][0]["predicted_s"], answer("predict", half, "--backend=analytic")["step_s"])
        self.assertAlmostEqual(second["speed"] / first["speed"], 1, delta=3e-4)

    def test_a_step_that_waits_for_its_input_hides_a_part_of_the_speed(self):
        job = self.write("job.yaml", JOB + "input: {workers: 4, rate: 0.1 samples/s}\n")  # 5 s for 2 samples
        log = self.write("a.log", log_of(nemo).replace("timing in s: 2", "timing in s: 8"))
        told = answer("import", "log", log, "--job", job)["result"]
        self.assertAlmostEqual(told["kinds"][0]["predicted_s"], 5)
        slow = answer("predict", job, "--backend=analytic", "--set", f"cluster.speed={told['speed']!r}")
        self.assertAlmostEqual(slow["step_s"] / told["kinds"][0]["measured_s"], 1, delta=2e-4)
        self.assertIn("makes a step take 2.5 s, 1000 % makes it 5 s",
                      self.refused(65, "import", "log", self.write("a.log", "".join(nemo(i, STEP) for i in range(9))), "--job", job))

    def test_what_is_not_of_the_job(self):
        world = "using world size: {}, data-parallel size: 1\n"
        fast = log_of(megatron).replace("(ms): 2", "(ms): 0.2")
        for text, *words in (
                (log_of(megatron, world.format(32)), "of 32 devices, but the job has 64"),
                (log_of(megatron, "  tensor_model_parallel_size ...................... 4\n"), "of 4 devices to a layer, but the job has 1"),
                (log_of(megatron, world.format("64, pipeline-model-parallel size: 2")), "of 2 stages, but the job has 1"),
                (log_of(megatron, world.format(64), world.format(8)), "devices of several runs, 8 and 64"),
                (log_of(megatron).replace(f"batch size:   {BATCH}", "batch size:   64"), "of 64 samples a step", "has 128"),
                (log_of(megatron) + nemo(1, 1), ":1: a step of Megatron in a log of NeMo"),
                (megatron(1, 1) + megatron(2, 1), ":2: 1 step with the same global batch"),
                (megatron(1, 1) + megatron(2, 0), ":2: expected a number above 0"),
                (fast, "no speed of devices from 1 % to 1000 % makes a step take"),
                ("hello\n", ":1: no line reports a step")):
            message = self.refused(65, "import", "log", self.write("a.log", text), "--job", self.job)
            for word in words:
                self.assertIn(word, message)
        self.assertIn("--job", self.refused(64, "import", "log", self.write("a.log", log_of(nemo))))

    def test_a_spread_that_is_proposed_is_accepted(self):
        log = "".join(nemo(i, seconds) for i, seconds in enumerate((9 * STEP, STEP, STEP, STEP, 9 * STEP), 1))
        told = answer("import", "log", self.write("a.log", log), "--job", self.job)["result"]
        answer("predict", self.job, "--backend=analytic", "--set", f"cluster.speed_spread={told['speed_spread']!r}")

    def test_another_job_may_have_run(self):
        slow = self.write("a.log", log_of(megatron).replace("(ms): 2", "(ms): 9"))
        warning, = answer("import", "log", slow, "--job", self.job)["warnings"]
        self.assertIn("outside of the 90 % interval", warning)
