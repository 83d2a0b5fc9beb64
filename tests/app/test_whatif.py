"""What changes when a job or a platform is changed, against bounds computed here."""
import json
import math
import re
import unittest

import support
from support import answer, likely, run

JOB = """\
version: 1
model: {network: resnet50, image: 224, precision: {compute: fp16, gradients: fp16}}
cluster: {platform: %s, nodes: 32, software: mlperf-v4.0}
training: {dataset: imagenet, phases: [{epochs: 40, batch_per_device: 32}], evaluate_every: 4}
allreduce: {algorithm: nccl, bucket: 16 MiB, overlap: backward}
"""

LEAVES = """\
extends: %s/platforms/dgx-h100.yaml
name: leaves
network:
  tiers:
    - name: leaf
      nodes: 4
      uplinks: %d
      bandwidth: {value: 400 Gb/s, source: of this test, kind: assumed}
      efficiency: {value: 100 %%, source: of this test, kind: assumed}
      latency: {value: %s, source: of this test, kind: assumed}
nccl: {sharp: %s}
"""

GRADIENTS = 25_557_032 * 2  # bytes of ResNet-50's in fp16


class Uplinks(support.Case):
    """A leaf of four nodes with fewer and fewer cables up."""

    def fabric(self, uplinks, latency="130 ns", sharp="true"):
        """A platform, and the job on it."""
        platform = self.write("fabric.yaml", LEAVES % (support.ROOT, uplinks, latency, sharp))
        return self.write("job.yaml", JOB % platform)

    def test_a_slow_hop_counts(self):
        seconds = []
        for latency in ("130 ns", "1 ms"):
            self.fabric(32, latency=latency)
            seconds.append(answer("collective", "--platform", self.directory / "fabric.yaml", "--nodes=32",
                                  "--bytes=8B", "--algorithm=nccl")["rows"][0]["time_s"])
        self.assertGreater(seconds[1], seconds[0] + 1.99e-3)

    def test_the_sentence_names_latency_or_the_link(self):
        """51 MB over eight cards of 100 Mb/s take 0.5 s; five levels of a tree, up and down, 10 ms."""
        for change, named in (("nic.latency=1ms", "the latency of the all-reduce"),
                              ("nic.bandwidth=100Mb/s", "the all-reduce on the nic"),
                              ("tiers[0].bandwidth=10Mb/s", "the all-reduce on the leaf uplink")):
            result = answer("predict", self.fabric(1, sharp="false"), "--set",
                            f"platform.network.{change}")
            self.assertIn(f"of each step waits for {named}", result["sentence"])

    def test_uplinks_that_never_limit_are_no_assumption(self):
        def listed(uplinks):
            return "tiers[0].bandwidth" in "".join(
                answer("predict", self.fabric(uplinks))["assumptions"])

        self.assertFalse(listed(32))
        self.assertTrue(listed(1))


class Inside(support.Case):
    """NCCL inside one node."""

    def seconds(self, platform, *words):
        """All-reduces of one step that nothing hides."""
        job = self.write("job.yaml", JOB % platform)
        return answer("predict", job, "--nodes=1", "--set", "cluster.software=null", "--set",
                      "allreduce.overlap=none", *words)["step"]["exposed_communication_s"]

    def test_rings_carry_no_more_than_the_links_of_a_device(self):
        """A ring of n enters and leaves a device with 2 (n - 1) / n of the vector."""
        for platform, links, devices, rate in (
                ("dgx-a100", {0: 30e9}, 8, 0.8 * 30e9),
                ("dgx-1", {0: 5e9, 1: 2.5e9}, 8, 0.8 * (2 * 5e9 + 2 * 2.5e9)),
                ("dell-xe8545", {0: 10e9}, 4, 0.8 * 3 * 10e9)):
            words = [f"--set=platform.node.links[{link}].bandwidth={value:.0f}B/s"
                     for link, value in links.items()]
            least = GRADIENTS * 2 * (devices - 1) / devices / rate
            found = self.seconds(platform, *words)
            self.assertGreaterEqual(found, least, platform)
            self.assertLess(found, 1.3 * least + 1e-3, platform)
            self.assertLess(self.seconds(platform), 0.3 * least)

    def test_two_devices_of_a_mesh_have_the_link_between_them(self):
        found = self.seconds("abci", "--set", "cluster.devices_per_node=2")
        self.assertGreaterEqual(found, GRADIENTS / (50e9 * 0.84))


class Noise(support.Case):
    """Jitter and slow ranks."""

    def step(self, *words):
        """The prediction of the job with 1 % of its ranks 50 % slower, and other words."""
        return answer("predict", self.job, "--set", "noise.compute_cv=3 %",
                      "--set", "noise.straggler.fraction=1 %",
                      "--set", "noise.straggler.slowdown=50 %", *words)

    def test_seeds_move_a_draw_and_not_what_is_expected(self):
        expected = {json.dumps(self.step("--set", f"seed={seed}")["step"]) for seed in range(1, 5)}
        drawn = {self.step("--set", f"seed={seed}", "--noise", "drawn")["step_s"]
                 for seed in range(1, 5)}
        self.assertEqual(len(expected), 1)
        self.assertEqual(len(drawn), 4)

    def test_every_grain_and_back_end_agrees_on_it(self):
        found = [self.step(*words)["step"]["slower_ranks_s"] for words in (
            ("--backend", "analytic"), ("--grain", "full"), ("--grain", "folded"))]
        self.assertLess(max(found), 1.01 * min(found))

    def test_no_noise_is_none(self):
        for words in (["--noise", "none"], ["--set", "noise={compute_cv: 0}"]):
            self.assertEqual(answer("predict", self.job, *words)["step"]["slower_ranks_s"], 0)
        small = self.step("--set", "noise={compute_cv: 0.01 %}")["step_s"]
        self.assertGreater(small, self.step("--noise", "none")["step_s"])

    def test_waiting_for_slow_ranks_is_not_communication(self):
        quiet, result = self.step("--noise", "none")["step"], self.step()
        noisy = result["step"]
        for part in "compute_s", "exposed_communication_s", "input_wait_s", "other_s":
            self.assertEqual(quiet[part], noisy[part], part)
        parts = sum(value for key, value in noisy.items()
                    if key not in ("exposed_row_s", "exposed_column_s"))
        self.assertAlmostEqual(parts, result["step_s"], 12)
        result = answer("explain", self.job, "--set", "noise.straggler.fraction=10 %",
                        "--set", "noise.straggler.slowdown=100 %")
        lost = {cause["name"]: cause["points"] for cause in result["causes"]}
        self.assertEqual(max(lost, key=lost.get), "jitter and slow ranks")
        sentence = answer("predict", self.job, "--set", "noise.straggler.fraction=10 %",
                          "--set", "noise.straggler.slowdown=200 %")["sentence"]
        self.assertIn("waits for the slowest device", sentence)


class Hops(support.Case):
    """The spread of a hop between nodes."""

    def width(self, spread, nodes):
        """High over low of the step with that spread."""
        platform = self.write("hops.yaml", f"""\
extends: {support.ROOT}/platforms/abci.yaml
name: hops
transport:
  inside: {{value: 2 us, source: of this test, kind: measured}}
  between: {{value: 10 us, source: of this test, kind: measured, spread: {spread}}}
""")
        low, high = likely(answer("predict", self.job, "--set", f"cluster.platform={platform}",
                           "--set", f"cluster.nodes={nodes}", "--set", "allreduce.overlap=none",
                           "--set", "allreduce.grid={columns: 4, rows: %d}" % nodes,
                           ), "step_s")
        return high / low

    def test_it_widens_the_interval_where_messages_wait_for_each_other(self):
        self.assertGreater(self.width("60 %", 128), 1.3 * self.width("1 %", 128))
        self.assertLess(self.width("60 %", 1) / self.width("1 %", 1) - 1, 1e-9)


class Columns(support.Case):
    """The columns of a torus timed by NCCL's model."""

    NCCL = ("--set", "allreduce.column_algorithm=nccl")

    def test_a_row_must_be_a_node(self):
        self.assertEqual(answer("predict", self.job, *self.NCCL)["grid"]["columns"], 4)
        message = self.refused(65, "predict", self.job, *self.NCCL,
                               "--set", "allreduce.grid={columns: 8, rows: 2}")
        self.assertIn("a row must be a node of 4", message)

    @unittest.skipUnless(support.has_simulator(), "built without SimGrid")
    def test_both_back_ends_agree_where_only_the_columns_cross_the_network(self):
        steps = [answer("predict", self.job, *self.NCCL, "--set", "allreduce.overlap=none",
                        "--backend", backend)["step_s"] for backend in ("analytic", "sim")]
        self.assertLess(abs(steps[0] / steps[1] - 1), 1e-9)

    def test_processors_do_not_run_it(self):
        self.assertIn("NCCL in columns is a model",
                      run("train", self.job, "-n", "4", "--dry-run", *self.NCCL,
                          "--set", "cluster.nodes=1",
                          "--set", "allreduce.grid={columns: 4, rows: 1}").stderr)


class Grain(support.Case):
    """The grain that is named is the one that ran."""

    @unittest.skipUnless(support.has_simulator(), "built without SimGrid")
    def test_what_is_named_full_equals_a_full_run(self):
        job = support.ROOT / "experiments/01_sony_abci/v1-1088.yaml"
        words = ("--nodes=37", "--noise=none", "--set", "allreduce.grid={columns: 37, rows: 4}",
                 "--set", "training.phases=[{epochs: 90, batch_per_device: 32}]")
        auto = answer("predict", job, *words)
        self.assertEqual(auto["grain"], "full")
        self.assertEqual(auto["step"], answer("predict", job, *words, "--grain=full")["step"])


class Memory(support.Case):
    """Batches that no device can hold."""

    def words(self, batch):
        """The job with that many images on each of its V100s of 16 GB."""
        return ("--set", f"training.phases=[{{epochs: 90, batch_per_device: {batch}}}]")

    def test_a_batch_that_does_not_fit_is_refused_with_the_largest_that_does(self):
        for command in "predict", "check", "explain":
            message = self.refused(65, command, self.job, *self.words(4096))
            most = int(re.search(r"do not fit the 16 GB of \S+, at most (\d+) do", message)[1])
            self.refused(65, command, self.job, *self.words(most + 1))
            self.assertEqual(run(command, self.job, *self.words(most)).returncode, 0)
        part = re.search(r"training.micro_batch=\d+", message)[0]
        self.assertEqual(run("predict", self.job, *self.words(4096), "--set", part).returncode, 0)

    def test_it_is_predicted_all_the_same_when_asked(self):
        result = answer("predict", self.job, "--ignore-memory", *self.words(4096))
        self.assertEqual(result["phases"][0]["batch_per_device"], 4096)


class Nodes(support.Case):
    """Phases with nodes of their own."""

    PHASES = "training.phases=[{epochs: 45, batch_per_device: 32, nodes: 2}, {epochs: 45, " \
             "batch_per_device: 32}]"

    def test_each_phase_is_the_job_on_its_own_nodes(self):
        result = answer("predict", self.job, "--set", self.PHASES)
        alone = answer("predict", self.job, "--nodes", "2", "--set",
                       "allreduce.grid={columns: 4, rows: 2}", "--set",
                       "training.phases=[{epochs: 45, batch_per_device: 32}]")
        first, last = result["phases"]
        self.assertEqual([first["devices"], last["devices"]], [8, 16])
        self.assertEqual([first["global_batch"], last["global_batch"]], [256, 512])
        self.assertEqual(first["steps"], math.ceil(45 * 1281167 / 256))
        self.assertEqual(first["step_s"], alone["phases"][0]["step_s"])
        self.assertEqual(result["devices"], 16)
        spent = sum(phase["steps"] * phase["step_s"] for phase in result["phases"])
        self.assertLess(abs(spent + result["evaluation_s"] - result["time_to_train_s"]), 1e-6)

    def test_what_no_phase_can_have_is_refused(self):
        for text, word in ((self.PHASES.replace("nodes: 2", "nodes: 100000"), "only 1088 nodes"),
                           (self.PHASES.replace("32}]", "32, nodes: 2}]"), "the last phase")):
            self.assertIn(word, self.refused(65, "check", self.job, "--set", text))
        self.assertIn("a training run keeps its ranks",
                      self.refused(69, "train", self.job, "--dry-run", "-n", "16", "--set",
                                   self.PHASES))


class Storage(support.Case):
    """A file system that all nodes share."""

    INPUT = ("--set", "input={workers: 4, rate: 1000 images/s, storage: 1 GB/s}", "--set",
             "noise={compute_cv: 0}")

    def test_nothing_is_below_zero_where_noise_hides_behind_it(self):
        for rate in range(200, 3001, 200):
            step = answer("predict", self.job, "-banalytic", "--set", "noise.compute_cv=1 %", "--set",
                          f"input={{workers: 4, rate: {rate} images/s}}")["step"]
            self.assertGreaterEqual(min(v for v in step.values() if v is not None), 0, rate)

    def test_all_devices_share_what_it_delivers(self):
        result = answer("predict", self.job, *self.INPUT)
        self.assertEqual(result["bound_by"], "input")
        self.assertLess(abs(result["images_per_s"] / (1e9 / 115e3) - 1), 1e-6)

    def test_it_decides_as_soon_as_steps_wait_for_it(self):
        """A fifth less than devices take: nothing else would shorten the step."""
        free = answer("predict", self.job, "-banalytic")["step_s"]
        for share, bound in ((0.8, "input"), (1.2, "compute")):
            rate = share * 32 / free
            result = answer("predict", self.job, "-banalytic", "--set",
                            f"input={{workers: 1, rate: {rate} images/s}}")
            self.assertEqual(result["bound_by"], bound, share)

    def test_a_baseline_that_waits_for_it_too_scales_no_better_than_the_storage(self):
        result = answer("predict", self.job, *self.INPUT)
        baseline = min(result["baseline"]["images_per_s"], 1e9 / 115e3)
        self.assertLess(abs(result["scaling_efficiency"] - 1e9 / 115e3 / 16 / (baseline / 4)), 1e-6)

    def test_it_needs_workers(self):
        self.assertIn("no effect without input.workers",
                      self.refused(65, "check", self.job, "--set", "input={storage: 1 GB/s}"))
        self.assertIn("no effect without input.storage", self.refused(
            65, "check", self.job, "--set",
            "input={workers: 4, rate: 1000 images/s, image_bytes: 10 kB}"))


class Scaling(support.Case):
    """Efficiency against one node."""

    def test_strong_and_weak_scaling_are_told_apart(self):
        words = ("--set", "training.phases=[{epochs: 90, global_batch: 1024}]",
                 "--set", "noise={compute_cv: 0}")
        result = answer("predict", self.job, *words)
        one = {kind: answer("predict", self.job, *words[2:], "--set", "cluster.nodes=1",
                            "--set", "allreduce.grid={columns: 2, rows: 2}", "--set",
                            f"training.phases=[{{epochs: 90, global_batch: {batch}}}]")
               for kind, batch in (("strong", 1024), ("weak", 256))}
        self.assertEqual(result["scaling"], "strong")
        self.assertEqual(result["scaling_efficiency"], result["strong_scaling_efficiency"])
        self.assertLess(result["strong_scaling_efficiency"], result["weak_scaling_efficiency"])
        for kind, single in one.items():
            expected = result["images_per_s"] / 4 / single["images_per_s"]
            self.assertLess(abs(result[f"{kind}_scaling_efficiency"] / expected - 1), 1e-9)

    def test_no_interval_of_efficiency_passes_one(self):
        result = answer("predict", self.job)
        low, high = result["scaling_efficiency_low"], result["scaling_efficiency_high"]
        self.assertLess(low, result["scaling_efficiency"])
        self.assertLessEqual(result["scaling_efficiency"], high)
        self.assertLessEqual(high, 1)
        for key in ("images_per_s", "time_to_train_s"):
            self.assertLess(result[f"{key}_low"], result[key])
            self.assertLess(result[key], result[f"{key}_high"])
