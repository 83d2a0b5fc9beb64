#!/usr/bin/python3
"""What the transport nccl calls, and what comes of it.

test_comm_nccl.py TEST_COMM_NCCL START_RANKS"""

import re
import subprocess
import sys
import time
import unittest

PROGRAM = ""
START_RANKS = ""


def run(ranks, *words):
    done = subprocess.run([START_RANKS, str(ranks), PROGRAM, *map(str, words)], timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                          check=False)
    return done.returncode, done.stdout


class CommNccl(unittest.TestCase):
    def calls(self, columns, rows, elements):
        """What each rank calls, without what is the same for all: the lines between opening and
        closing."""
        code, output = run(columns * rows, "calls", columns, rows, elements)
        self.assertEqual(code, 0, output)
        parts = re.split(r"^rank (\d+)\n", output, flags=re.MULTILINE)
        ranks = {int(parts[i]): parts[i + 1].splitlines() for i in range(1, len(parts), 2)}
        self.assertEqual(sorted(ranks), list(range(columns * rows)))
        return ranks

    def test_one_rank_exchanges_nothing(self):
        self.assertEqual(self.calls(1, 1, 10)[0],
                         ["id", "init 0 of 1", "register {0} 20 @0", "deregister {0} @0",
                          "finalize {0}"])

    def test_one_row_is_the_world(self):
        ranks = self.calls(2, 1, 11)
        self.assertEqual(ranks[0], [
            "id", "init 0 of 2", "register {0,1} 22 @0",
            "all-reduce {0,1} 11 fp16 @0>@0",
            "group", "  reduce-scatter {0,1} 5 fp16 @0>@0", "  reduce {0,1} 1 fp16 @10>@10 root 1",
            "group", "  all-gather {0,1} 5 fp16 @0>@0", "  broadcast {0,1} 1 fp16 @10>@10 root 1",
            "deregister {0,1} @0", "finalize {0,1}"])
        self.assertEqual(ranks[1][0], "init 1 of 2")
        self.assertEqual(ranks[1][4:6], ["  reduce-scatter {0,1} 5 fp16 @0>@5",
                                         "  reduce {0,1} 1 fp16 @10>@10 root 1"])
        self.assertEqual(ranks[1][7], "  all-gather {0,1} 5 fp16 @5>@0")

    def test_one_column_is_the_world(self):
        for rank, lines in self.calls(1, 2, 11).items():
            start = ["id"] if rank == 0 else []
            self.assertEqual(lines, start + [
                f"init {rank} of 2", "register {0,1} 22 @0", "all-reduce {0,1} 11 fp16 @0>@0",
                "all-reduce {0,1} 11 fp16 @0>@0", "deregister {0,1} @0", "finalize {0,1}"])

    def test_a_square_splits_rows_and_columns(self):
        self.assertEqual(self.calls(2, 2, 8)[3], [
            "init 3 of 4", "split {2,3}", "split {1,3}",
            "register {0,1,2,3} 16 @0", "register {2,3} 16 @0", "register {1,3} 16 @0",
            "all-reduce {0,1,2,3} 8 fp16 @0>@0",
            "reduce-scatter {2,3} 4 fp16 @0>@4",
            "all-reduce {1,3} 4 fp16 @4>@4",
            "all-gather {2,3} 4 fp16 @4>@0",
            "deregister {0,1,2,3} @0", "deregister {2,3} @0", "deregister {1,3} @0",
            "finalize {1,3}", "finalize {2,3}", "finalize {0,1,2,3}"])

    def test_the_last_of_a_row_has_the_rest(self):
        ranks = self.calls(3, 2, 20)
        for rank, lines in ranks.items():
            row, column = rank // 3, rank % 3
            members = "{%d,%d,%d}" % tuple(3 * row + i for i in range(3))
            across = "{%d,%d}" % (column, column + 3)
            own, count = 6 * column, 8 if column == 2 else 6
            begin = lines.index("group")
            self.assertEqual(lines[begin:begin + 7], [
                "group", f"  reduce-scatter {members} 6 fp16 @0>@{own}",
                f"  reduce {members} 2 fp16 @18>@18 root 2",
                f"all-reduce {across} {count} fp16 @{own}>@{own}",
                "group", f"  all-gather {members} 6 fp16 @{own}>@0",
                f"  broadcast {members} 2 fp16 @18>@18 root 2"])

    def test_fewer_numbers_than_columns_are_all_rest(self):
        lines = self.calls(3, 1, 2)[1]
        self.assertEqual(lines[3:5], ["reduce {0,1,2} 2 fp16 @0>@0 root 2",
                                      "broadcast {0,1,2} 2 fp16 @0>@0 root 2"])

    def test_means_are_exact(self):
        for columns, rows in (1, 1), (2, 1), (1, 2), (2, 2), (3, 2):
            code, output = run(columns * rows, "exact", columns, rows)
            self.assertEqual(code, 0, output)

    def test_ranks_beyond_the_grid_take_no_part(self):
        code, output = run(3, "calls", 2, 1, 0)
        self.assertEqual(code, 0, output)
        self.assertIn("rank 1\ninit 1 of 3\nsplit {0,1}\nregister ", output)
        self.assertIn("rank 2\ninit 2 of 3\nsplit: not in\nregister ", output)
        self.assertIn("rows of 2 ranks span machines with 3", output)

    def test_a_failure_names_rank_and_place(self):
        begin = time.monotonic()
        code, output = run(4, "broken", 2, 2)
        self.assertEqual(code, 71, output)
        self.assertLess(time.monotonic() - begin, 15)
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


if __name__ == "__main__":
    PROGRAM, START_RANKS = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main(verbosity=2)
