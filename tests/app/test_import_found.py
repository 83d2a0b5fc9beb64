"""`import`: files of the kinds that people report, with the right answer of each.

tests/data/import/README.md says where they are from.  A row is a file, the command, and what must be in its
result, its lines and its platform; or the exit code and words of a refusal.
"""
import json
import re
import unittest

import import_data
import support
from support import answer

DATA = import_data.made() / "found"
READS = "has no Python to read" if support.part("foretrain-read") is None else ""
WITH_GSL = unittest.skipUnless(support.part("fits"), "fits need GSL")


class Found(support.Case):
    """Each row of a table."""

    def right(self, kind, name, words=(), result=(), lines=(), platform=()):
        """The answer has @result (numbers within 1 %), @lines and what @platform says, "!..." has not."""
        path = self.directory / "mine.yaml"
        told = answer("import", kind, DATA / name, "--to", path, "--overwrite", *words)
        for key, value in dict(result).items():
            self.assertAlmostEqual(told["result"][key] / value, 1, delta=0.01, msg=f"{name}: {key}")
        said = "\n".join(told["understood"] + told["assumed"] + told["warnings"])
        for place, texts in ((said, lines), (path.read_text(encoding="utf-8"), platform)):
            for text in texts:
                (self.assertNotIn if text[0] == "!" else self.assertIn)(text.lstrip("!"), place, name)

    def wrong(self, kind, name, *texts, words=()):
        """The file is refused with all of @texts."""
        message = self.refused(65, "import", kind, DATA / name, *words)
        for text in (name, *texts):
            self.assertIn(text, message)


@unittest.skipIf(READS, READS)
class Times(Found):
    """nccl-tests and OSU."""

    @WITH_GSL
    def test_all_reduces(self):
        ring = {"bus_bandwidth_bytes_per_s": 20e9, "message_latency_s": 5e-6}
        eight = {**ring, "ranks": 8, "nodes": 4}
        for name, result, *lines in (
                ("T1_old_error_column.log", eight, "28 sizes of 8 to 1073741824 B", "no platform here with nodes of 2 a100-sxm4-80gb"),
                ("T1b_old_error_column_partly.log", eight, "28 sizes of 8 to", "!sizes left out"),
                ("T5_tag_output.log", eight), ("T5b_srun_label.log", eight),
                ("T6_all_tests_one_log.log", {**ring, "ranks": 2, "nodes": 1}, "2 tables of other programs left out"),
                ("T11_all_types.log", {"ranks": 8, "nodes": 1}, "8 sizes", "node and network of dgx-h100", "!no platform here")):
            self.right("nccl-tests", name, result=result, lines=lines)
        for mark in ("[pod/a/b] 2025-05-01T12:00:00.123Z \x1b[1m", " 0: ", "Sat Nov 28 10:00:00 2026[1,0]<stdout>:"):
            marked = re.sub("(?m)^", mark, (DATA / "T1_old_error_column.log").read_text())
            told = answer("import", "nccl-tests", self.write("marked.log", marked))
            self.assertAlmostEqual(told["result"]["bus_bandwidth_bytes_per_s"] / 20e9, 1, delta=0.01)

    def test_what_is_no_all_reduce(self):
        for name, *texts in (
                ("T2_broadcast_two_ranks.log", "without a column 'redop'", "all_reduce_perf"),
                ("T4_two_rank_zero.log", "the output of all_reduce_perf, but", "MPI=1"),
                ("T8_pr318.json", "expected a list 'results'"),
                ("T9_no_hash.log", "numbers without the head", "begin with #"),
                ("T10_info_and_dates.log", ":91: ", "remove lines of other programs")):
            self.wrong("nccl-tests", name, *texts)

    def log(self, name, *programs, ranks=2, hosts=2):
        """A log of runs: (program, columns redop and root, bus over algorithm bandwidth)."""
        lines = []
        for program, head, values, factor in programs:
            lines += [f"# {program}" if program else "#", "# Using devices"]
            lines += [f"#  Rank {rank} Group 0 Pid 1 on host{rank % hosts} device {rank // hosts} [0000:{rank:02x}:00] X"
                      for rank in range(ranks)]
            lines.append(f"#  size  count  type {head} time algbw busbw #wrong")
            lines += [f"{size} {size // 4} float {values} {10 + size / 1e4:.2f} {size / (1e4 + size / 10):.4f} "
                      f"{factor * size / (1e4 + size / 10):.4f} 0" for size in (1 << 20, 1 << 22, 1 << 24)]
            lines.append("# Out of bounds values : 0 OK")
        return self.write(name, "\n".join(lines) + "\n")

    @WITH_GSL
    def test_a_part_of_a_name_is_another_device(self):
        text = self.log("a.log", ("all_reduce_perf", "redop root", "sum -1", 1)).read_text()
        for model, device in (("RTX A4000", ""), ("Quadro P4000", ""), ("RTX 4090 Laptop GPU", ""), ("H100 80GB HBM3 MIG 1g.10gb", ""),
                              ("NVIDIA A10", "a10"), ("NVIDIA A10G", "a10g"), ("RTX A6000", "a6000"), ("AMD Instinct MI300X VF", "mi300x")):
            told = answer("import", "nccl-tests", self.write("named.log", text.replace("] X", f"] {model}")))
            self.assertIn(f"'{model}': {device} of" if device else f"'{model}' has no file", "\n".join(told["understood"] + told["warnings"]))
        self.assertIn("of 1 mi300x has NCCL's model", told["warnings"][0])

    @WITH_GSL
    def test_two_ranks_tell_nothing_by_their_factor(self):
        for program, head, values, text in (
                ("nThread 1", "redop root", "none 0", "redop is none"), ("nThread 1", "redop root", "sum 0", "root, 0"),
                ("Collective test starting: sendrecv_perf", "redop root", "sum -1", "sendrecv_perf")):
            self.assertIn(text, self.refused(65, "import", "nccl-tests", self.log("a.log", (program, head, values, 1))))
        told = answer("import", "nccl-tests", self.log("a.log", ("nThread 1", "redop root", "sum -1", 1)))
        self.assertIn("nothing names the program", told["assumed"][0])

    def test_what_is_no_xml_has_line_and_column(self):
        path = self.write("cut.xml", "<topology>\n  <object type=<b>\n")
        self.assertIn("cut.xml:2:16: not the XML", self.refused(65, "import", "hwloc", path))

    @WITH_GSL
    def test_runs_of_one_log(self):
        run = ("all_reduce_perf", "redop root", "sum -1", 2 * 63 / 64)
        told = answer("import", "nccl-tests", self.log("a.log", run, run, ranks=64, hosts=8))
        self.assertEqual((told["result"]["ranks"], told["result"]["nodes"]), (64, 8))
        self.assertIn("2 outputs of all_reduce_perf with these ranks, taken together", told["understood"])
        scatter = ("nThread 1", "redop root", "sum -1", 63 / 64)  # named by nothing but its factor
        for runs in ((run, scatter), (scatter, run)):
            told = answer("import", "nccl-tests", self.log("a.log", *runs, ranks=64, hosts=8))
            self.assertIn("1 table of other programs left out", told["understood"])
        self.assertIn("a.log:67: bus bandwidth is 0.984", self.refused(
            65, "import", "nccl-tests", self.log("a.log", scatter, ranks=64, hosts=8)))
        text = self.log("a.log", run, ranks=64, hosts=8).read_text() + self.log(
            "b.log", ("all_reduce_perf", "redop root", "sum -1", 2 * 31 / 32), ranks=32, hosts=4).read_text()
        both = self.write("both.log", text)
        self.assertIn("64 on 8, 32 on 4", self.refused(65, "import", "nccl-tests", both))
        told = answer("import", "nccl-tests", both, "--ranks", "32")
        self.assertEqual((told["result"]["ranks"], told["result"]["nodes"]), (32, 4))
        path = self.write("same.log", self.log("a.log", run, ranks=64, hosts=8).read_text().replace("host1", "host0"))
        self.assertIn("say --nodes N", self.refused(65, "import", "nccl-tests", path))

    @WITH_GSL
    def test_osu(self):
        for name in ("O3_osu_iallreduce.log", "O3b_osu_allreduce.log"):
            self.right("osu", name, ("--ranks", "4"), {"bus_bandwidth_bytes_per_s": 10e9, "message_latency_s": 3e-6})
        self.wrong("osu", "O1_osu_alltoall.log", "there is 'OSU MPI All-to-All Personalized Exchange Latency Test'")
        self.wrong("osu", "O5_escaped_hash.log", ":4: ", "begin with #")
        for title in ("MPI Broadcast Latency", "MPI_Put Latency", "MPI Multi-threaded Latency", "MPI Neighbor_alltoall Latency",
                      "MPI Bi-Directional Bandwidth", "MPI Non-blocking Broadcast Latency", "MPI Reduce_scatter Latency"):
            path = self.write("other.log", import_data.osu(f"OSU {title} Test", "Avg Latency(us)", lambda size: 2 + size / 1e4))
            self.assertIn(f"there is 'OSU {title} Test'", self.refused(65, "import", "osu", path))

    @WITH_GSL
    def test_a_bandwidth_that_falls_is_not_its_best(self):
        rate = import_data.osu("OSU MPI-CUDA Bandwidth Test", "   Bandwidth (MB/s)",
                               lambda size: 9510 * size / (size + 2000) if size < 1 << 18 else 4040)
        told = answer("import", "osu", self.write("bw.log", rate))
        self.assertLess(told["result"]["bandwidth_bytes_per_s"], 5e9)
        self.assertGreater(told["result"]["spread"], 0.1)
        self.assertTrue(any("falls to 4.04" in line for line in told["understood"]))

    @WITH_GSL
    def test_a_size_with_wrong_results_is_left_out(self):
        text = import_data.osu("OSU MPI Latency Test", "Latency (us)        Validation", lambda size: 2 + size / 1e4)
        text = re.sub(r"(?m)^(\d.*)$", r"\1  Pass", text)
        told = answer("import", "osu", self.write("checked.log", text.replace("Pass", "Fail", 1)))
        self.assertIn("1 size left out: their results were wrong", told["understood"])
        path = self.write("checked.log", text.replace("Pass", "Fail"))
        self.assertIn("no size has right results", self.refused(65, "import", "osu", path))


class Nodes(Found):
    """NCCL's topology and hwloc's."""

    def test_nccl_topology(self):
        for name, lines, *platform in (
                ("N1_nvlink_pairs_a6000.xml", ("8 GPUs", "NVLinks do not join all GPUs"), "intra: pci",
                 "intra_bandwidth: {value: 10 GB/s", "value: 56.25 GB/s", "value: 85.3333 %"),
                ("N2_mi300x_xgmi.xml", ("MI300X", "not RCCL's"), "- name: xgmi-x1", "value: 64 GB/s",
                 "gpu0-gpu7", "gpu6-gpu7", "!nccl:"),
                ("N3_gcn_sm90.xml", ("'PCI 1d94:55b7'",), "device: ideal", "!h100"),
                ("N4_gb10.xml", ("1 GPU", "2 cards of 10 Gb/s", "device ideal"), "device: ideal"),
                ("N6_dual_port.xml", ("2 cards of 200 Gb/s", "1 slot with several ports"),
                 "nic0-switch1, nic1-switch1", "switch1-switch0"),
                ("N7_fused_nic.xml", ("1 card of 400 Gb/s", "2 slower cards left out"),),
                ("N9_mnnvl_two_hosts.xml", ("a node of 8 GPUs", "2 hosts"), "intra: nvlink")):
            self.right("nccl-topo", name, lines=lines, platform=platform)

    def topology(self, gpus, cards=""):
        """A node of GPUs: (compute capability or more, PCI attributes, [(target, class)])."""
        return self.write("node.xml", '<system version="1"><cpu numaid="0" vendor="GenuineIntel">' + "".join(
            f'<pci busid="0000:0{i}:00.0" class="0x030200" {pci} link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="{i}" {sm}>'
            + "".join(f'<nvlink target="{to}" count="4" tclass="{kind}"/>' for to, kind in links) + "</gpu></pci>"
            for i, (sm, pci, links) in enumerate(gpus)) + cards + "</cpu></system>")

    def test_what_a_gpu_is(self):
        for said, pci in (("h200-sxm-141gb of", "2335"), ("a100-sxm4-40gb of", "20b0"), ("l40s of", "26b9"), ("'PCI 10de:9999' has no file", "9999"),
                          ("'NVIDIA H20' has no file", "2329")):
            told = answer("import", "nccl-topo", self.topology([('sm="90"', f'vendor="0x10de" device="0x{pci}"', [])]))
            self.assertIn(said, "\n".join(told["understood"] + told["warnings"]))
        for device, kind in (("gaudi-3", "1200 [1da3:1060] [1:2]"), ("tpu-v5e", "ff00 [1ae0:0063] [1:2]"), ("trainium-2", "0880 [1d0f:7364] [1:2]")):
            self.assertIn(f"{device} of platforms/devices", "\n".join(answer("import", "hwloc", self.machine((kind, 31.5, [])))["understood"]))

    def test_links_to_what_is_not_there(self):
        here, gone = "0000:01:00.0", "0000:99:00.0"
        for kind, text in (("0x030200", "4 links of GPUs to what is not in the file (class 0x030200) left out"),
                           ("0x123456", "(class 0x123456)")):
            told = answer("import", "nccl-topo", self.topology([('sm="80"', "", [(gone, kind)])]))
            self.assertIn(text, "\n".join(told["understood"]))
        path = self.directory / "mine.yaml"
        answer("import", "nccl-topo", self.topology([('sm="70"', "", [(gone, "0x0b8000")])]), "--to", path)
        self.assertIn("nvlink-x4, connect: [gpu0-cpu0]", path.read_text())
        told = answer("import", "nccl-topo", self.topology([('sm="80"', "", [(here, "0x0302")]),
                                                            ('sm="80"', "", [("0000:00:00.0", "0x0302")])], "<fpga/>"))
        self.assertIn("1 element <fpga> not known and left out", told["understood"])

    def test_islands_are_no_ring_and_a_cube_is(self):
        path = self.directory / "mine.yaml"
        for joined, bandwidth in (([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2], [5, 6, 7], [4, 6, 7], [4, 5, 7], [4, 5, 6]], "pci"),
                                  ([[1, 3, 4], [0, 2, 5], [1, 3, 6], [0, 2, 7], [5, 7, 0], [4, 6, 1], [5, 7, 2], [4, 6, 3]], "240 GB/s")):
            answer("import", "nccl-topo", self.topology([('sm="80"', "", [(f"0000:0{to}:00.0", "0x0302") for to in others])
                                                         for others in joined]), "--to", path, "--overwrite")
            self.assertIn(f"intra: {bandwidth}" if bandwidth == "pci" else f"intra_bandwidth: {{value: {bandwidth}",
                          path.read_text())

    def test_impossible_values_are_named(self):
        for cards, text in (('<nic><net name="a" dev="0" speed="200000000"/></nic>', 'speed="200000000": expected'),
                            ('<nic><net name="a" dev="0" speed="fast"/></nic>', 'speed="fast": expected'),
                            ('<pci busid="1" link_speed="1600 GT/s" link_width="16"><nic><net dev="0" speed="100000"/></nic></pci>',
                             'link_speed="1600 GT/s"')):
            self.assertIn(text, self.refused(65, "import", "nccl-topo", self.topology([('sm="80"', "", [])], cards)))
        self.assertIn('pci_link_speed="fast": expected', self.refused(65, "import", "hwloc", self.machine(("0302 [10de:2335] [1:2]", "fast", []))))

    def test_hwloc(self):
        for name, lines, *platform in (
                ("H1_amd_class_0380.xml", ("8 GPUs, 2 cards", "MI50"), "devices: 8"),
                ("H2_es1000_beside_teslas.xml", ("3 GPUs, 2 cards",), "devices: 3"),
                ("H4_sriov_vfs.xml", ("2 GPUs, 2 cards", "14 virtual functions"), "a100-sxm4-80gb"),
                ("H5_no_package.xml", ("1 package, 4 cores", "the file names none"), "devices: 4"),
                ("H6_v1_socket.xml", ("2 packages, 8 cores",), "devices: 8"),
                ("H7_gpus_no_core.xml", ("2 packages", "4 GPUs, 8 cards, 4 PCI switches", "4 cards left out"), "h200-sxm-141gb")):
            self.right("hwloc", name, lines=lines, platform=platform)

    def machine(self, *devices):
        """A machine with PCI devices: (pci_type, speed, names of drivers)."""
        return self.write("node.xml", import_data.hwloc(1, 2, [[
            f'<object type="PCIDev" pci_busid="0000:0{i}:00.0" pci_type="{kind} a1" pci_link_speed="{speed}">'
            + "".join(f'<object type="OSDev" name="{name}" osdev_type="{of}"/>' for name, of in drivers) + "</object>"
            for i, (kind, speed, drivers) in enumerate(devices)]]))

    def test_screens_and_management_are_left_out(self):
        for gpus, cards, *devices in (
                (0, 0, ("0300 [1002:515e] [1:2]", 0.5, [("card0", 1)])), (0, 0, ("0300 [102b:0536] [1:2]", 1, [])),
                (0, 0, ("0300 [1002:164e] [1:2]", 15.75, [("card0", 1), ("renderD128", 1)])),
                (1, 0, ("0300 [10de:2204] [1:2]", 15.75, [])), (1, 0, ("0300 [1002:73bf] [1:2]", 31.5, [])),
                (1, 0, ("0380 [1d94:55b7] [1:2]", 15.75, [])), (1, 0, ("1200 [1da3:1020] [1:2]", 31.5, [])),
                (1, 0, ("0880 [19e5:d802] [1:2]", 31.5, [("cuda0", 5)])),
                (0, 1, ("0207 [15b3:101b] [1:2]", 31.5, []), ("0200 [8086:1521] [1:2]", 2, [("eno1", 2)])),
                (0, 1, ("0200 [15b3:101d] [1:2]", 31.5, [("eth0", 2), ("mlx5_0", 3)]), ("0200 [14e4:165f] [1:2]", 1, [("eno1", 2)])),
                (0, 2, ("0200 [8086:1583] [1:2]", 8, [("eth0", 2)]), ("0200 [8086:1583] [1:2]", 8, [("eth1", 2)])),
                (0, 1, ("0200 [17db:0501] [1:2]", 31.5, [("hsn0", 2)]), ("0280 [8086:2723] [1:2]", 1, [("wlan0", 2)]))):
            told = answer("import", "hwloc", self.machine(*devices))
            self.assertRegex(told["understood"][0], f"{gpus} GPUs?, {cards} cards?,", devices)
            if gpus and not cards:
                self.assertIn("has no network card, which 2 nodes need", self.refused(
                    65, "import", "hwloc", self.machine(*devices), "--nodes=2"))
        path = self.machine(("0200 [1137:0043] [1:2]", 0, [("eth4", 16), ("x0", 48)]), ("0200 [8086:1521] [1:2]", 0, [("eth0", 16)]))
        path.write_text(path.read_text().replace('version="2.0"', 'version="3.0"'))  # where types are bits
        self.assertIn("0 GPUs, 1 card,", answer("import", "hwloc", path)["understood"][0])


@unittest.skipIf(READS, READS)
class Networks(Found):
    """ibnetdiscover and Slurm."""

    def test_ibnetdiscover(self):
        for name, words, lines, *platform in (
                ("I1_aggregation_node.log", (), ("16 nodes below 2", "2 aggregation nodes", "16 cards"), "nodes: 8\n", "!nodes: 9"),
                ("I2_unnamed_cards.log", (), ("16 nodes", "16 cards without the name of a host: a node each"), "nodes: 16\n"),
                ("I3_rails.log", ("--platform", "dgx-a100"), ("16 nodes below 8 switches", "64 cards of 200 to 200 Gb/s, 4 a node"),
                 "uplinks: 32", "rails: 4"),
                ("I3_rails.log", (), ("node: 4 devices and 4 cards",), "uplinks: 32", "rails: 4", "nics: 4"),
                ("I3_rails.log", ("--platform", "abci"), ("rails: 1, as 2 cards of a node do not share the 4 rails",), "!rails: 4"),
                ("I4_udev_names.log", (), ("16 nodes", "32 cards of 200 to 200 Gb/s, 2 a node"), "nodes: 8\n", "uplinks: 16"),
                ("I6_old_speeds.log", (), ("3 cards of 32 to 54.56 Gb/s",), "nodes: 3"),
                ("I7_names.log", (), ("4 nodes", "one switch for all"), "nodes: 4")):
            self.right("ibnetdiscover", name, words, lines=lines, platform=platform)

    def test_what_a_host_is(self):
        for hosts, *descriptions in (
                (1, "a HCA-1", "a HCA-2"), (1, "a mlx5_0", "a mlx5_1"), (1, "a hfi1_0", "a hfi1_1"), (1, "a rocep12s0", "a ibp75s0f1"),
                (2, "a mlx5_ib0", "b mlx5_ib0"), (2, "localhost mlx5_0", "localhost mlx5_1"), (2, "", ""), (2, "a mlx5_0", "a mlx5_0"),
                (2, "mlx5_0", "mlx5_1"), (1, "a", "a"), (2, "MT25408 ConnectX Mellanox Technologies", "a HCA-1"),
                (1, "rack 1 node 2 mlx5_bond_0", "rack 1 node 2 mlx5_3"), (1, "a HCA-1", "Quantum-2 Aggregation Node")):
            ports = "".join(f'[{i}] "H-{i}"[1]({i}) # "{text}" lid 1 4xHDR\n' for i, text in enumerate(descriptions))
            path = self.write("net.log", 'Switch 36 "S-1" # "leaf" lid 1\n' + ports)
            self.assertIn(f"{hosts} nodes below 1 switches", answer("import", "ibnetdiscover", path)["understood"][0], descriptions)

    def test_rails_with_cards_that_are_missing(self):
        """Three racks of four rails and one of three; a few cards are missing, and some have no host's name."""
        ports = [[] for _ in range(15)]
        for rack in range(4):
            rails = 4 if rack < 3 else 3
            for host in range(8):
                for rail in range(rails):
                    if host or rail:
                        ports[4 * rack + rail].append(f"r{rack}n{host} mlx5_{rail}")
            ports[4 * rack].append("MT4129 ConnectX7   Mellanox Technologies")
        text, guid = "", 0
        for leaf, names in enumerate(ports):
            text += f'Switch 64 "S-{leaf}" # "leaf" lid 1\n'
            for name in names:
                guid += 1
                text += f'[{guid}] "H-{guid}"[1]({guid}) # "{name}" lid 1 4xNDR\n'
            text += "".join(f'[{60 + i}] "S-spine{i}"[1] # "spine" lid 1 4xNDR\n' for i in range(3))
        path = self.directory / "mine.yaml"
        told = answer("import", "ibnetdiscover", self.write("net.log", text), "--platform", "dgx-a100", "--to", path)
        self.assertIn("36 nodes below 15 switches", told["understood"][0])
        self.assertIn("a rack has 4 leaf switches, its rails, but 1 of 4 have another number", told["understood"])
        self.assertIn("nodes: 9\n      uplinks: 12\n      rails: 4", path.read_text())
        self.assertEqual(told["warnings"], [])
        text = "".join(f'Switch 64 "S-{leaf}" # "leaf" lid 1\n' + "".join(
            f'[{host}] "H-{host}-{leaf}"[1]({host}) # "n{host} mlx5_{leaf}" lid 1 4xNDR\n' for host in range(4)) for leaf in range(4))
        answer("import", "ibnetdiscover", self.write("one.log", text), "--platform", "dgx-a100", "--to", path, "--overwrite")
        self.assertIn("nodes: 4\n      uplinks: 32\n      rails: 4", path.read_text())  # where all nodes are one rack

    def test_slurm(self):
        for name, lines in (
                ("L1_continuation.conf", ("16 nodes below 3 switches", "2 switches at height 1, 8 to 8")),
                ("L4_node_twice.conf", ("12 nodes", "4 nodes below several leaf switches", "the last one counts")),
                ("L6_lower.conf", ("16 nodes below 3 switches",)), ("L8_topology.yaml", ("16 nodes below 3 switches",))):
            if name.endswith("yaml") and support.part("yaml") is None:
                continue
            self.right("slurm", name, lines=lines, platform=("nodes: 8\n",))
        for name, *texts in (
                ("L2_include.conf", ":1:1: Include is not followed"), ("L5_undefined_child.conf", ":1: 'root' has the child 'unknown'"),
                ("L9_all.conf", ":1:21: ALL does not say how many"),
                ("L7_self.conf", ":5: the switches above 'bad' form a circle")):
            self.wrong("slurm", name, *texts)

    def test_what_slurm_takes(self):
        for nodes, said, text in (
                (8, "3 parts of 4, 8, 4 nodes", "SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=n[4-11]\nSwitchName=c Nodes=n[12-15]\n"),
                (4, "", 'SwitchName = "a" Nodes = "n0, n1" # x \\\nSwitchName=b Nodes=n[2-3]\nSwitchName=c Switches=a,b\n'),
                (4, "", "SwitchName=a Level=0 LinkSpeed=1 Nodes=n[0-1]\nSwitchName=b Level=0 LinkSpeed=1 Nodes=n[2-3]\n"
                 "SwitchName=c Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=a,b\n"),
                (4, "", "BlockName=a Nodes=n[0-1]\nBlockName=b Nodes=n[2-3]\nBlockSizes=2\n"),
                (4, "a rack has 2 leaf switches, its rails", "".join(f"SwitchName=s{i} Nodes=n[{2 * (i // 2)}-{2 * (i // 2) + 1}]\n"
                                                             for i in range(4)) + "SwitchName=c Switches=s[0-3]\n")):
            told = answer("import", "slurm", self.write("topology.conf", text))
            self.assertIn(f"{nodes} nodes below", told["understood"][0], text)
            self.assertIn(said, "\n".join(told["understood"] + told["warnings"]))


class Traces(Found):
    """Profiles: what is a step, a device, communication."""

    def test_steps_and_communication(self):
        for name, result, *lines in (
                ("R1_stub_last_step.json", {"steps": 2, "step_mean_s": 9.2942e-3}, "1 step without work left out"),
                ("R1a_without_stub.json", {"steps": 3, "step_mean_s": 60e-3}, "!left out"),
                ("R1b_with_stub.json", {"steps": 3, "step_mean_s": 60e-3}, "1 step without work left out"),
                ("R6_msccl.json", {"steps": 1, "step_mean_s": 10e-3}, "compute: 4 ms in all", "communication: 5 ms in all")):
            told = answer("import", "trace", DATA / name)
            for key, value in result.items():
                self.assertAlmostEqual(told["result"][key] / value, 1, 3, f"{name}: {key}")
            for text in lines:
                (self.assertNotIn if text[0] == "!" else self.assertIn)(text.lstrip("!"), "\n".join(told["understood"]), name)

    def test_what_is_no_trace(self):
        for name, *texts in (("R2_truncated.json", ":1:640: ", "end of file"), ("R3_nan.json", ":1:"), ("R4_backslash.json", ":1:", "escape"),
                             ("R5_uint64.json", ":1:", "too big integer")):
            self.wrong("trace", name, *texts)

    def test_a_stub_changes_no_device(self):
        steps = []
        for name in ("R1a_without_stub.json", "R1b_with_stub.json"):
            told = answer("import", "trace", DATA / name, "--job", self.job, "--to", self.directory / "d.yaml", "--overwrite")
            steps.append([row["measured_s"] for row in told["result"]["kinds"]])
        self.assertEqual(*steps)
        self.assertAlmostEqual(steps[0][-1], 60e-3)

    def test_devices_of_one_file_are_averaged(self):
        events, products = [], ("sgemm", "nvjet_tst_128x256", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "fmha_cutlassF")
        for step in range(2):
            events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 9, "tid": 1,
                           "ts": 10000 * step, "dur": 9900})
            for device in range(4):
                events += [{"ph": "X", "cat": "kernel", "name": products[device], "pid": device, "tid": 7, "ts": 10000 * step + 10,
                            "dur": 6000, "args": {"device": device}},
                           {"ph": "X", "cat": "kernel", "name": "rcclGenericKernel", "pid": device, "tid": 8,
                            "ts": 10000 * step + 5000, "dur": 2000, "args": {"device": device}}]
        path = self.write("four.json", json.dumps({"traceEvents": events}))
        told = answer("import", "trace", path, "--job", self.job)
        kinds = {row["kind"]: row["measured_s"] for row in told["result"]["kinds"]}
        for kind, seconds in (("matrix products", 6e-3), ("communication", 2e-3), ("exposed communication", 0.99e-3),
                              ("gaps between computation", 2.91e-3), ("step", 9.9e-3)):
            self.assertAlmostEqual(kinds[kind], seconds, 5, kind)
        self.assertIn("4 devices: the mean of them is compared", told["understood"])
        for wrong in ({"dur": 1e30}, {"dur": -1}, {"ts": "0"}, {"dur": None}):
            path = self.write("wrong.json", json.dumps({"traceEvents": [*events, {**events[1], **wrong}]}))
            found = answer("import", "trace", path)
            self.assertEqual(found["warnings"], ["1 event left out: no possible 'ts' and 'dur'"], wrong)
            self.assertIn("compute: 48 ms in all", found["understood"])
        for event in events:
            event.update({"pid": 0, "args": {}} if event["cat"] == "kernel" else {})
        path = self.write("mixed.json", json.dumps({"traceEvents": events}))
        self.assertIn("more steps or devices", self.refused(65, "import", "trace", path, "--job", self.job))
