"""Pages of show collective --animate: what they hold, played in Python."""
import re

import page
from support import Case, good


def play(ranks, algorithm, held=None):
    """What each rank holds of each block at the end, as sets of ranks."""
    held = held or [[{rank}] * ranks for rank in range(ranks)]
    for one in algorithm["rounds"]:
        after = [list(row) for row in held]
        for sender, receiver, offset, count, adds in one["messages"]:
            for i in range(offset, offset + count):
                after[receiver][i] = held[sender][i] | (after[receiver][i] if adds else set())
        held = after
    return held


class Motion(Case):
    """Whole pages."""

    def written(self, *words):
        """The page, and the last line that is printed."""
        path = self.directory / "motion.html"
        said = good("show", "collective", "--animate", path, *words).stdout
        return page.read(self, path), said

    def test_every_algorithm_ends_with_the_sum_of_all_on_all_ranks(self):
        for words, ranks in ((("--algorithm=torus2d", "--grid=4x2"), 8), (("--ranks=6",), 6),
                             (("--algorithm=double-tree", "--ranks=5"), 5), (("--ranks=1",), 1)):
            data = self.written(*words)[0].data()
            self.assertEqual(data["columns"] * data["rows"], ranks)
            names = [algorithm["name"] for algorithm in data["algorithms"]]
            self.assertEqual(len(set(names)), len(names))
            self.assertLessEqual({"ring", "tree", "halving-doubling", "hierarchical", "torus2d"}, set(names))
            for algorithm in data["algorithms"]:
                for row in play(ranks, algorithm):
                    self.assertEqual(row, [set(range(ranks))] * ranks, algorithm["name"])

    def test_half_an_all_reduce(self):
        """A rank ends a reduce-scatter with the sum of its block, and begins an all-gather with it."""
        every = set(range(6))
        for op, held in (("reduce-scatter", None), ("all-gather", [[every if i == rank else set() for i in range(6)] for rank in range(6)])):
            data = self.written("--op", op, "--ranks=6")[0].data()
            self.assertEqual((data["op"], [one["name"] for one in data["algorithms"]][:2]), (op, ["ring", "halving-doubling-far"]))
            for algorithm in data["algorithms"]:
                for rank, row in enumerate(play(6, algorithm, held)):
                    self.assertEqual(row[rank], every, algorithm["name"])
                    self.assertTrue(op == "reduce-scatter" or row == [every] * 6, algorithm["name"])
        self.refused(64, "show", "collective", "--op=all-gather", "--algorithm=double-tree")

    def test_times_are_those_of_the_text(self):
        words = "--algorithm=torus2d", "--platform=torus-4x4", "--grid=4x4", "--bytes=1MB"
        shown, said = self.written(*words, "--text")
        data = shown.data()
        self.assertEqual(data["algorithms"][0]["name"], "torus2d")
        times = [one["seconds"] for one in data["algorithms"][0]["rounds"]]
        told, = re.findall(r"all rounds, each as long as its slowest message: (.*)", said)
        self.assertTrue(page.says(told, sum(times)), (told, sum(times)))
        phases = [one["phase"] for one in data["algorithms"][0]["rounds"]]
        self.assertEqual(phases, [*["reduce-scatter in rows"] * 3, *["all-reduce in columns"] * 6,
                                  *["all-gather in rows"] * 3])
        self.assertIn(told, shown.words("pre")[0])

    def test_the_largest_page_is_small_enough(self):
        data = self.written("--grid=8x8", "--algorithm=halving-doubling-far")[0].data()
        self.assertEqual(len(data["algorithms"]), 6)
