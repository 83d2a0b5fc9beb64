#!/usr/bin/python3
"""`import`: files of the kinds that people report, with the right answer of each.

tests/data/import/README.md says where they are from.  A row is a file, the command, and what must be in its
result, its lines and its platform; or the exit code and words of a refusal.
"""
import unittest

import import_data
import support
from support import answer

DATA = import_data.made() / "found"
READS = "has no Python to read" if answer("env")["foretrain-read"]["found"] is None else ""


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

    def test_all_reduces(self):
        ring = {"bus_bandwidth_bytes_per_s": 20e9, "message_latency_s": 5e-6}
        eight = {**ring, "ranks": 8, "nodes": 4}
        for name, result, *lines in (
                ("T1_old_error_column.log", eight, "28 sizes of 8 to"),
                ("T1b_old_error_column_partly.log", eight, "28 sizes of 8 to", "!sizes left out"),
                ("T5_tag_output.log", eight), ("T5b_srun_label.log", eight),
                ("T6_all_tests_one_log.log", {**ring, "ranks": 2, "nodes": 1}, "2 tables of other programs left out"),
                ("T11_all_types.log", {**ring, "ranks": 8, "nodes": 1}, "24 sizes")):
            self.right("nccl-tests", name, result=result, lines=lines)

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

    def test_two_ranks_tell_nothing_by_their_factor(self):
        for program, head, values, text in (
                ("nThread 1", "redop root", "none 0", "redop is none"), ("nThread 1", "redop root", "sum 0", "root, 0"),
                ("Collective test starting: sendrecv_perf", "redop root", "sum -1", "sendrecv_perf")):
            self.assertIn(text, self.refused(65, "import", "nccl-tests", self.log("a.log", (program, head, values, 1))))
        told = answer("import", "nccl-tests", self.log("a.log", ("nThread 1", "redop root", "sum -1", 1)))
        self.assertIn("nothing names the program", told["assumed"][0])

    def test_runs_of_one_log(self):
        run = ("all_reduce_perf", "redop root", "sum -1", 2 * 63 / 64)
        told = answer("import", "nccl-tests", self.log("a.log", run, run, ranks=64, hosts=8))
        self.assertEqual((told["result"]["ranks"], told["result"]["nodes"]), (64, 8))
        self.assertIn("2 outputs of all_reduce_perf with these ranks, taken together", told["understood"])
        text = self.log("a.log", run, ranks=64, hosts=8).read_text() + self.log(
            "b.log", ("all_reduce_perf", "redop root", "sum -1", 2 * 31 / 32), ranks=32, hosts=4).read_text()
        both = self.write("both.log", text)
        self.assertIn("64 on 8, 32 on 4", self.refused(65, "import", "nccl-tests", both))
        told = answer("import", "nccl-tests", both, "--ranks", "32")
        self.assertEqual((told["result"]["ranks"], told["result"]["nodes"]), (32, 4))
        path = self.write("same.log", self.log("a.log", run, ranks=64, hosts=8).read_text().replace("host1", "host0"))
        self.assertIn("say --nodes N", self.refused(65, "import", "nccl-tests", path))

    def test_osu(self):
        for name in ("O3_osu_iallreduce.log", "O3b_osu_allreduce.log"):
            self.right("osu", name, ("--ranks", "4"), {"bus_bandwidth_bytes_per_s": 10e9, "message_latency_s": 3e-6})
        self.wrong("osu", "O1_osu_alltoall.log", "there is 'OSU MPI All-to-All Personalized Exchange Latency Test'")
        self.wrong("osu", "O5_escaped_hash.log", ":4: ", "begin with #")
        for title in ("MPI Broadcast Latency", "MPI_Put Latency", "MPI Multi-threaded Latency", "MPI Neighbor_alltoall Latency",
                      "MPI Bi-Directional Bandwidth", "MPI Non-blocking Broadcast Latency", "MPI Reduce_scatter Latency"):
            path = self.write("other.log", import_data.osu(f"OSU {title} Test", "Avg Latency(us)", lambda size: 2 + size / 1e4))
            self.assertIn(f"there is 'OSU {title} Test'", self.refused(65, "import", "osu", path))

    def test_a_bandwidth_that_falls_is_not_its_best(self):
        rate = import_data.osu("OSU MPI-CUDA Bandwidth Test", "   Bandwidth (MB/s)",
                               lambda size: 9510 * size / (size + 2000) if size < 1 << 18 else 4040)
        told = answer("import", "osu", self.write("bw.log", rate))
        self.assertLess(told["result"]["bandwidth_bytes_per_s"], 5e9)
        self.assertGreater(told["result"]["spread"], 0.1)
        self.assertTrue(any("falls to 4.04" in line for line in told["understood"]))


if __name__ == "__main__":
    unittest.main()
