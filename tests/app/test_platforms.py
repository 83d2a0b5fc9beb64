#!/usr/bin/python3
"""Platform and device files as people write them."""
import re
import unittest

import support
from support import ROOT, answer, good, run

ABCI = (ROOT / "platforms" / "abci.yaml").read_text(encoding="utf-8")
V100 = (ROOT / "platforms" / "devices" / "v100-sxm2-16gb.yaml").read_text(encoding="utf-8")


def plain(text):
    """A file in which no number has a source, and how many there are."""
    return re.subn(r"\{value: ([^,]+), source: .*\}", r"\1", text)


class PlainNumbers(support.Case):
    """A first draft gives numbers without their sources."""

    def test_they_are_assumed_and_one_warning_counts_those_of_a_file(self):
        device, of_device = plain(V100)
        self.write("gpu.yaml", device)
        text, of_platform = plain(ABCI.replace("device: v100-sxm2-16gb", "device: ./gpu.yaml"))
        job = self.write("plain.yaml", support.JOB.replace("platform: abci", "platform: " + str(
            self.write("mine.yaml", text))))
        done = good("predict", job, "--json", "-banalytic")
        self.assertEqual(done.stderr.count("warning"), 2)
        self.assertIn(f"mine.yaml: warning: {of_platform} numbers", done.stderr)
        self.assertIn(f"gpu.yaml: warning: {of_device} numbers", done.stderr)
        shown = run("show", "platform", self.directory / "mine.yaml", "--assumed").stdout
        self.assertEqual(shown.count("(none given)"), of_platform + of_device)
        said = answer("predict", job, "-banalytic")["assumptions"]
        self.assertIn("network.nic.bandwidth = 12.5 GB/s (none given)", said)

    def test_the_time_is_that_of_the_same_numbers_with_sources(self):
        text, _ = plain(ABCI)
        mine = self.write("mine.yaml", text)
        job = self.write("plain.yaml", support.JOB.replace("abci", str(mine)))
        self.assertEqual(answer("predict", job, "-banalytic")["step"],
                         answer("predict", self.job, "-banalytic")["step"])

    def test_units_are_still_needed(self):
        said = self.refused(65, "check", "--platform", self.write(
            "mine.yaml", "extends: %s\nnetwork:\n  nic:\n    bandwidth: 400\n"
            % (ROOT / "platforms" / "abci.yaml")))
        self.assertIn("mine.yaml:4:16: error: a bandwidth needs a unit", said)


class Names(support.Case):
    """What stands in the platform directory is found by name."""

    def extending(self, name):
        """A platform of one line more than the one it extends."""
        return self.write("mine.yaml", f"extends: {name}\nname: mine\n")

    def test_a_platform_extends_another_by_name_from_anywhere(self):
        for name in ("abci", "ABCI"):
            shown = run("show", "platform", self.extending(name)).stdout
            self.assertTrue(shown.startswith("mine: "), shown)
            self.assertIn("1088 nodes x 4 devices", shown)

    def test_a_device_extends_another_by_name(self):
        self.write("gpu.yaml", "extends: v100-sxm2\nname: mine\nmemory: 32 GB\n")
        self.write("mine.yaml", "extends: abci\ndevice: ./gpu.yaml\n")
        self.assertIn("device.memory = 32 GB (none given)",
                      run("show", "platform", self.directory / "mine.yaml", "--assumed").stdout)

    def test_a_file_beside_goes_before_a_name(self):
        self.write("abci", (ROOT / "platforms" / "dgx-1.yaml").read_text(encoding="utf-8"))
        self.assertIn("128 nodes", run("show", "platform", self.extending("abci")).stdout)

    def test_an_unknown_name_is_located_and_gets_those_that_are_near(self):
        said = self.refused(66, "check", "--platform", self.extending("abcj"))
        self.assertIn("mine.yaml:1:10: error: there is no platform 'abcj'", said)
        self.assertIn("did you mean 'abci'?", said)
        said = self.refused(66, "check", "--platform", self.extending("abci.yaml"))
        self.assertIn("no folder and no .yaml", said)


class WhatIf(support.Case):
    """More nodes and cards than a file describes."""

    def test_they_continue_its_pattern_and_the_answer_says_so(self):
        run("new", "platform", "--nodes=8", "--gpus=4xa40", "--nics=2x100Gb/s", "--leaves=2",
            "--uplinks=2", "--to", self.directory / "mine.yaml")
        run("new", "job", "--platform", self.directory / "mine.yaml", "--nodes=8", "--batch=64",
            "--software=mlperf-v3.0", "--to", self.directory / "mine-job.yaml")
        job, text = self.directory / "mine-job.yaml", (self.directory / "mine.yaml").read_text(encoding="utf-8")
        for cards in (1, 2, 4):
            self.write("other.yaml", text.replace("nics: 2", f"nics: {cards}").replace(
                "[nic0-cpu0, nic1-cpu0]", "[" + ", ".join(f"nic{i}-cpu0" for i in range(cards)) + "]"))
            written = answer("predict", job, "-banalytic", "--set",
                             f"cluster.platform={self.directory / 'other.yaml'}")
            found = answer("predict", job, "-banalytic", f"--set=platform.node.nics={cards}")
            self.assertEqual(found["step_s"], written["step_s"])
            self.assertEqual([w for w in found["warnings"] if "describes" in w], [
                "platform mine describes 2 network cards of a node, of which there are 4 now: the "
                "others continue its pattern"] if cards == 4 else [])
        node = (ROOT / "platforms" / "dgx-h100.yaml").read_text(encoding="utf-8").replace("nics: 8", "nics: 2")
        shared = ", ".join(f"nic{i % 2}-switch{i // 2 + 1}" for i in range(8))  # by hand: two cards at the places of eight
        self.write("shared.yaml", re.sub(r"\[nic0-[^]]*\]", f"[{shared}]", node))
        words = ("-banalytic", "--nodes=8", "--set=allreduce.algorithm=nccl", "--set")
        found = answer("predict", job, *words, "cluster.platform=dgx-h100", "--set=platform.node.nics=2")
        written = answer("predict", job, *words, f"cluster.platform={self.directory / 'shared.yaml'}")
        self.assertEqual(found["step_s"], written["step_s"])
        self.assertIn("describes 8 network cards of a node, of which there are 2 now: each serves", found["warnings"][0])
        self.write("large.yaml", text.replace("nodes: 8\n", "nodes: 64\n"))
        found = answer("predict", job, "-banalytic", "--set=cluster.nodes=64")
        self.assertEqual(found["step_s"], answer(
            "predict", job, "-banalytic", "--set=cluster.nodes=64", "--set",
            f"cluster.platform={self.directory / 'large.yaml'}")["step_s"])
        said = "platform mine describes 8 nodes, of which there are 64 now: the others continue its pattern of groups"
        self.assertIn(said, found["warnings"])
        for words in (("new", "job"), ("collective", "--bytes=1MB")):
            self.assertIn(said, run(*words, "--nodes=64", "--platform", self.directory / "mine.yaml").stderr)

    def test_the_links_inside_move_nccl_unless_a_bound_is_said(self):
        def step(platform, *more):
            words = ("predict", self.job, "-banalytic", f"--set=cluster={{platform: {platform}, nodes: 1}}",
                     "--set=allreduce={algorithm: nccl, overlap: none}", *more)
            found = answer(*words)
            return found["step_s"], [w for w in found["warnings"] if "NCCL's rings" in w]

        faster = "--set=platform.node.links[0].bandwidth=900GB/s"
        (slow, _), (fast, none) = step("dgx-h100"), step("dgx-h100", faster)
        self.assertLess(fast, slow)
        self.assertEqual(none, [])
        (bound, _), (still, said) = step("l40s-node"), step("l40s-node", faster)
        self.assertEqual(still, bound)
        self.assertRegex(said[0], r"--set node.links.0.bandwidth: .*l40s-node.yaml:\d+; set it as well, or to null")
        free, _ = step("l40s-node", faster, "--set=platform.nccl.intra_bandwidth=null")
        self.assertLess(free, bound)

    def test_a_cluster_of_the_library_has_the_nodes_that_were_built(self):
        self.assertIn("only 1088 nodes", self.refused(65, "predict", self.job, "--set=cluster.nodes=1089",
                                                       "--set=allreduce.grid=null"))


@unittest.skipUnless(support.has_simulator(), "built without SimGrid")
class Exact(support.Case):
    """Machines of today, by hand."""

    def expect(self, seconds, *words):
        row = answer("collective", *words, "-bsim")["rows"][0]
        self.assertAlmostEqual(row["time_s"] / seconds, 1, places=6)

    def test_a_rack_of_72_is_one_node(self):
        """A ring of 72: 142 messages of 1e8 B over NVLink5 at 80.2 % of 900 GB/s, 1.9 us each."""
        self.expect(142 * (1e8 / (900e9 * 0.802) + 1.9e-6), "--platform=gb200-nvl72", "-n1",
                    "--bytes=7.2GB")

    def test_a_pod_of_chips_is_a_torus(self):
        """4 x 4: each of four links begins a ring for a quarter of the vector: six messages of a quarter of that along
        one dimension and six of a sixteenth along the other, at 90 % of 50 GB/s, 0.5 us on the link and 1 us for its start."""
        self.expect(6 * (1e8 + 1e8 / 4) / (50e9 * 0.9) + 12 * 1.5e-6, "--platform=tpu-v5e-pod",
                    "--grid=4x4", "-atorus2d", "--bytes=1.6GB")

    def test_a_pod_of_cubes_is_a_torus_of_three_dimensions(self):
        """8 x 8 x 8 without being asked: rings from six links with a sixth of 6 GB each, 14 messages of an eighth along
        rows; one over the other two has 126 of a 512th, of which one in eight goes on to the next line, over two links."""
        self.expect(14 * (1e9 / 8 / 45e9 + 1.5e-6) + 126 * (1e9 / 512 / 45e9 + 2e-6), "--platform=tpu-v4-pod",
                    "-n512", "-atorus2d", "--bytes=6GB")

    def test_a_torus_inside_a_node(self):
        """A ring of 16 chips in the order of their numbers: each message over one link of the torus."""
        self.expect(30 * (1e8 / (128e9 * 0.9) + 1.5e-6), "--platform=trn2", "-n1", "--bytes=1.6GB")


    def groups(self, platform, nodes, uplinks, more=""):
        """@platform with groups of @nodes nodes."""
        return self.write("groups.yaml", (
            f"extends: {platform}\nname: groups\nnodes: {2 * nodes}\nnetwork:\n  tiers:\n"
            f"    - {{name: group, nodes: {nodes}, uplinks: {uplinks}, bandwidth: 25 GB/s, efficiency: 96 %, "
            f"latency: 350 ns{more}}}\n"))

    def test_groups_of_a_dragonfly(self):
        """A ring of 16 over two groups of Frontier: 30 messages of 1e8 B over a cable of 24 GB/s; a card
        and a global cable have 350 ns at each end, software 5.3 us."""
        self.expect(30 * (1e8 / 24e9 + 5.3e-6 + 4 * 350e-9), "--platform", self.groups("frontier", 1, 1),
                    "-n2", "--bytes=1.6GB")

    def test_rails(self):
        """Eight rings of 32, each by another card, in nodes of eight H100: a ring leaves a node by the next
        card, so by another rail. A rail of a unit of two nodes has two such messages a step: at the card's
        rate with two cables of 400 Gb/s, at half of it with one."""
        for cables, rate in ((16, 24e9), (8, 12e9)):
            self.expect(62 * (1e7 / rate + 4e-6 + 2 * 195e-9 + 2 * 350e-9), "--platform", self.groups(
                "dgx-h100-rails", 2, cables, ", rails: 8"), "-n4", "--channels=all", "--bytes=2.56GB")


class Lists(support.Case):
    """What there is."""

    def names(self, kind):
        """Those of a kind, each with some words on it."""
        lines = [line.split() for line in run("list", kind).stdout.splitlines()]
        self.assertTrue(all(len(line) > 1 for line in lines), lines)
        return [line[0] for line in lines]

    def test_every_name_has_a_line_with_its_description(self):
        folders = {"platforms": "platforms", "devices": "platforms/devices",
                   "software": "platforms/software"}
        for kind, folder in folders.items():
            self.assertEqual(self.names(kind), sorted(path.stem for path in (ROOT / folder).glob("*.yaml")))
        for kind, some in (("networks", {"resnet50_v1", "resnet20", "vgg16", "toy"}),
                           ("algorithms", {"ring", "torus2d", "nccl", "mpi"})):
            self.assertLessEqual(some, set(self.names(kind)))
        self.assertIn("did you mean 'devices'?", self.refused(64, "list", "device"))

    def test_a_device_is_shown_with_the_source_of_each_number(self):
        text = run("show", "device", "v100-sxm2").stdout
        self.assertTrue(text.startswith("v100-sxm2-16gb: "), text)
        json = answer("show", "device", "v100-sxm2")
        self.assertEqual(len(json["numbers"]), V100.count("source:"))
        for number in json["numbers"]:
            self.assertIn(number["key"], text)
            self.assertIn(number["source"], text)

    def test_a_platform_as_json_has_all_its_numbers_in_si(self):
        json = answer("show", "platform", "abci")
        self.assertEqual(len(json["numbers"]), (ABCI + V100).count("source:"))
        nic = [n for n in json["numbers"] if n["key"] == "network.nic.bandwidth"]
        self.assertEqual(nic[0]["value"], 12.5e9)
        self.assertEqual((json["nodes"], json["devices_per_node"]), (1088, 4))


class Changes(support.Case):
    """What --set and its short forms change for one command."""

    def same(self, words, job):
        """The job with @words and another job give the same answer, with the default back end."""
        one, other = answer("predict", self.job, *words), answer("predict", job)
        for key in ("step", "phases", "devices", "scaling_efficiency", "platform_hash"):
            self.assertEqual(one[key], other[key], key)
        return one

    def test_a_number_of_the_platform_and_its_device_changes_for_parent_and_child(self):
        said = '{value: 100 Gb/s, source: "ABCI'
        self.write("gpu.yaml", V100.replace("{value: 15.7 TFLOP/s", "{value: 9 TFLOP/s"))
        self.write("mine.yaml", ABCI.replace(said, '{value: 1 GB/s, source: "').replace(
            "device: v100-sxm2-16gb", "device: ./gpu.yaml"))
        job = self.write("other.yaml", support.JOB.replace(
            "platform: abci", f"platform: {self.directory / 'mine.yaml'}"))
        result = self.same(("--set=platform.network.nic.bandwidth=8Gb/s",
                            "--set=device.peak.fp32=9 TFLOP/s"), job)
        self.assertNotEqual(result["step"], answer("predict", self.job)["step"])
        self.assertIn("network.nic.bandwidth = 1 GB/s (--set)", result["assumptions"])
        self.assertIn("--set device.peak.fp32 has no effect on this job",
                      result["warnings"])

    def test_a_set_number_has_an_effect_though_half_of_it_would_do(self):
        for key, warnings in (("network.nic.bandwidth=10TB/s", 0), ("device.memory=40GB", 0), ("device.links.bandwidth=1GB/s", 1)):
            prefix = "" if key.startswith("device") else "platform."
            found = answer("predict", self.job, "-banalytic", f"--set={prefix}{key}")
            self.assertEqual(len(found["warnings"]), warnings, key)

    def test_whole_numbers_are_in_the_hash_of_the_platform(self):
        hashes = {answer("predict", self.job, "-banalytic", *words)["platform_hash"] for words in (
            [], ["--set=platform.network.tiers[0].uplinks=12"], ["--set=platform.nodes=1000"],
            ["--set=platform.nccl.channels=7"])}
        self.assertEqual(len(hashes), 4)

    def test_a_path_is_relative_to_the_job_that_says_it(self):
        self.write("own.yaml", f"extends: {support.ROOT}/platforms/abci.yaml\nname: own\n")
        job = self.write("near.yaml", support.JOB.replace("abci", "./own.yaml"))
        self.assertEqual(answer("predict", job)["platform"], "own")
        self.assertEqual(self.refused(66, "predict", job, "--set=cluster.platform=./none.yaml")
                         .count("error:"), 1)

    def test_the_value_alone_loses_its_source(self):
        result = answer("predict", self.job, "-banalytic",
                        "--set=platform.network.nic.bandwidth.value=8Gb/s")
        self.assertIn("network.nic.bandwidth = 1 GB/s (--set)", result["assumptions"])

    def test_an_assigned_number_goes_before_the_software_profile(self):
        words = ("predict", self.job, "-banalytic", "--set=cluster.software=mlperf-v0.6")
        half = answer(*words, "--set=device.kernel_overhead=1 ms")
        self.assertGreater(half["step_s"], 10 * answer(*words)["step_s"])
        self.assertIn("software profile mlperf-v0.6 decides",
                      self.refused(65, *words, "--set=device.fusion=none"))

    def test_items_of_lists_are_named_by_index_in_both_forms_and_by_name(self):
        job = self.write("other.yaml", support.JOB.replace("epochs: 30, batch_per_device: 16",
                                                           "epochs: 30, batch_per_device: 8"))
        for key in ("training.phases[0].batch_per_device", "training.phases.0.batch_per_device"):
            self.same((f"--set={key}=8",), job)
        for key in ("network.tiers[0]", "network.tiers.0", "network.tiers.rack"):
            said = run("show", "scenario", self.job, f"--set=platform.{key}.uplinks=2").stdout
            self.assertIn(f"platform.{key}.uplinks", said)
        self.assertIn("not an index of this list of 2",
                      self.refused(65, "check", self.job, "--set=training.phases[2].epochs=1"))
        self.assertIn("there is no list here",
                      self.refused(65, "check", self.job, "--set=cluster.platform=dgx-h100",
                                   "--set=platform.network.tiers[0].uplinks=2"))

    def test_short_forms_are_assignments(self):
        job = self.write("other.yaml", support.JOB.replace("nodes: 4,", "nodes: 8,").replace(
            "{epochs: 30, batch_per_device: 16}", "{epochs: 30, batch_per_device: 24}").replace(
            "{epochs: 60, batch_per_device: 32}", "{epochs: 60, batch_per_device: 24}").replace(
            "algorithm: torus2d, grid: {columns: 4, rows: 4}", "algorithm: ring").replace(
            "platform: abci", "platform: dgx-1"))
        short = ("--nodes=8", "--batch=24", "--algorithm=ring", "--set=allreduce.grid=null",
                 "--platform=dgx-1")
        self.same(short, job)
        for command in (["explain"], ["show", "job"], ["show", "schedule"]):
            self.assertEqual(run(*command, self.job, *short).stdout.replace("job.yaml", ""),
                             run(*command, job).stdout.replace("other.yaml", ""))
        self.assertIn("on 32 devices of abci",
                      run("check", self.job, *short[:4]).stdout)
        self.assertIn("'it's' is not a whole number",
                      self.refused(65, "predict", self.job, "--nodes=it's"))

    def test_batch_replaces_a_global_batch(self):
        job = self.write("other.yaml", support.JOB.replace(
            "batch_per_device: 16", "global_batch: 1000, round: down"))
        phases = answer("predict", job, "--batch=4", "-banalytic")["phases"]
        self.assertEqual([phase["global_batch"] for phase in phases], [64, 64])

    def test_an_unknown_key_of_the_top_suggests_where_it_stands(self):
        self.assertIn("did you mean 'cluster.nodes' or 'baseline.nodes'?",
                      self.refused(65, "check", self.job, "--set=nodes=5"))
        said = self.refused(65, "check", self.job, "--set=platform.network.nic.bandwith=1 GB/s")
        self.assertIn("unknown key 'bandwith' in network.nic; did you mean 'bandwidth'?\n"
                      "  platform.network.nic.bandwith=1 GB/s\n"
                      "                       ^~~~~~~~\n", said)
