"""What the transport nccl calls, and what comes of it.

test_comm_nccl.py TEST_COMM_NCCL"""

import re
import subprocess
import sys

import harness

PROGRAM = sys.argv.pop(1)


def run(ranks, *words):
    done = harness.execute(*harness.on_ranks(ranks, PROGRAM, *words), stderr=subprocess.STDOUT)
    # But for what is tried with captures when it is opened.
    return done.returncode, re.sub(r"^all-reduce \S+ 1 fp32 .*\n", "", done.stdout, flags=re.MULTILINE)


class CommNccl(harness.Case):
    def calls(self, columns, rows, *buckets):
        """What each rank calls, without what is the same for all: the lines between opening and
        closing."""
        code, output = run(columns * rows, "calls", columns, rows, *buckets)
        self.assertEqual(code, 0, output)
        parts = re.split(r"^rank (\d+)\n", output, flags=re.MULTILINE)
        ranks = {int(parts[i]): parts[i + 1].splitlines() for i in range(1, len(parts), 2)}
        self.assertEqual(sorted(ranks), list(range(columns * rows)))
        return ranks

    def test_one_rank_exchanges_nothing(self):
        self.assertEqual(self.calls(1, 1, 10)[0],
                         ["id", "init 0 of 1", "register {0} 5200 @0", "deregister {0} @0",
                          "finalize {0}"])

    def test_one_row_is_the_world(self):
        ranks = self.calls(2, 1, 11)
        self.assertEqual(ranks[0], [
            "id", "init 0 of 2", "register {0,1} 5200 @0",
            "all-reduce {0,1} 11 fp16 @0>@0",
            "reduce-scatter {0,1} 64 fp16 @0>@0", "all-gather {0,1} 64 fp16 @0>@0",
            "deregister {0,1} @0", "finalize {0,1}"])
        self.assertEqual(ranks[1][0], "init 1 of 2")
        self.assertEqual(ranks[1][3:5], ["reduce-scatter {0,1} 64 fp16 @0>@64",
                                         "all-gather {0,1} 64 fp16 @64>@0"])

    def test_a_limit_of_thread_blocks_is_that_of_the_job_and_its_parts(self):
        for rank, lines in self.calls(2, 2, 8, 0, 12).items():
            self.assertEqual(lines[lines.index(f"init {rank} of 4") + 1], "at most 12 CTAs")
            self.assertEqual(sum(" CTAs" in line for line in lines), 1)
        self.assertFalse(any(" CTAs" in line for line in self.calls(2, 1, 8)[0]))

    def test_one_column_is_the_world(self):
        for rank, lines in self.calls(1, 2, 11).items():
            start = ["id"] if rank == 0 else []
            self.assertEqual(lines, start + [
                f"init {rank} of 2", "register {0,1} 5200 @0", "all-reduce {0,1} 11 fp16 @0>@0",
                "all-reduce {0,1} 64 fp16 @0>@0", "deregister {0,1} @0", "finalize {0,1}"])

    def test_a_square_splits_rows_and_columns(self):
        self.assertEqual(self.calls(2, 2, 8)[3], [
            "init 3 of 4", "split {2,3}", "split {1,3}",
            "register {0,1,2,3} 5200 @0", "register {2,3} 5200 @0", "register {1,3} 5200 @0",
            "all-reduce {0,1,2,3} 8 fp16 @0>@0",
            "reduce-scatter {2,3} 64 fp16 @0>@64",
            "all-reduce {1,3} 64 fp16 @64>@64",
            "all-gather {2,3} 64 fp16 @64>@0",
            "deregister {0,1,2,3} @0", "deregister {2,3} @0", "deregister {1,3} @0",
            "finalize {1,3}", "finalize {2,3}", "finalize {0,1,2,3}"])

    def test_blocks_of_a_row_are_equal_and_aligned_also_of_sizes_that_are_not(self):
        ranks = self.calls(3, 2, 333, 667)
        for rank, lines in ranks.items():
            row, column = rank // 3, rank % 3
            members = "{%d,%d,%d}" % tuple(3 * row + i for i in range(3))
            across = "{%d,%d}" % (column, column + 3)
            first, second = 64 * column, 192 + 320 * column
            begin = lines.index("all-reduce {0,1,2,3,4,5} 333 fp16 @0>@0")
            self.assertEqual(lines[begin + 1:begin + 8], [
                f"reduce-scatter {members} 64 fp16 @0>@{first}",
                f"all-reduce {across} 64 fp16 @{first}>@{first}",
                f"all-gather {members} 64 fp16 @{first}>@0",
                f"reduce-scatter {members} 320 fp16 @192>@{second}",
                f"all-reduce {across} 320 fp16 @{second}>@{second}",
                f"all-gather {members} 320 fp16 @{second}>@192",
                "deregister {0,1,2,3,4,5} @0"])

    def test_fewer_numbers_than_a_row_aligns_go_with_the_next_bucket(self):
        lines = self.calls(3, 1, 2, 600)[1]
        self.assertEqual(lines[2:5], ["all-reduce {0,1,2} 2 fp16 @0>@0",
                                      "reduce-scatter {0,1,2} 256 fp16 @0>@256",
                                      "all-gather {0,1,2} 256 fp16 @256>@0"])

    def test_sums_are_exact(self):
        for columns, rows in (1, 1), (2, 1), (1, 2), (2, 2), (3, 2):
            code, output = run(columns * rows, "exact", columns, rows)
            self.assertEqual(code, 0, output)

    def test_communicators_block_where_others_cannot_be_captured(self):
        code, output = run(4, "blocking", 2, 2)
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("they block from now on\n"), 1, output)
        self.assertEqual(output.count("abort {0,1,2,3}\n"), 4, output)

    def test_ranks_beyond_the_grid_take_no_part(self):
        code, output = run(3, "calls", 2, 1, 0)
        self.assertEqual(code, 0, output)
        self.assertIn("rank 1\ninit 1 of 3\nsplit {0,1}\nregister ", output)
        self.assertIn("rank 2\ninit 2 of 3\nsplit: not in\nregister ", output)
        self.assertIn("rows of 2 ranks span machines with 3", output)

    def test_a_failure_names_rank_and_place(self):
        code, output = run(4, "broken", 2, 2)
        self.assertEqual(code, 71, output)
        self.assertRegex(output, r"foretrain-exec: rank 1 of 4 \(host \S+, pid \d+\), step 7 bucket "
                                 r"3: NCCL: while the GPU worked: remote process exited or there "
                                 r"was a network error: the cable was cut\n")
        self.assertEqual(output.count("rank 1 of 4"), 1)
        for members in "{0,1,2,3}", "{0,1}", "{1,3}":
            self.assertIn(f"abort {members}", output)

    def test_algorithms_that_nccl_cannot_be_told_are_refused(self):
        code, output = run(1, "check")
        self.assertEqual(code, 0, output)
        for name in "tree", "halving-doubling", "hierarchical", "mpi":
            self.assertIn(f"NCCL cannot be told to exchange by algorithm {name}: ", output)
        self.assertIn("--device cuda: ", output)
