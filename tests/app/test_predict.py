#!/usr/bin/python3
"""What `predict` answers."""
import contextlib
import csv
import json
import os
import random
import re
import math
import subprocess

import harness
import support
from support import answer, has_simulator, likely, run


class Predict(support.Case):
    """On every back end this build has."""

    def setUp(self):
        super().setUp()
        self.backends = ["analytic"] + (["sim"] if has_simulator() else [])

    def test_the_numbers_agree_with_each_other(self):
        for backend in self.backends:
            result = answer("predict", self.job, "--backend", backend)
            step, phases = result["step"], result["phases"]
            parts = sum(value for key, value in step.items() if key in (
                "compute_s", "slowed_s", "exposed_communication_s", "input_wait_s", "other_s"))
            self.assertAlmostEqual(parts / result["step_s"], 1.0, places=9)
            self.assertEqual(result["devices"], 16)
            self.assertEqual([p["global_batch"] for p in phases], [256, 512])
            self.assertEqual(phases[0]["steps"], -(-30 * 1281167 // 256))
            self.assertAlmostEqual(result["images_per_s"], 512 / phases[1]["step_s"], places=6)
            stepping = sum(p["steps"] * p["step_s"] for p in phases)
            self.assertGreater(result["time_to_train_s"], stepping)
            self.assertLess(result["time_to_train_s"], 1.1 * stepping)
            base = result["baseline"]
            self.assertEqual(base["devices"], 4)
            self.assertAlmostEqual(
                result["scaling_efficiency"],
                result["images_per_s"] / 16 / (base["images_per_s"] / 4), places=12)
            self.assertTrue(0 < result["scaling_efficiency"] <= 1)

    def test_the_start_up_is_added_once_to_the_time_to_train(self):
        for backend in self.backends:
            plain = answer("predict", self.job, "--backend", backend)
            late = answer("predict", self.job, "--backend", backend, "--set",
                          "training.startup=1.5 min")
            self.assertEqual((plain["startup_s"], late["startup_s"]), (0, 90))
            self.assertAlmostEqual(late["time_to_train_s"], plain["time_to_train_s"] + 90)
            self.assertEqual(late["step"], plain["step"])
        self.assertIn("needs a unit", self.refused(65, "predict", self.job, "--set",
                                                   "training.startup=90"))

    def test_batch_norm_in_groups_takes_the_exchanges_of_its_sums_longer(self):
        exchange = 53 * 2 * 3.4e-6  # of ResNet-50, forward and backward
        for backend in self.backends:
            times = [answer("predict", self.job, "--backend", backend, "--set", "allreduce.overlap="
                            "none", "--set", f"training.batch_norm.group={group}")["step_s"]
                     for group in (1, 2, 4)]
            self.assertAlmostEqual(times[1] - times[0], exchange, delta=1e-3 * exchange)
            self.assertAlmostEqual(times[2] - times[1], exchange, delta=1e-3 * exchange)

    def test_an_order_that_has_no_effect_is_refused_without_a_place_in_the_file(self):
        for sets, part in ((["allreduce={algorithm: hierarchical}"], "algorithm hierarchical"),
                           (["cluster={platform: t1-torus, nodes: 16}"], "t1-torus")):
            text = self.refused(64, "predict", self.job, "--order=column",
                                *(f"--set={word}" for word in sets))
            self.assertTrue(text.startswith(f"error: --order has no effect on {part}"), text)

    def test_a_group_of_batch_norm_that_cannot_be_is_refused(self):
        for words, message in ((("group=3",), "1, 2, 4, 8"),
                               (("group=8",), "do not fill a node of 4"),
                               (("group=2", "model.network=vgg16"), "vgg16 has no batch norm")):
            sets = [word for word in words[1:]] + [f"training.batch_norm.{words[0]}"]
            text = self.refused(65, "predict", self.job, *(f"--set={word}" for word in sets))
            self.assertIn(message, text)

    def test_the_simulator_is_never_faster_than_the_closed_form(self):
        if not has_simulator():
            self.skipTest("built without SimGrid")
        closed = answer("predict", self.job, "--backend", "analytic")
        simulated = answer("predict", self.job, "--backend", "sim")
        self.assertGreaterEqual(simulated["step_s"], closed["step_s"] * (1 - 1e-9))
        self.assertEqual(simulated["schedule_hash"], closed["schedule_hash"])

    def test_the_same_question_gets_the_same_bytes(self):
        words = ("predict", self.job, "--json", "--set=noise.compute_cv={low: 1 %, high: 9 %}")
        self.assertEqual(run(*words).stdout, run(*words).stdout)

    def test_set_overrides_a_key_and_changes_the_fingerprint(self):
        words = ("predict", self.job, "-b", "analytic")
        plain = answer(*words)
        other = answer(*words, "--set", "cluster.nodes=8", "--set",
                       "allreduce.grid={columns: 4, rows: 8}")
        self.assertEqual(other["devices"], 32)
        self.assertNotEqual(plain["scenario_sha256"], other["scenario_sha256"])
        self.assertIn("--set", self.refused(65, *words, "--set", "cluster.nodez=8"))

    def test_tensors_that_are_cut_are_counted(self):
        """ResNet-50 in fp16 has 161 tensors and 51,114,064 B."""
        words = ("predict", self.job, "-b", "analytic", "--set")
        for bucket, where in (("4 MiB", "assumptions"), ("10 KiB", "warnings")):
            result = answer(*words, f"allreduce.bucket={bucket}")
            text, = [line for line in result[where] if "are cut" in line]
            self.assertIn("3 of 161" if bucket == "4 MiB" else "in 4992 all-reduces", text)
        result = answer(*words, "allreduce.bucket=5 MiB")
        self.assertNotIn("are cut", str(result))

    def test_a_chosen_grid_is_an_assumption(self):
        text = support.JOB.replace("grid: {columns: 4, rows: 4}, ", "")
        result = answer("predict", self.write("free.yaml", text), "-b", "analytic")
        self.assertEqual(result["grid"], {"columns": 4, "rows": 4})
        self.assertTrue(any("grid 4 x 4" in line for line in result["assumptions"]))

    def test_gradients_of_another_type_than_the_links_were_measured_with(self):
        platform = self.write("mine.yaml", f"extends: {support.ROOT}/platforms/abci.yaml\n"
                                           "name: mine\ntransport: {payload: fp32}\n")

        def notes(*words):
            result = answer("predict", self.job, "-b", "analytic", *words)
            return result["platform_hash"], [line for line in result["assumptions"]
                                             if line.startswith("links were measured")]
        mine = f"--set=cluster.platform={platform}"
        for measured, travels, why in (
                ("fp32", "fp16", "whose conversion is not in the prediction"),
                ("fp32", "bf16", "whose conversion is not in the prediction"),
                ("fp16", "fp32", "without the conversion in the prediction"),
                ("bf16", "fp16", "whose conversion is another")):
            self.write("mine.yaml", f"extends: {support.ROOT}/platforms/abci.yaml\n"
                                    f"name: mine\ntransport: {{payload: {measured}}}\n")
            words = mine, f"--set=model.precision.gradients={travels}"
            self.assertEqual(notes(*words)[1], [
                f"links were measured with gradients in {measured}; those of the job travel in "
                f"{travels}, {why}: foretrain calibrate cluster --gradients {travels}"])
            self.assertEqual(notes(mine, f"--set=model.precision.gradients={measured}")[1], [])
            self.assertEqual(notes(*words, "--set=cluster.nodes=1",
                                   "--set=cluster.devices_per_node=1",
                                   "--set=allreduce={overlap: none}",
                                   "--set=training.phases=[{epochs: 1, batch_per_device: 8}]")[1],
                             [])
        self.assertEqual(notes()[1], [])  # abci does not say

    def test_a_link_that_is_as_busy_as_the_busiest_is_named(self):
        """A card of 12.00 GB/s behind 12.00 GB/s of PCIe: a faster one changes nothing."""
        def found(nic):
            return answer("predict", self.job, "-banalytic", "--set", "allreduce.overlap=none", "--set",
                          "allreduce.bucket=512MiB", "--set", f"platform.network.nic.bandwidth={nic}")
        slow, usual, fast = (found(nic) for nic in ("5 GB/s", "12.5 GB/s", "25 GB/s"))
        self.assertTrue(slow["sentence"].endswith("column all-reduce on the nic"), slow["sentence"])
        self.assertIn("on the nic (pcie is 100 % as busy)", usual["sentence"])
        self.assertLess(usual["step_s"] / fast["step_s"], 1.001)
        self.assertGreater(slow["step_s"] / usual["step_s"], 1.1)
        said = run("explain", self.job, "-banalytic").stdout
        self.assertIn("   busiest in the column exchange: nic (pcie is 100 % as busy)\n", said)

    def test_a_number_that_scatters_widens_the_interval(self):
        for spread, width in (("", 0.03), (", spread: 40 %", 0.4)):
            platform = self.write("slow.yaml", "version: 1\nname: slow\ndescription: slow\n"
                                  "kind: ring\ndevice: v100-sxm2-16gb\nring:\n"
                                  "  bandwidth: {value: 10 MB/s, source: a test, kind: measured"
                                  f"{spread}}}\n"
                                  "  efficiency: {value: 100 %, source: a test, kind: measured}\n"
                                  "  latency: {value: 1 us, source: a test, kind: measured}\n")
            low, high = likely(answer("predict", self.job, "-b", "analytic", "--set",
                               f"cluster={{platform: {platform}, nodes: 4}}", "--set",
                               "allreduce={algorithm: ring, bucket: 4 MiB}"), "step_s")
            # nearly all of the step is the exchange: both deviations, and with probability 0.27 up
            # to 21 % more
            rng = random.Random(1)
            drawn = sorted(rng.gauss(0, (width ** 2 + 0.05 ** 2) ** 0.5)
                           + math.log(1 + (rng.random() < 0.27) * 0.21 * rng.random())
                           for _ in range(40000))
            expected = drawn[38000] - drawn[2000]
            self.assertLess(abs(math.log(high / low) / expected - 1), 0.2, spread)

    def test_software_without_a_run_on_the_device_is_an_assumption(self):
        def notes(platform, software):
            result = answer("predict", self.job, "-b", "analytic", "--set",
                            f"cluster={{platform: {platform}, nodes: 4, software: {software}}}",
                            "--set=baseline={nodes: 1}", "--set=allreduce={algorithm: ring}")
            return [line for line in result["assumptions"] if line.startswith("software ")]
        self.assertEqual(notes("dgx-h100", "mlperf-v4.0"), [])
        self.assertIn("software mlperf-v0.5 has no run on h100-sxm5-80gb",
                      notes("dgx-h100", "mlperf-v0.5")[0])
        self.assertIn("as under mlperf-v2.1", notes("dgx-a100-40gb", "mlperf-v4.0")[0])

    def test_what_a_job_leaves_to_the_device_or_does_otherwise_than_its_software_is_said(self):
        """The profile of v4.0 says overlap: none, that of PyTorch overlap: backward."""
        def notes(software, exchange):
            result = answer("predict", self.job, "-b", "analytic", "--set",
                            f"cluster={{platform: dgx-h100, nodes: 4{software}}}",
                            "--set=baseline={nodes: 1}",
                            f"--set=allreduce={{algorithm: ring, {exchange}}}")
            return "\n".join(result["assumptions"])
        said, early = "no cluster.software is given: kernels are as fast", "begin during it"
        self.assertIn(said, notes("", "overlap: none"))
        self.assertNotIn(said, notes(", software: mlperf-v4.0", "overlap: none"))
        for exchange, told in (("bucket: 4 MiB", True), ("bucket: 4 MiB, overlap: none", False),
                               ("bucket: 1 GiB", False)):
            self.assertEqual(early in notes(", software: mlperf-v4.0", exchange), told, exchange)
        self.assertNotIn(early, notes(", software: pytorch", "bucket: 4 MiB"))

    def test_a_transformer_has_the_software_of_transformers_unless_its_device_was_measured(self):
        job = self.write("text.yaml", """version: 1
model: {network: gpt2}
cluster: {platform: dgx-h100, nodes: 1}
training: {optimizer: {name: adamw}, phases: [{tokens: 1B, batch_per_device: 4}]}
""")
        words = ("predict", job, "-banalytic", "--set=allreduce.algorithm=ring")
        named = answer(*words, "--set=cluster.software=pytorch-flash")
        found = answer(*words)
        self.assertEqual(found["step_s"], named["step_s"])
        self.assertEqual(set(found["assumptions"]) - set(named["assumptions"]),
                         {"no cluster.software is given: kernels are as fast as under pytorch-flash"})
        own = self.write("own.yaml", "extends: h100-sxm5-80gb\nmath_efficiency: {value: 54 %, source: here, kind: measured}\n")
        self.assertNotIn("flash", str(answer(*words, f"--set=platform.device={own}")["assumptions"]))

    def test_networks_with_experts_and_a_slow_host_are_uncertain(self):
        job = self.write("experts.yaml", """version: 1
model: {network: mixtral-8x7b, sequence: 4096, layers: 2}
cluster: {platform: dgx-h100, nodes: 1, software: megatron-core}
parallel: {expert: 4}
training: {optimizer: {name: adamw}, phases: [{tokens: 1B, batch_per_device: 4}]}
""")
        own = self.write("own.yaml", f"extends: {support.ROOT}/platforms/software/megatron-core.yaml\nname: own\n"
                                     "kinds: {experts: {value: 100 %, spread: 0 %, source: a test, kind: assumed}}\n")
        slow = self.write("slow.yaml", f"extends: {own}\nname: slow\nexperts_launch: {{value: 5 ms, source: a test, kind: assumed}}\n")
        words = ("predict", job, "-banalytic", "--ignore-memory", f"--set=cluster.software={own}")
        wide, known, host = (answer(*words, *more) for more in (["--set=cluster.software=megatron-core"], [],
                                                                [f"--set=cluster.software={slow}"]))
        ratio = [result["step_s_high"] / result["step_s_low"] for result in (wide, known, host)]
        self.assertTrue(1.1 < wide["step_s"] / known["step_s"] <= 1 / 0.81)
        self.assertEqual(["81 % of the rates" in str(result["assumptions"]) for result in (wide, known)], [True, False])
        self.assertGreater(ratio[0], 1.3 * ratio[1])  # 20 % more
        self.assertGreater(host["step_s"], known["step_s"])
        self.assertGreater(ratio[2], 1.3 * ratio[1])  # 30 %: assumed
        self.assertIn("cost of launching a kernel on the host", [share["input"] for share in host["interval_shares"]
                                                                 if share["step"]])

    def test_fp32_is_said_to_be_no_tf32(self):
        for platform, software, told in (("dgx-a100", "null", "with TF32"), ("dgx-1", "null", None), ("dgx-1", "pytorch", None),
                                         ("dgx-a100", "pytorch", "fp32 is tf32 in convolutions")):
            said = answer("predict", self.job, "-banalytic", "--set", f"cluster.platform={platform}",
                          "--set=cluster.devices_per_node=null", "--set=cluster.nodes=2", f"--set=cluster.software={software}",
                          "--set=model.precision={compute: fp32, gradients: fp32}",
                          "--set=baseline={nodes: 1}")["assumptions"]
            self.assertEqual([line for line in said if "fp32 is" in line and (not told or told not in line)], [], platform)
            self.assertEqual(any(told and told in line for line in said), bool(told), platform)

    def test_no_more_of_the_peak_is_used_than_there_is(self):
        """Of tf32, too; narrower products are over the peak of bf16, as they are published."""
        job = self.write("text.yaml", """version: 1
model: {network: llama-3-8b, sequence: 4096, layers: 4}
cluster: {platform: dgx-b300, nodes: 1, software: megatron-core}
training: {optimizer: {name: adamw}, phases: [{tokens: 1B, batch_per_device: 2}]}
""")
        used = [answer("predict", job, "-banalytic", "--ignore-memory", f"--set=model.precision={precision}",
                       f"--set=cluster.software={software}")
                for software, precision in (("megatron-core", "{compute: bf16}"), ("megatron-core", "{compute: bf16, products: fp8}"),
                                            ("megatron-core", "{compute: bf16, products: fp4}"), ("pytorch", "{compute: fp32}"))]
        self.assertTrue(0.1 < used[0]["mfu"] < 1 and 0.1 < used[3]["mfu"] < 1, used)
        for narrow in used[1:3]:
            self.assertAlmostEqual(narrow["mfu"] / used[0]["mfu"], narrow["tokens_per_s"] / used[0]["tokens_per_s"], 9)

    def test_images_that_are_always_ready_are_an_assumption(self):
        for words, told in ([], True), (["--set=input={workers: 4, rate: 9999 images/s}"], False):
            result = answer("predict", self.job, "-banalytic", *words)
            rate = f"each node is given {result['images_per_s'] / result['nodes']:.0f} images/s"
            self.assertEqual(any(rate in line for line in result["assumptions"]), told)

    def test_a_missing_simulator_is_said_not_hidden(self):
        result = answer("predict", self.job, FORETRAIN_LIBEXEC=str(self.directory))
        self.assertEqual(result["backend"], "analytic")
        self.assertTrue(any("foretrain-sim" in line for line in result["warnings"]))
        self.refused(69, "predict", self.job, "-b", "sim", FORETRAIN_LIBEXEC=str(self.directory))

    def test_a_trace_names_rows_and_columns_where_there_are_some(self):
        path = self.directory / "t.json"
        for words, lanes in (([], {"row", "column"}), (["--algorithm=nccl", "--set",
                                                        "allreduce.grid=null"], {"all-reduce"})):
            answer("predict", self.job, "-banalytic", "--trace", path, *words)
            events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
            named = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
            self.assertEqual(named, lanes | {"compute", "input", "iterations"})

    def test_a_trace_is_chrome_json_whose_spans_do_not_overlap(self):
        path = self.directory / "trace.json"
        answer("predict", self.job, "--trace", path)
        lanes = {}
        for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]:
            if event["ph"] == "X":
                lanes.setdefault((event["pid"], event["tid"]), []).append(
                    (event["ts"], event["ts"] + event["dur"]))
        self.assertGreaterEqual(len(lanes), 3)
        for spans in lanes.values():
            spans.sort()
            for (_, end), (begin, _) in zip(spans, spans[1:]):
                self.assertLessEqual(end, begin + 2e-3)  # microseconds, printed with three digits

    def spans(self, *words):
        """How many steps a trace has."""
        path = self.directory / "trace.json"
        answer("predict", self.job, "--trace", path, *words)
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
        return sum(event["ph"] == "X" for event in events)

    def test_one_step_is_walked_where_all_are_alike(self):
        noise = ("--set", "noise.compute_cv=2 %", "--noise", "drawn")
        once = ("--iterations", "1")
        for backend in self.backends:
            folded = ("-b", backend, "-g", "folded")
            one = self.spans(*folded, *once)
            self.assertEqual(self.spans(*folded), one)
            self.assertEqual(self.spans(*folded, *noise), one)
            self.assertEqual(self.spans(*folded, "--set",
                                        "input={workers: 4, rate: 500 images/s}"), 2 * one)
        self.assertEqual(self.spans("-b", "analytic", *noise), one)
        if has_simulator():
            full = ("-b", "sim", "-g", "full", *noise)
            self.assertEqual(self.spans(*full), 2 * self.spans(*full, *once))

    def test_each_all_reduce_is_ready_begins_ends_and_is_exposed(self):
        for backend in self.backends:
            for words in ([], ["--set=allreduce={algorithm: ring, bucket: 4 MiB}"],
                          ["--set=input={workers: 4, rate: 500 images/s}"],
                          ["--set=allreduce.overlap=none"]):
                result = answer("predict", self.job, "-b", backend, *words)
                rows = result["exchanges"]
                self.assertAlmostEqual(sum(row["exposed_s"] for row in rows),
                                       result["step"]["exposed_communication_s"], 12)
                for row in rows:
                    self.assertLessEqual(row["ready_s"], row["begin_s"] + 1e-12)
                    self.assertLess(row["begin_s"], row["end_s"])
                    if "none" in str(words):
                        self.assertAlmostEqual(row["exposed_s"], row["end_s"] - row["begin_s"], 12)
                self.assertEqual([row["bucket"] for row in rows],
                                 sorted(row["bucket"] for row in rows))

    def test_every_answer_says_which_nccl(self):
        """Bytes that fit one bucket take as long in `collective`, but for a launch of at most 11.5 us."""
        words = ("--nodes=4", "-banalytic", "--set=allreduce={algorithm: nccl, bucket: 64 MiB, overlap: none}")
        for software, version in (("nnl-2018", 203), ("pytorch", 221)):
            found = answer("predict", self.job, *words, f"--set=cluster.software={software}")
            name = f"NCCL {version // 100}.{version % 100} of {software}: "
            [one] = found["exchanges"]
            self.assertTrue(found["nccl"].startswith(f"{name}{one['nccl']} (1 x "), found["nccl"])
            table = answer("collective", "--platform=abci", "--nodes=4", "-banalytic", "-anccl",
                           f"--bytes={one['bytes']}", f"--software={software}")
            [row] = table["rows"]
            self.assertEqual((table["nccl_version"], row["choice"]), (version, one["nccl"]))
            launch = one["end_s"] - one["begin_s"] - row["time_s"]
            self.assertTrue(-1e-15 < launch <= 12e-6, launch)  # one of two equal times may round
            for command in (("compare", self.job, self.job), ("explain", self.job)):
                self.assertIn(name, run(*command, *words, f"--set=cluster.software={software}").stdout)
        self.assertIn("NCCL 2.27, as no --software", run("collective", "--platform=abci", "--nodes=4",
                                                         "-banalytic", "-anccl").stdout)
        swept = run("sweep", self.job, *words[1:], "--scan=cluster.nodes=2..4:x2").stdout
        self.assertIn("Algorithm nccl is that of NCCL 2.27", swept)

    def test_nodes_from_anywhere_share_uplinks(self):
        """`cluster.placement` is `network.placement`."""
        words = ("-banalytic", "--set=allreduce={algorithm: ring}", "--set=platform.network.tiers[0].uplinks=1")
        near, far = (answer("predict", self.job, *words, "--nodes=64", f"--set={key}")
                     for key in ("cluster.placement=contiguous", "cluster.placement=scattered"))
        same = answer("predict", self.job, *words, "--nodes=64", "--set=platform.network.placement=scattered")
        self.assertEqual(far["step_s"], same["step_s"])
        [said] = [text for text in near["assumptions"] if text.startswith("network.placement: ")]
        self.assertIn(f", {100 * (far['step_s'] / near['step_s'] - 1):+.0f} %", said)
        self.assertIn("no nodes of dgx-h100 share uplinks", self.refused(
            65, "predict", self.job, "--platform=dgx-h100", "--set=cluster.placement=scattered"))

    def test_the_all_reduces_as_csv_are_those_of_the_json(self):
        path = self.directory / "exchanges.csv"
        rows = answer("predict", self.job, "--csv", path)["exchanges"]
        with path.open(newline="", encoding="utf-8") as file:
            found = list(csv.DictReader(file))
        self.assertEqual(len(found), len(rows))
        for one, other in zip(found, rows):
            self.assertEqual(list(one), list(other))
            for key, value in other.items():
                if value is None or isinstance(value, str):
                    self.assertEqual(one[key], value or "")
                else:
                    self.assertAlmostEqual(float(one[key]), value, 9)
        alone = run("predict", self.job, "--csv", "-", "--nodes=1", "--set=cluster.devices_per_node=1", "--set=allreduce.grid=null")
        self.assertEqual(alone.stdout.strip().split(","), list(rows[0]))

    def picture(self, *words, width=80):
        """The lines of `show step`: label, letters and figure."""
        text = run("show", "step", self.job, *words).stdout.split("\n\n")[1]
        self.assertEqual({len(line) for line in text.split("\n") if line.startswith("  bucket")},
                         {width})
        return [(line[:12].split(), line[12:width - 12], line[width - 12:].strip())
                for line in text.split("\n")]

    def test_a_step_is_drawn_as_the_json_has_it(self):
        for backend in self.backends:
            for words in ([], ["--set=allreduce={algorithm: ring, bucket: 4 MiB}"],
                          ["--set=input={workers: 4, rate: 200 images/s}"],
                          ["--set=allreduce.overlap=none"]):
                words = ("-b", backend, *words)
                result = answer("predict", self.job, *words)
                self.assertEqual(answer("show", "step", self.job, *words), result)
                head, *lanes = self.picture(*words, "--width=1024", width=1024)
                self.assertEqual(head[2], "exposed")
                column = (result["step_s"] - result["step"]["slower_ranks_s"]) / 1000
                self.assertEqual(any("input" in label for label, _, _ in lanes), "input" in str(words))
                letters = [line for label, line, _ in lanes if label == ["compute"]][0]
                busy = sum(letters.count(letter) for letter in "fb") * column
                self.assertAlmostEqual(busy, result["step"]["compute_s"], delta=0.05 * busy)
                for label, line, figure in lanes:
                    rows = [row for row in result["exchanges"] if label == ["bucket", str(row["bucket"])]]
                    if rows:
                        self.judge(line, figure, rows, column)

    def judge(self, line, figure, rows, column):
        """One bucket of @rows, drawn as @line with @column seconds a letter."""
        near = 2.01 * column
        waits = rows[0]["begin_s"] - rows[0]["ready_s"] > 2 * column
        ready = re.search(r"\S", line).start()
        self.assertEqual(line[ready] == ".", waits)
        self.assertAlmostEqual(ready * column, rows[0]["ready_s"], delta=near)
        self.assertAlmostEqual(re.search("[A-Za-z]", line).start() * column, rows[0]["begin_s"],
                               delta=near)
        self.assertAlmostEqual(len(line.rstrip()) * column, rows[-1]["end_s"], delta=near)
        exposed = sum(row["exposed_s"] for row in rows)
        self.assertAlmostEqual(sum(map(str.isupper, line)) * column, exposed,
                               delta=len(rows) * column)
        value, unit = figure.split()
        self.assertAlmostEqual(float(value) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit],
                               exposed, delta=1e-3 * exposed + 1e-12)
        self.assertEqual(re.sub(r"[ .]|(.)(?=\1)", "", line.lower()),
                         "a" if rows[0]["axis"] == "world" else "rag")

    def test_a_step_is_as_wide_as_the_terminal(self):
        self.picture("-banalytic")
        self.picture("-banalytic", "--width=50", width=50)
        self.assertIn("--width: at least 50", self.refused(64, "show", "step", self.job, "-w49"))
        said = harness.on_terminal(lambda terminal: self.execute(
            0, support.PROGRAM, "show", "step", self.job, "-banalytic", stdout=terminal), columns=97)
        line = said.split("bucket 0")[1].split("\r\n")[0]
        self.assertEqual(len("  bucket 0" + line), 97)

    def test_a_terminal_is_told_of_what_takes_long(self):
        job = support.ROOT / "experiments" / "01_sony_abci" / "unknown" / "v1-1088.yaml"
        (ours, theirs), said = os.openpty(), ""
        process = self.begin(support.PROGRAM, "predict", job, "-banalytic", "--report", self.directory / "page.html",
                             stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        with contextlib.suppress(OSError):  # the other end is closed
            while "nodes for the page" not in said:
                said += os.read(ours, 4096).decode()
        os.close(ours)
        if not re.search(r"predicting \d+ nodes for the page", said):
            self.assertLess(os.wait4(process.pid, 0)[2].ru_utime, 4, said)

    def test_what_is_warned_of_on_stderr_is_in_the_json(self):
        self.assertEqual(answer("predict", self.job, "-banalytic")["warnings"], [])
        platform = self.write("plain.yaml", "extends: abci\nnetwork: {nic: {bandwidth: 50 Gb/s}}\n")
        done = run("predict", self.job, "-banalytic", "--platform", platform, "--json")
        said = f"{platform}: 1 number without a source counts as assumed"
        self.assertEqual(done.stderr, said.replace(": ", ": warning: ") + "\n")
        self.assertEqual(json.loads(done.stdout)["warnings"], [said])
        text = run("predict", self.job, "-banalytic", "--platform", platform)
        self.assertEqual((text.stderr, text.stdout.count(said)), (done.stderr, 0))

    def test_a_trace_that_cannot_be_created_is_reported(self):
        done = run("predict", self.job, "-b", "analytic", "--trace", self.directory / "no" / "dir")
        self.assertEqual(done.returncode, 73)
