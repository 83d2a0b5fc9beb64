"""What `explain` answers."""

import support
from support import answer, has_simulator, likely, run

NOISE = ("--set", "noise.compute_cv=0.05")
SLOW_INPUT = ("--set", "input.workers=1", "--set", "input.rate=100 images/s")


def points(causes):
    """The points of each cause by its name."""
    return {cause["name"]: cause["points"] for cause in causes}


class Explain(support.Case):
    """On every back end this build has."""

    def setUp(self):
        super().setUp()
        self.backends = ["analytic"] + (["sim"] if has_simulator() else [])
        self.other = self.write("other.yaml", support.JOB.replace("nodes: 4", "nodes: 16")
                                .replace("columns: 4, rows: 4", "columns: 8, rows: 8"))

    def expect_sums(self, explained):
        """Every number of a run agrees with the others."""
        images = explained["batch_per_device"] / explained["baseline"]["batch_per_device"]
        baseline = images * explained["baseline"]["step_s"]
        seconds = sum(cause["seconds"] for cause in explained["causes"])
        for cause in explained["causes"]:  # nothing is the rounding of equal times
            for key in "seconds", "seconds_low", "seconds_high":
                self.assertFalse(0 < abs(cause[key] or 0) < 1e-12 * explained["step_s"], cause)
        self.assertAlmostEqual(explained["scaling_efficiency"], baseline / explained["step_s"], 12)
        self.assertAlmostEqual(seconds, explained["step_s"] - baseline, 12)
        self.assertAlmostEqual(sum(points(explained["causes"]).values()) / 100,
                               1 - explained["scaling_efficiency"], 9)

    def explain(self, *words):
        """The answer, whose numbers agree."""
        result = answer("explain", *words)
        self.assertEqual(result["schema"], "foretrain/explain/2")
        for explained in result["runs"]:
            self.expect_sums(explained)
        return result

    def points_of(self, *words):
        """The points of each cause of one job."""
        return points(self.explain(self.job, "--backend", "analytic", *words)["causes"])

    def test_the_causes_of_a_job_add_up_to_what_predict_says_is_lost(self):
        for backend in self.backends:
            for words in ([], NOISE, SLOW_INPUT):
                words = ["--backend", backend, *words]
                result = self.explain(self.other, *words)
                predicted = answer("predict", self.other, *words)
                self.assertAlmostEqual(sum(points(result["causes"]).values()) / 100,
                                       1 - predicted["scaling_efficiency"], 9)
                self.assertEqual(result["runs"][0]["step_s"], predicted["step_s"])

    def test_the_causes_of_a_difference_add_up_to_it(self):
        for backend in self.backends:
            for words in ([], NOISE, ["--set", "allreduce={algorithm: tree}"]):
                result = self.explain(self.job, self.other, "--backend", backend, *words)
                first, second = result["runs"]
                self.assertAlmostEqual(sum(points(result["causes"]).values()) / 100,
                                       first["scaling_efficiency"] - second["scaling_efficiency"], 9)
                seconds = sum(cause["seconds"] for cause in result["causes"])
                self.assertAlmostEqual(seconds, second["step_s"] - first["step_s"], 12)

    def test_a_job_that_is_its_own_baseline_loses_nothing(self):
        words = ["--set", "baseline.nodes=4"]
        for cause in self.explain(self.job, "--backend", "analytic", *words)["causes"]:
            self.assertEqual(cause["seconds"], 0, cause["name"])
        self.assertIn("A loses nothing", run("explain", self.job, *words).stdout)

    def test_noise_is_a_cause_of_its_own_and_moves_no_other_wait(self):
        for backend in self.backends:
            without, noisy = (self.explain(self.other, "--backend", backend, *words)["causes"]
                              for words in ([], NOISE))
            for before, after in zip(without, noisy):
                if after["name"] == "jitter and slow ranks":
                    self.assertEqual(before["seconds"], 0)
                    self.assertGreater(after["points"], 1)
                else:
                    self.assertEqual(before["seconds"], after["seconds"], after["name"])

    def test_small_buckets_lose_to_latency_and_a_slow_network_to_bytes(self):
        small = self.points_of("--set", "allreduce.bucket=64 KiB")
        self.assertEqual(max(small, key=small.get), "latency of the column all-reduce")
        ring = ("--set", "allreduce={algorithm: ring, overlap: none}",
                "--set", "baseline={nodes: 1, devices_per_node: 1}")
        large = self.points_of(*ring)
        self.assertEqual(max(large, key=large.get), "bytes of the all-reduce")
        self.assertGreater(large["bytes of the all-reduce"], 5 * large["latency of the all-reduce"])
        self.assertGreater(large["latency of the all-reduce"], 0)

    def test_waiting_that_the_baseline_does_too_is_no_loss(self):
        result = self.explain(self.job, "--backend", "analytic", *SLOW_INPUT)
        self.assertAlmostEqual(result["runs"][0]["scaling_efficiency"], 1, 12)
        self.assertLess(points(result["causes"])["input"], 0, "communication fills the wait")

    def test_an_early_phase_loses_to_its_smaller_batch(self):
        lost = self.points_of("--phase", "1")
        self.assertGreater(lost["smaller local batch"], 0)
        self.assertEqual(self.points_of("--phase", "2"), self.points_of())
        self.assertEqual(self.points_of()["smaller local batch"], 0)

    def test_nccl_has_latency_and_bytes_too(self):
        nccl = self.points_of("--set", "allreduce={algorithm: nccl, overlap: none}")
        self.assertGreater(nccl["latency of the all-reduce"], 0)
        self.assertGreater(nccl["bytes of the all-reduce"], 0)
        self.assertEqual(nccl["bytes of the row exchange"], 0)

    def test_columns_of_nccl_have_its_latency(self):
        """13 trees of 7 levels, each 7.5 us up and down (2.4's), with cables that add nothing."""
        causes = self.explain(self.job, "--backend", "analytic", *[word for pair in (
            "cluster.nodes=128", "cluster.software=mlperf-v0.6", "platform.transport.between=10 us",
            "platform.network.nic.latency=0 s", "platform.network.tiers[0].latency=0 s",
            "allreduce={algorithm: torus2d, grid: {columns: 4, rows: 128}, column_algorithm: nccl, bucket: 4 MiB, overlap: none}")
            for word in ("--set", pair)])["causes"]
        seconds = {cause["name"]: cause["seconds"] for cause in causes}
        self.assertAlmostEqual(seconds["latency of the column all-reduce"], 13 * 7 * 2 * 7.5e-6, 12)

    def test_bytes_name_the_link_that_limits_them(self):
        links = {cause["name"]: cause["link"]
                 for cause in self.explain(self.job, "--backend", "analytic")["causes"]}
        self.assertEqual(links["bytes of the row exchange"], "nvlink")
        self.assertEqual(links["bytes of the column all-reduce"], "nic")
        self.assertIsNone(links["latency of the column all-reduce"])
        self.assertIsNone(links["input"])
        for tensor in (2, 4, 8):  # of a node 4, 2 or 1 with the same parameters, on as many cards
            causes = self.explain(self.job, "-banalytic", "--set=cluster={platform: dgx-h100, nodes: 2}", "--set=allreduce={algorithm: nccl}",
                                  f"--set=parallel={{tensor: {tensor}}}", "--set=model={network: gpt2, hidden: 512, heads: 8}",
                                  "--set=training={phases: [{samples: 1024, batch_per_device: 16}]}")["causes"]
            self.assertIn(("bytes of the all-reduce", "nic"), [(cause["name"], cause["link"]) for cause in causes], tensor)

    def test_the_table_sums_what_it_shows(self):
        lines = run("explain", self.job, self.other, "--backend", "analytic").stdout.splitlines()
        head = next(i for i, line in enumerate(lines) if line.split()[:2] == ["cause", "link"])
        end = next(i for i, line in enumerate(lines) if line.split()[:1] == ["sum"])
        self.assertLess(head + 2, end)
        for column in (-1, -4, -7):
            shown = [float(line.split(" to ")[0].split()[column - (" to " in line)])
                     for line in lines[head + 1:end + 1]]
            self.assertAlmostEqual(sum(shown[:-1]), shown[-1], delta=0.005 * len(shown))

    def test_times_for_other_numbers_of_images_say_so(self):
        more = self.write("more.yaml", support.JOB.replace("batch_per_device: 32",
                                                           "batch_per_device: 128"))
        said = "the times of B - A are for the 128 images of B: those of A count 4 times\n"
        for other, expected in ((more, True), (self.other, False)):
            shown = run("explain", self.job, other, "--backend=analytic").stdout
            self.assertEqual(said in shown, expected, shown)

    def test_the_draws_are_those_of_a_prediction(self):
        unknown = ("--set", "platform.transport.between={low: 5 us, high: 20 us}")
        for backend in self.backends:
            for words in ([], NOISE, *([unknown] if backend == "analytic" else [])):
                words = ["--backend", backend, *words]
                predicted = likely(answer("predict", self.other, *words), "scaling_efficiency")
                result = self.explain(self.other, *words)
                self.assertEqual(len(likely(result["runs"][0], "scaling_efficiency")), len(predicted))
                for found, expected in zip(likely(result["runs"][0], "scaling_efficiency"), predicted):
                    self.assertAlmostEqual(found, expected, 9)
                for found, expected in zip(likely(result, "points"), reversed(predicted)):
                    self.assertAlmostEqual(found, 100 * (1 - expected), 7)
                if not predicted:
                    continue
                lost = {cause["name"]: cause for cause in result["causes"]}
                worst = lost["latency of the column all-reduce"]
                for key in ("seconds", "points"):
                    low, high = likely(worst, key)
                    self.assertLess(low, worst[key])
                    self.assertLess(worst[key], high)

    def test_the_interval_of_a_cause_is_that_of_its_input(self):
        """Four nodes share a file system and wait for it alone; one has it to itself."""
        result = self.explain(self.job, "--backend", "analytic", *[word for pair in (
            "input.workers=4", "input.rate=9000 images/s", "input.image_bytes=100 kB",
            "input.storage={low: 10 MB/s, high: 30 MB/s}", "noise.compute_cv=0")
            for word in ("--set", pair)])
        cause = {cause["name"]: cause for cause in result["causes"]}["input"]
        self.assertAlmostEqual(cause["points"], 75, delta=0.1)
        images = 16 * 32
        for found, rate in zip(likely(cause, "seconds"), (29e6, 11e6)):
            self.assertAlmostEqual(found / (0.75 * images * 100e3 / rate), 1, delta=0.03)

    def test_a_job_loses_nothing_against_itself_in_any_draw(self):
        result = self.explain(self.job, self.job, "--backend", "analytic", *NOISE)
        for cause in result["causes"]:
            self.assertEqual(set(likely(cause, "seconds")) - {0}, set())
        self.assertEqual(set(likely(result, "points")) - {0}, set())

    def test_what_is_uncertain_in_both_cancels(self):
        result = self.explain(self.job, self.other, "--backend", "analytic")
        width = [high - low for low, high in (
            likely(result, "points"), *(likely(run, "scaling_efficiency") for run in result["runs"]))]
        self.assertLess(width[0], 100 * (width[1] + width[2]))

    def test_the_causes_of_one_job_are_those_of_its_run(self):
        result = answer("explain", self.job)
        self.assertEqual(result["causes"], result["runs"][0]["causes"])
        self.assertIn("A loses", result["sentence"])

    def test_faults_are_told(self):
        self.assertIn("there is no phase 7", self.refused(64, "explain", self.job, "--phase", "7"))
        self.refused(64, "explain")
        self.refused(64, "explain", self.job, self.job, self.job)
        self.refused(66, "explain", self.job, self.directory / "missing.yaml")
