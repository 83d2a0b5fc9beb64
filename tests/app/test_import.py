#!/usr/bin/python3
"""`import`: what is read from files of other tools, and that the platforms it writes are of use."""
import json
import os
import random
import subprocess
import unittest

import import_data
import support
from support import answer, good, likely, run

DATA = import_data.made()
HAS_YAML = support.part("yaml") is not None
HAS_GSL = "not in this build" not in run("calibrate", "--help").stdout


class Case(support.Case):
    """An import and what becomes of it."""

    def take(self, kind, name, *words):
        """The answer of an import that writes mine.yaml, which must be a platform."""
        self.platform = self.directory / "mine.yaml"
        told = answer("import", kind, DATA / name, "--to", self.platform, *words)
        shown = run("show", "platform", self.platform)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual(told["written"], str(self.platform))
        for line in shown.stdout.splitlines():  # nothing assumed goes unsaid
            if line.endswith("assumed") and "device" not in line:
                self.assertTrue(told["assumed"] + told["warnings"], line)
        return told

    def predict(self, nodes, devices):
        """Seconds of a step of a small job on mine.yaml, analytic."""
        job = support.JOB.replace("platform: abci, nodes: 4, devices_per_node: 4",
                                  f"platform: {self.platform}, nodes: {nodes}, "
                                  f"devices_per_node: {devices}")
        job = job.replace("algorithm: torus2d, grid: {columns: 4, rows: 4}", "algorithm: ring")
        path = self.write("mine-job.yaml", job.replace("compute: fp16", "compute: fp32"))
        return answer("predict", path, "--backend=analytic")

    def misread(self, kind, text, *said):
        """The text is refused with exit code 65, the file and all of @said."""
        path = self.write("bad.txt", text)
        message = self.refused(65, "import", kind, path)
        for part in ("bad.txt", *said):
            self.assertIn(part, message)


@unittest.skipUnless(HAS_GSL, "fits need GSL")
class NcclTests(Case):
    """all_reduce_perf, from made-up lines that must be found again."""

    def test_the_ring_behind_the_times_is_found_again(self):
        for name, latency, bandwidth, ranks, nodes in (("all_reduce_8.txt", 1.5e-6, 230e9, 8, 1),
                                                       ("all_reduce_16.txt", 5e-6, 22e9, 16, 2),
                                                       ("all_reduce_8.json", 1.8e-6, 360e9, 8, 1)):
            result = self.take("nccl-tests", name)["result"]
            self.assertEqual((result["ranks"], result["nodes"]), (ranks, nodes))
            self.assertEqual(len(result["lines"]), 1)
            self.assertLess(abs(result["bus_bandwidth_bytes_per_s"] / bandwidth - 1), 2e-3)
            self.assertLess(abs(result["message_latency_s"] / latency - 1), 2e-3)

    def test_the_platform_gives_the_times_back(self):
        for name, ranks, nodes in (("all_reduce_8.txt", 8, 1), ("all_reduce_16.txt", 16, 2)):
            self.take("nccl-tests", name)
            law = import_data.ring(8, 1.5e-6, 230e9) if nodes == 1 else import_data.ring(16, 5e-6, 22e9)
            rows = answer("collective", "--platform", self.platform, "--nodes", nodes, "--bytes",
                          "8 B,1 MiB,1 GiB", "--backend", "analytic", "--grid", f"{ranks}x1")
            for row, size in zip(rows["rows"], (8, 1 << 20, 1 << 30)):
                self.assertLess(abs(row["time_s"] / law(size) - 1), 5e-3, row)

    def table(self, sizes, seconds):
        """The file of an all_reduce_perf of 16 ranks on 2 nodes that takes seconds(size)."""
        return self.write("table.txt", import_data.all_reduce(16, seconds, 2, sizes=sizes))

    @staticmethod
    def bent(size):
        """Seconds as NCCL's protocols make them: a fixed 34 us below 32 KiB, three slopes above."""
        knots = ((8, 34), (1 << 15, 36), (1 << 18, 52), (1 << 20, 88), (1 << 23, 165.2),
                 (1 << 26, 480.5), (1 << 30, 5885.6))
        for (a, low), (b, high) in zip(knots, knots[1:]):
            if size <= b:
                return 1e-6 * (low + (high - low) * (size - a) / (b - a))
        return None

    def test_what_is_written_gives_the_times_back_and_says_how_well(self):
        sizes = [2 ** i for i in range(3, 31)]
        result = self.take("nccl-tests", self.table(sizes, self.bent))["result"]
        rows = answer("collective", "--platform", self.platform, "--nodes", 2, "--algorithm", "ring",
                      "--bytes", ",".join(f"{size} B" for size in sizes), "--backend", "analytic",
                      "--grid", "16x1")["rows"]
        text, errors = self.platform.read_text(encoding="utf-8"), []
        for size, row, told in zip(sizes, rows, result["table"]):
            self.assertEqual((told["bytes"], told["fitted"]), (size, size >= 1 << 20))
            self.assertLess(abs(told["measured_s"] / self.bent(size) - 1), 1e-3)
            if size >= 64:  # a rank's part of less is a rounded number of bytes
                self.assertLess(abs(told["predicted_s"] / row["time_s"] - 1), 1e-4)
            error = told["predicted_s"] / told["measured_s"] - 1
            self.assertRegex(text, rf"\n# +{size} .* \{error * 100:+.1f} %")
            if told["fitted"]:
                self.assertLess(abs(error), 0.25, size)
                errors.append(error)
        squares = sum(error ** 2 for error in errors)
        self.assertAlmostEqual(result["residual"], (squares / len(errors)) ** 0.5, 9)
        # Student's t of 9 degrees of freedom against the normal distribution's 1.645, from tables
        spread = (squares / (len(errors) - 2)) ** 0.5 * 1.8331 / 1.6449
        self.assertAlmostEqual(result["spread"], spread, 4)
        self.assertIn(f"kind: measured, spread: {100 * spread:.3g} %", text)

    def test_two_times_know_nothing_of_their_spread(self):
        path = self.table([1 << 23, 1 << 26], self.bent)
        result = self.take("nccl-tests", path)["result"]
        self.assertNotIn("residual", result)
        self.assertEqual(result["spread"], 0.3)
        self.assertIn("from 2 points: no spread known\", kind: measured, spread: 30 %",
                      self.platform.read_text(encoding="utf-8"))
        told = run("import", "nccl-tests", path).stdout
        self.assertIn("residual of the 2 sizes fitted: from 2 points: no spread known", told)
        self.assertNotIn("+- 0", told)

    def test_protocols_are_told_apart(self):
        lines = self.take("nccl-tests", "all_reduce_protocols.txt")["result"]["lines"]
        self.assertEqual([line["to_bytes"] for line in lines], [65536, 1 << 23, 1 << 30])
        for line, latency, bandwidth in zip(lines, (20e-6, 40e-6, 100e-6), (2e9, 20e9, 110e9)):
            self.assertLess(abs(line["latency_s"] / latency - 1), 1e-3)
            self.assertLess(abs(line["s_per_byte"] * bandwidth - 1), 1e-3)

    def test_the_standard_deviations_are_those_of_the_errors(self):
        beyond, runs = 0, 20
        for seed in range(runs):
            law, noise = import_data.ring(8, 1.5e-6, 230e9), random.Random(seed)
            text = import_data.all_reduce(8, lambda size: law(size) * noise.gauss(1, 0.02))
            path = self.write("noisy.txt", text)
            line = answer("import", "nccl-tests", path)["result"]["lines"][-1]
            deviation = line["s_per_byte_variance"] ** 0.5
            beyond += abs(line["s_per_byte"] - 14 / 8 / 230e9) > 2 * deviation
        self.assertLess(beyond, runs // 4)  # 5 % are expected, and a few for choosing the pieces

    def test_a_prediction_stands_on_it(self):
        self.take("nccl-tests", "all_reduce_16.txt")
        self.assertGreater(self.predict(2, 8)["step_s"], 0)

    def test_an_unknown_gpu_is_a_warning_here_and_in_every_prediction(self):
        text = import_data.all_reduce(16, self.bent, 2, "NVIDIA B900")
        told = self.take("nccl-tests", self.write("table.txt", text))
        self.assertIn("'NVIDIA B900' has no file", told["warnings"][0])
        self.assertIn("of 8 such devices has NCCL's model: these times are those of a ring", told["warnings"][1])
        self.assertIn("nothing of compute is known", told["warnings"][2])
        result = self.predict(2, 8)
        self.assertIn("device ideal: nothing of compute is known; no interval", result["warnings"])
        self.assertEqual(likely(result, "step_s"), [])
        self.assertNotIn("device", "".join(self.take("nccl-tests", "all_reduce_16.txt")["warnings"]))
        self.assertEqual(self.predict(2, 8)["warnings"], [])

    def test_what_is_not_understood_says_where_and_what_to_do(self):
        text = (DATA / "all_reduce_8.txt").read_text(encoding="utf-8")
        self.misread("nccl-tests", "hello\nworld\n", "bad.txt:2", "all_reduce_perf")
        self.misread("nccl-tests", text.replace("  131072  ", "  131072 x ", 1), "bad.txt:", "column 6")
        self.misread("nccl-tests", "\n".join(line for line in text.splitlines()
                                             if "Rank" not in line), "--ranks")
        self.misread("nccl-tests", text.replace("#  Rank  7", "#  Rnk  7"), "all_reduce_perf")
        self.misread("nccl-tests", '{"results": [{"size": 8}]}', "bad.txt: results[0]", "out_of_place")
        self.misread("nccl-tests", '{"a": 1}', "bad.txt:1:1", "results")
        self.refused(66, "import", "nccl-tests", self.directory / "gone.txt")
        self.refused(64, "import", "nccl-tests", DATA / "all_reduce_8.txt", "--to", "x.yml")
        self.refused(73, "import", "nccl-tests", DATA / "all_reduce_8.txt", "--to",
                     self.directory / "no" / "x.yaml")


class Reader(Case):
    """foretrain-read, which may be missing or fail."""

    def test_it_may_be_missing(self):
        self.assertIn("'foretrain env'", self.refused(69, "import", "nccl-tests", DATA / "all_reduce_8.txt",
                                                      FORETRAIN_LIBEXEC=str(self.directory)))

    def test_its_end_is_reported(self):
        for body, code, text in (("kill -9 $$", 70, "signal 9"), ("echo 'x: y' >&2; exit 65", 65, "x: y"),
                                 ("exit 1", 70, "failed"), ("echo no", 65, "foretrain-read")):
            self.write("foretrain-read", f"#!/bin/sh\n{body}\n", 0o755)
            self.assertIn(text, self.refused(code, "import", "nccl-tests", DATA / "all_reduce_8.txt",
                                             FORETRAIN_LIBEXEC=str(self.directory)))

    def test_what_the_file_says_of_a_card_is_kept_on_a_platform_we_know(self):
        draft = {"description": "a", "nic": {"bandwidth": (25e9, "datasheet", "a"), "efficiency": (0.5, "measured", "b")},
                 "tiers": [{"name": "rack", "nodes": 4}]}
        self.write("foretrain-read", f"#!/bin/sh\necho '{json.dumps(draft)}'\n", 0o755)
        to = self.directory / "mine.yaml"
        good("import", "slurm", DATA / "topology.conf", "--platform=dgx-a100", "--to", to,
             FORETRAIN_LIBEXEC=str(self.directory))
        for kind in "nic", "rack uplink":
            self.assertRegex(run("show", "platform", to).stdout, rf"{kind} .* 25 GB/s +12.5 GB/s")

    def test_any_bytes_get_an_answer_or_a_message(self):
        noise = random.Random(1)
        for kind, name in (("nccl-tests", "all_reduce_8.txt"), ("nccl-tests", "all_reduce_8.json"), ("osu", "osu_pair.txt"),
                           ("nccl-topo", "nccl_nvswitch.xml"), ("hwloc", "hwloc_gpus.xml"), ("ibnetdiscover", "ibnetdiscover.txt"),
                           ("slurm", "topology.conf")):
            text = bytearray((DATA / name).read_bytes())
            for _ in range(8):
                for _ in range(noise.randrange(1, 30)):
                    text[noise.randrange(len(text))] = noise.randrange(1, 256)
                path = self.directory / "noise"
                path.write_bytes(text)
                done = run("import", kind, path)
                self.assertIn(done.returncode, (0, 65), (kind, done.stderr))
                self.assertNotIn("fault of the reader", done.stderr)


class Own(Case):
    """A platform somebody wrote is not replaced unasked."""

    def test_a_file_of_somebody_else_stays(self):
        words = "import", "slurm", DATA / "topology.conf", "--to"
        mine = self.write("hand.yaml", "# my own platform\n")
        self.assertIn("--overwrite", self.refused(73, *words, mine))
        self.assertEqual(mine.read_text(encoding="utf-8"), "# my own platform\n")
        self.assertEqual(run(*words, mine, "--overwrite").returncode, 0)
        self.assertIn("Written by foretrain import", mine.read_text(encoding="utf-8"))
        self.assertEqual(run(*words, mine).returncode, 0)  # its own
        self.assertEqual([file.name for file in self.directory.iterdir()
                          if "hand" in file.name], ["hand.yaml"])


class NcclTopology(Case):
    """NCCL_TOPO_DUMP_FILE."""

    def times(self, platform, nodes, ranks):
        """Of a ring, by size."""
        rows = answer("collective", "--platform", platform, "--nodes", nodes, "--bytes",
                      "1 MiB,1 GiB", "--backend", "analytic", "--grid", f"{ranks}x1")["rows"]
        return [row["time_s"] for row in rows]

    def test_a_node_with_nvswitch_is_the_one_we_wrote_by_hand(self):
        said = self.take("nccl-topo", "nccl_nvswitch.xml", "--nodes", "4")
        self.assertIn("8 GPUs, 2 CPUs, 4 PCI switches", said["understood"][0])
        self.assertIn("1 slower card left out", said["understood"][1])
        hop = 2 * 195e-9  # what dgx-a100 says of two cards' latencies, and the file does not
        for nodes, ranks in ((1, 8), (4, 32)):
            missing = 2 * (ranks - 1) * hop if nodes > 1 else 0
            for ours, mine in zip(self.times("dgx-a100", nodes, ranks),
                                  self.times(self.platform, nodes, ranks)):
                self.assertLess(abs((mine + missing) / ours - 1), 1e-4)

    def test_nccl_finds_its_section(self):
        """12 NVLinks of 20 GB/s to a plane, 6 in a mesh, as in platforms/dgx-a100.yaml and dgx-1.yaml; a
        node without any is as fast as the way between two Intel sockets, 10 GB/s."""
        plain = "\n".join(line for line in (DATA / "nccl_nvswitch.xml").read_text().splitlines()
                          if "<nvlink" not in line).replace("AuthenticAMD", "GenuineIntel")
        job = self.write("job.yaml", support.JOB.replace("platform: abci", "platform: ./mine.yaml").replace(
            "algorithm: torus2d, grid: {columns: 4, rows: 4}", "algorithm: nccl"))
        for name, intra, bandwidth in (("nccl_nvswitch.xml", "nvlink", "240 GB/s"),
                                       ("nccl_mesh.xml", "nvlink", "120 GB/s"),
                                       (self.write("plain.xml", plain), "pci", "10 GB/s")):
            told = self.take("nccl-topo", name)
            text = self.platform.read_text(encoding="utf-8")
            self.assertIn(f"intra: {intra}\n", text)
            self.assertIn(f"intra_bandwidth: {{value: {bandwidth}, ", text)
            self.assertIn("sharp: false", text)
            for key in ("nccl.channels", "nccl.sharp"):
                self.assertTrue(any(line.startswith(key) for line in told["assumed"]), key)
            words = ("--nodes", 1, "--set", "baseline.nodes=null") if "mesh" in str(name) else ()
            self.assertGreater(answer("predict", job, "--backend", "analytic", *words)["step_s"], 0)

    def test_links_between_gpus_and_a_virtual_machine_without_speeds(self):
        said = self.take("nccl-topo", "nccl_mesh.xml")
        text = self.platform.read_text(encoding="utf-8")
        self.assertIn("{link: nvlink-x2, connect: [gpu0-gpu1, gpu0-gpu2, gpu0-gpu3, gpu1-gpu2, "
                      "gpu1-gpu3, gpu2-gpu3]}", text)
        self.assertIn("value: 50 GB/s", text)
        self.assertTrue(any("no speed" in line for line in said["assumed"]))
        self.assertGreater(self.predict(1, 4)["step_s"], 0)

    def test_what_is_not_understood_says_where_and_what_to_do(self):
        self.misread("nccl-topo", "<a>\n<b>\n</a>\n", "bad.txt:3", "mismatched")
        self.misread("nccl-topo", "<topology/>", "bad.txt:1", "NCCL_TOPO_DUMP_FILE")
        self.misread("nccl-topo", "<system>\n<cpu/></system>", "bad.txt:1", "<gpu>")
        self.misread("nccl-topo", "<a>" * 100, "bad.txt:1", "64 levels")
        bomb = '<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]>\n<a>&d;</a>'
        self.misread("nccl-topo", bomb, "entities")


class Hwloc(Case):
    """lstopo --of xml."""

    def test_gpus_and_cards_behind_switches(self):
        said = self.take("hwloc", "hwloc_gpus.xml", "--nodes", "2")
        self.assertEqual(said["understood"][0],
                         "2 packages, 40 cores, 2 NUMA nodes, 4 GPUs, 2 cards, 2 PCI switches")
        text = self.platform.read_text(encoding="utf-8")
        for pair in ("gpu1-switch0", "gpu2-switch1", "nic1-switch1", "switch1-cpu1"):
            self.assertIn(pair, text)
        self.assertIn("device: v100-sxm2-16gb", text)
        self.assertGreater(self.predict(2, 4)["step_s"], 0)

    def test_without_gpus_the_cores_are_the_devices(self):
        said = self.take("hwloc", "hwloc_cores.xml")
        self.assertIn("devices: the 8 cores, as there is no GPU", said["assumed"])
        text = self.platform.read_text(encoding="utf-8")
        self.assertIn("gpu3-cpu0, gpu4-cpu1", text)

    def test_what_lstopo_printed_is_understood(self):
        said = self.take("hwloc", "lstopo.recorded", "--nodes", "2")
        self.assertEqual(said["understood"], ["1 package, 2 cores, 1 NUMA node, 0 GPUs, 1 card, "
                                              "0 PCI switches"])
        self.assertIn("devices: 2", self.platform.read_text(encoding="utf-8"))

    def test_what_is_not_understood_says_where_and_what_to_do(self):
        self.misread("hwloc", "<system/>", "bad.txt:1", "lstopo --of xml")


@unittest.skipUnless(HAS_GSL, "fits need GSL")
class Osu(Case):
    """osu_latency, osu_bw, osu_allreduce."""

    def test_latency_and_bandwidth_of_two_ranks(self):
        result = self.take("osu", "osu_pair.txt")["result"]
        self.assertLess(abs(result["message_latency_s"] / 2e-6 - 1), 5e-3)
        rate = result["bandwidth_bytes_per_s"]
        self.assertLess(abs(rate / 12.1e9 - 1), 2e-3)  # of osu_bw, not of osu_latency
        for row in result["table"]:  # its bandwidth is osu_bw's, its latency osu_latency's
            self.assertAlmostEqual(row["predicted_s"], result["message_latency_s"] + row["bytes"] / rate)
        text = self.platform.read_text(encoding="utf-8")
        self.assertIn("nodes: 2", text)
        self.assertIn(f"spread: {100 * result['spread']:.3g} %", text)
        self.take("osu", "osu_pair.txt", "--nodes", "1")
        self.assertIn("nodes: 1", self.platform.read_text(encoding="utf-8"))
        self.assertGreater(self.predict(1, 2)["step_s"], 0)

    def test_all_reduce_needs_the_ranks_and_gives_the_times_back(self):
        self.assertIn("--ranks N", self.refused(64, "import", "osu", DATA / "osu_allreduce.txt"))
        self.take("osu", "osu_allreduce.txt", "--ranks", "4")
        rows = answer("collective", "--platform", self.platform, "--nodes", 4, "--bytes",
                      "4 B,4 MiB", "--backend", "analytic", "--grid", "4x1")["rows"]
        for row, size in zip(rows, (4, 1 << 22)):
            self.assertLess(abs(row["time_s"] / import_data.ring(4, 3e-6, 10e9)(size) - 1), 5e-3)

    def test_what_is_not_understood_says_where_and_what_to_do(self):
        self.misread("osu", "1 2\n", "bad.txt:1", "# OSU MPI")
        self.misread("osu", "# OSU MPI Latency Test v7.3\n1 x\n", "bad.txt:2")
        self.misread("osu", "# OSU MPI Latency Test v7.3\n1 2.0\n", "two sizes")
        self.misread("osu", "# OSU MPI Barrier Latency\n", "bad.txt:1", "osu_bw")


class Ibnetdiscover(Case):
    """The dump of an InfiniBand network."""

    def test_leaves_are_racks_with_their_cables_up(self):
        said = self.take("ibnetdiscover", "ibnetdiscover.txt", "--platform", "dgx-a100")
        self.assertEqual(said["understood"][0], "24 nodes below 6 switches")
        shown = run("show", "platform", self.platform).stdout
        self.assertRegex(shown, r"rack uplink +4 a rack of 6 nodes +25 GB/s")
        self.assertRegex(shown, r"nic +8 a node +25 GB/s +24 GB/s")  # efficiency of dgx-a100
        self.take("ibnetdiscover", "ibnetdiscover.txt")
        self.assertGreater(self.predict(24, 1)["step_s"], 0)

    def test_what_ibnetdiscover_printed_is_understood(self):
        said = self.take("ibnetdiscover", "ibnetdiscover.recorded")
        self.assertEqual(said["understood"], ["4 nodes below 3 switches",
                                              "2 switches at height 1, 2 to 2 nodes below each",
                                              "4 cards of 8 to 8 Gb/s, 1 a node"])
        shown = run("show", "platform", self.platform).stdout
        self.assertRegex(shown, r"rack uplink +2 a rack of 2 nodes +1 GB/s")  # 4xSDR

    def test_what_is_not_understood_says_where_and_what_to_do(self):
        self.misread("ibnetdiscover", "hello\n", "bad.txt:1", "ibnetdiscover prints")
        self.misread("ibnetdiscover", 'Switch 36 "S-1"\n[1] x\n', "bad.txt:2", "4xEDR")
        hosts = "".join(f'[1] "H-{i}"[1](1) # "n{i} HCA-1" lid 1 4xHDR\n' for i in range(100000))
        self.misread("ibnetdiscover", f'Switch 36 "S-1"\n{hosts}', "more than 100000 hosts")


class Trace(Case):
    """Profiles of PyTorch and our own."""

    def test_steps_kernels_and_the_roofline(self):
        result = answer("import", "trace", DATA / "profile.json")["result"]
        self.assertEqual((result["steps"], result["step_mean_s"]), (2, 0.004))
        events = json.loads((DATA / "profile.json").read_text(encoding="utf-8"))["traceEvents"]
        both = events + [{**event, "pid": 77} for event in events if "ProfilerStep" in event.get("name", "")]
        path = self.write("both.json", json.dumps({"traceEvents": both}))
        self.assertTrue(any("2 steps of each rank, mean 4 ms, least 4 ms" in line
                            for line in answer("import", "trace", path)["understood"]))
        self.assertIn("copies: 20 us in all", answer("import", "trace", path)["understood"][-5:])
        self.assertEqual([(row["activity"], row["count"]) for row in result["kernels"]],
                         [("copies", 2), ("compute", 2), ("communication", 2)])
        self.assertAlmostEqual(result["matrix_flops_per_s"] / 124.8e12, 1, 6)
        self.assertAlmostEqual(result["matrix_efficiency"], 0.4, 6)  # of 312 TFLOP/s
        self.refused(64, "import", "trace", DATA / "profile.json", "--to", "x.yaml")

    def test_our_own_trace(self):
        path = self.directory / "trace.json"
        good("predict", self.job, "--backend=analytic", "--trace", path)
        path = path if path.is_file() else sorted(path.iterdir())[0]
        kinds = {row["activity"] for row in answer("import", "trace", path)["result"]["kernels"]}
        self.assertEqual(kinds, {"compute", "communication", "copies"})

    def test_what_is_not_understood_says_where_and_what_to_do(self):
        self.misread("trace", "{}", "bad.txt:1", "traceEvents")
        self.misread("trace", "{", "bad.txt")


class Slurm(Case):
    """topology.conf and topology.yaml."""

    def shown(self):
        """What `show platform` prints of mine.yaml."""
        return run("show", "platform", self.platform).stdout

    def test_racks_and_pods_of_topology_conf(self):
        said = self.take("slurm", "topology.conf")
        self.assertEqual(said["understood"][0], "15 nodes below 7 switches")
        self.assertRegex(self.shown(), r"4 a rack of 4 nodes")
        self.assertRegex(self.shown(), r"8 a pod of 8 nodes")
        self.assertIn("every rack has 4 nodes, as the largest", said["assumed"])
        self.assertGreater(self.predict(4, 1)["step_s"], 0)

    def test_a_card_of_the_platform_below_counts_in_any_form(self):
        base = self.write("base.yaml", "extends: dgx-a100\nname: base\nnetwork:\n  nic: {bandwidth: 50 GB/s}\n")
        self.take("slurm", "topology.conf", "--platform", base)
        self.assertRegex(self.shown(), r"32 a rack of 4 nodes +50 GB/s")
        told = run("import", "slurm", DATA / "topology.conf", "--platform", base, "--to", self.platform).stderr
        self.assertEqual(told, f"{self.platform}: warning: 1 number without a source counts as assumed\n")

    @unittest.skipUnless(HAS_YAML, "topology.yaml needs PyYAML")
    def test_topology_yaml_below_a_node_we_know(self):
        said = self.take("slurm", "topology.yaml", "--platform", "dgx-a100")
        self.assertEqual(said["understood"][0], "128 nodes below 5 switches")
        self.assertRegex(self.shown(), r"256 a rack of 32 nodes +25 GB/s")
        self.assertIn("A100", self.shown())
        self.assertIn("full bisection", self.shown())

    def test_what_is_not_understood_says_where_and_what_to_do(self):
        self.misread("slurm", "# nothing\n\n", "bad.txt:2", "topology.conf")
        self.misread("slurm", "\nSwitchName=s0 Nodez=a\n", "bad.txt:2", "Nodez")
        self.misread("slurm", "SwitchName=a Switches=b\nSwitchName=b Switches=a Nodes=c\n",
                     "circle")
        self.misread("slurm", "Nodes=a\n", "bad.txt:1:7: ", "without SwitchName")
        path = self.write("topology.yaml", "- tree:\n    switches:\n      - {nodes: 3}\n")
        place, code = ("topology.yaml:3:9", 65) if HAS_YAML else ("apt-get install python3-yaml", 69)
        self.assertIn(place, self.refused(code, "import", "slurm", path))

    # What scontrol of Slurm 22.05.8 (Debian 12) printed: `scontrol show hostnames LIST`.
    LISTS = (
        ("n[0-1][0-1]", "n00 n01 n10 n11"),
        ("tux[04,5-7]", "tux04 tux5 tux6 tux7"),
        ("n[9223372036854775807]", "n9223372036854775807"),
        ("n[18446744073709551614-18446744073709551615]",
         "n18446744073709551614 n18446744073709551615"),
        ("n[00000000000000000000001]", "n00000000000000000000001"),
        ("n[1-003]", "n1 n2 n3"),
        ("r[0-1]_b[08-10,3]", "r0_b08 r0_b09 r0_b10 r0_b3 r1_b08 r1_b09 r1_b10 r1_b3"),
        ("a[0-1]b[2,3]c[4]", "a0b2c4 a0b3c4 a1b2c4 a1b3c4"),
        ("n[3-],a,,b[0-2,1]", "n3 a b0 b1 b2"),
        ("[0-2]", "0 1 2"),
    )

    def yaml(self, names):
        """A topology.yaml of one switch; what reads @names is that of topology.conf."""
        return self.write("topology.yaml", f'- tree:\n    switches:\n      - switch: s0\n        nodes: "{names}"\n')

    def test_lists_of_names_are_read_as_slurm_reads_them(self):
        for i, (text, names) in enumerate(self.LISTS):
            paths = [self.write(f"{len(more)}.conf", f"SwitchName=s0 Nodes={text}{more}\n")
                     for more in ("", "," + names.replace(" ", ","))]  # the same names again are no others
            for path in paths + [self.yaml(text)] * (HAS_YAML and i % 4 == 0):
                said = answer("import", "slurm", path)["understood"][0]
                self.assertEqual(said, f"{len(names.split())} nodes below 1 switches", (text, path))

    def test_a_list_that_is_none_says_where_and_why(self):
        head = "SwitchName=s0 Nodes="
        for text, column, why in (
                ("n[0-1]x", 7, "continues after its last bracket"), ("a[3-1]", 3, "backwards"),
                ("n[0x3]", 4, "expected ',' or ']'"), ("n[]", 3, "expected a number"),
                ("n[1,]", 5, "expected a number"), ("n[[0-1]]", 3, "expected a number"),
                ("n[-3]", 3, "expected a number"), ("n[+1]", 3, "expected a number"),
                ("a[0-", 5, "not closed"), ("a,b[0", 6, "not closed"), ("n]0", 2, "without a '['"),
                ("n[1-2-3]", 6, "expected ',' or ']'"),
                ("n[18446744073709551616]", 3, "beyond 64 bits"),
                ("a,n[0-100000]", 5, "too many names"), ("n[0-999][0-999]", 1, "too many names"),
                ("n[0-18446744073709551615]", 3, "too many names"),
                ("n[5-6]" + "[0-18446744073709551615]" * 9, 8, "too many names"),
                ("n[0-1]," + "n" * 256, 8, "more than 255 characters")):
            self.misread("slurm", f"#\n{head}{text} # x\n", f"bad.txt:2:{len(head) + column}: ", why,
                         "such as tux[0-3,12]")
            if not HAS_YAML or column != 3:
                continue
            said = self.refused(65, "import", "slurm", self.yaml(text))
            self.assertIn(f"topology.yaml:4:{len('        nodes: .') + column}: ", said)
            self.assertIn(why, said)

    def test_a_list_costs_no_more_than_its_names(self):
        lines = "SwitchName=s0 Nodes=n[0-99]\n"
        for text, code, why in (
                (f"SwitchName=s0 Nodes=n[{'0' * 100000}-60000]\n", 65, "more than 255 characters"),
                ("SwitchName=s0 Nodes=n[0-99997]\n", 0, "99998 nodes"),
                (lines * 20000, 65, "too many names"),
                ("SwitchName=s0 Nodes=" + "[0]" * 100000 + "\n", 65, "more than 255 characters")):
            path = self.write("topology.conf", text)
            with subprocess.Popen([support.PROGRAM, "import", "slurm", path], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
                said = process.stdout.read()
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, code, said)
            self.assertIn(why, said)
            self.assertLess(used.ru_utime + used.ru_stime, 20)
            self.assertLess(used.ru_maxrss, 400 << 10)  # [KiB]; a sanitizer takes most
