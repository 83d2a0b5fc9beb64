#!/usr/bin/python3
"""experiments/10_two_nodes: NCCL on 4 and 8 nodes from tables of 2, and the figures that its page and the
interval of a prediction have."""
import csv
import math
import pathlib
import re

import support
from support import answer, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "experiments" / "10_two_nodes"
ROWS = list(csv.DictReader(line for line in open(HERE / "nccl_tests.csv", encoding="utf-8") if line[0] != "#"))


def rows_of(cluster, nodes):
    """Rows of the table."""
    return [row for row in ROWS if (row["cluster"], row["nodes"]) == (cluster, str(nodes))]


def measured(row):
    """Seconds."""
    return 1e-6 * min(float(row["out_of_place_us"]), float(row["in_place_us"]))


def log(rows):
    """What nccl-tests prints of @rows."""
    ranks, version = int(rows[0]["devices"]), int(rows[0]["nccl"])
    lines = [f"#  Rank {rank:2d} Group  0 Pid 1 on host{rank // 8} device {rank % 8} [0x{rank:02x}] NVIDIA H100 80GB HBM3"
             for rank in range(ranks)]
    lines += [f"NCCL version {version // 100}.{version % 100}.2+cuda12.8"] if version else []
    lines.append("#  size count type redop root" + " time algbw busbw #wrong" * 2)
    for row in rows:
        size = int(row["bytes"])
        both = [f"{row[key]} {size / float(row[key]) * 1e-3:.2f} {size / float(row[key]) * 2e-3 * (ranks - 1) / ranks:.2f} 0"
                for key in ("out_of_place_us", "in_place_us")]
        lines.append(f"{size} {size // 4} float sum -1 {both[0]} {both[1]}")
    return "\n".join(lines) + "\n"


class TwoNodes(support.Case):
    """Each cluster."""

    def take(self, cluster, extra="", name="mine.yaml"):
        """The platform that an import writes, of 64 nodes."""
        path = self.directory / name
        log_file = self.write("table.txt", log(rows_of(cluster, 2)))
        answer("import", "nccl-tests", log_file, "--to", path, "--overwrite")
        text = path.read_text(encoding="utf-8").replace("nodes: 2\n", "nodes: 64\n", 1)
        self.write(name, (text[:text.index("  corrections:")].replace("  measured_nodes: 2\n", "") if extra else text))
        return path

    def errors(self, platform, cluster, nodes):
        """Logarithms of predicted over measured, by size."""
        rows = rows_of(cluster, nodes)
        told = answer("collective", "--platform", platform, "--nodes", nodes, "--algorithm", "nccl", "--backend",
                      "analytic", "--bytes", ",".join(row["bytes"] for row in rows))["rows"]
        return [math.log(one["time_s"] / measured(row)) for one, row in zip(told, rows)]

    def test_the_figures_of_the_page_and_of_the_interval(self):
        page = (HERE / "README.md").read_text(encoding="utf-8")
        spread = float(re.search(r"#define DOUBLING_SPREAD (\S+)", (
            ROOT / "app/predict/uncertainty.c").read_text(encoding="utf-8"))[1])
        squares = []
        for cluster, nodes in (("xe9680", 4), ("h100-ib", 4), ("h100-ib", 8)):
            cells = []
            for extra in ("", "alone"):
                errors = self.errors(self.take(cluster, extra), cluster, nodes)
                cells += [math.sqrt(sum(error * error for error in errors) / len(errors)), max(map(abs, errors))]
            self.assertIn(f"| {cluster} | {nodes} | " + " | ".join(f"{100 * cell:.1f} %" for cell in cells) + " |", page)
            squares.append(cells[0] ** 2 / math.log2(nodes / 2))
        self.assertAlmostEqual(math.sqrt(sum(squares) / 3), spread, delta=0.01)

    def test_two_nodes_are_given_back(self):
        platform = self.take("xe9680")
        self.assertLess(max(map(abs, self.errors(platform, "xe9680", 2))), 2e-3)
        half = self.write("half.yaml", platform.read_text(encoding="utf-8").replace(
            "\nnccl:", "\nnetwork: {nic: {bandwidth: {value: 200 Gb/s, source: x, kind: assumed}}}\n\nnccl:"))
        self.assertGreater(self.errors(half, "xe9680", 2)[-1], math.log(1.5))  # what if: half the network

    def test_other_numbers_of_nodes_are_said_and_doubted(self):
        platform, widths = self.take("xe9680"), []
        text = support.JOB
        for old, new in (("platform: abci", f"platform: {platform}"), ("torus2d, grid: {columns: 4, rows: 4}", "nccl"),
                         ("overlap: backward", "overlap: none"), ("resnet50", "vgg16"), ("batch_per_device: 32", "batch_per_device: 1"),
                         ("devices_per_node: 4", "devices_per_node: 8")):
            text = text.replace(old, new)
        job = self.write("job.yaml", text)
        for nodes in (2, 64):
            told = answer("predict", job, "--backend", "analytic", "--nodes", nodes, "--set", "baseline.nodes=1")
            said = [line for line in told["warnings"] if "were fitted on 2 nodes" in line]
            self.assertEqual(len(said), nodes == 64)
            low, high = support.likely(told, "step_s")
            widths.append(high / low)
        self.assertIn("of 64 nodes are extrapolated", said[0])
        self.assertGreater(widths[1], 1.05 * widths[0])

    def test_what_is_no_measurement_of_nccl_is_refused(self):
        path = self.write("bad.yaml", "extends: dgx-h100\nversion: 1\nname: bad\ndescription: x\nkind: cluster\nnccl: "
                          "{corrections: [{protocol: LL, transfer: 1 us, factor: 90 %}]}\n")
        self.assertIn("needs the key 'nccl.measured_nodes'", self.refused(65, "check", path))
        table = self.write("table.txt", log(rows_of("xe9680", 2)))
        self.assertIn("RCCL", self.refused(65, "import", "nccl-tests", table, "--platform", "nd-mi300x-v5"))
        self.assertEqual(run("import", "nccl-tests", table, "--platform", "dgx-h200").returncode, 0)
