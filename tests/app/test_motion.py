#!/usr/bin/python3
"""Pages of show collective --animate: what they hold, played in Python."""
import re
import unittest

import page
from support import Case, good, run


def play(ranks, algorithm):
    """What each rank holds of each chunk at the end, as sets of ranks."""
    held = [[{rank}] * ranks for rank in range(ranks)]
    for one in algorithm["rounds"]:
        after = [list(row) for row in held]
        for sender, receiver, offset, count, adds in one["messages"]:
            for i in range(offset, offset + count):
                after[receiver][i] = held[sender][i] | (after[receiver][i] if adds else set())
        held = after
    return held


class Whole(Case):
    """Whole pages."""

    def written(self, *words):
        """The page, and the last line that is printed."""
        path = self.directory / "motion.html"
        said = good("show", "collective", "--animate", path, *words).stdout
        return page.read(self, path), said


class Motion(Whole):
    """Of few ranks."""

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


def ring(ranks, rounds):
    """How many summands each rank has of each chunk after so many rounds of a ring (Patarasuk and Yuan 2009)."""
    held = [[1] * ranks for _ in range(ranks)]
    for k in range(rounds):
        sent = [(rank, (rank - 1 - k) % ranks) for rank in range(ranks)]
        for (rank, chunk), count in zip(sent, [held[rank][chunk] for rank, chunk in sent]):
            to = held[(rank + 1) % ranks]
            to[chunk] = count + (to[chunk] if k < ranks - 1 else 0)
    return held


def letters(row, ranks):
    """As the text has them."""
    cells = [row[cell * ranks // 64:(cell + 1) * ranks // 64] for cell in range(64)]
    return "".join("#" if set(cell) == {ranks} else "*" if ranks in cell else "." if set(cell) == {1} else "+" for cell in cells)


class Folded(Whole):
    """More than 64 ranks."""

    WORDS = ("--ranks=130", "--platform=t1-ring", "--bytes=130MB")

    def test_a_few_ranks_are_shown_as_they_are(self):
        ranks, (shown, _) = 130, self.written(*self.WORDS)
        data = shown.data()
        self.assertEqual(data["shown"], [13 * row + column for row in (0, 1, 2, 9) for column in (0, 1, 2, 12)])
        algorithm = data["algorithms"][0]
        self.assertEqual([(one["first"], one["last"]) for one in algorithm["rounds"]],
                         [(0, 0), (1, 128), (129, 129), (130, 257)])
        for states, rounds in ((algorithm["start"], 0), *((one["states"], one["last"] + 1) for one in algorithm["rounds"])):
            self.assertEqual(states, [letters(ring(ranks, rounds)[rank], ranks) for rank in data["shown"]])
        for other in data["algorithms"]:
            self.assertEqual(set("".join(other["rounds"][-1]["states"])), {"#"}, other["name"])
        for i, k, *_ in algorithm["rounds"][0]["messages"]:
            self.assertEqual((data["shown"][i] + 1) % ranks, data["shown"][k])

    def test_sums_are_of_all_ranks_and_rounds(self):
        said = run("show", "collective", "--text", *self.WORDS).stdout
        size = 130_000_000 / 130
        self.assertIn(f"all rounds, each as long as its slowest message: {258 * (5e-6 + size / 25e9) * 1e3:.4g} ms\n", said)
        self.assertRegex(said, r"link: at most 258 MB, on rank\d+\.row\.next and 129 more, which at full bandwidth takes "
                         f"{258 * size / 25e9 * 1e3:.4g} ms\n")
        for own, some, whole in re.findall(r"of 16900 chunks on all ranks: (\d+) each its own, (\d+) sums of some, (\d+) of all", said):
            self.assertEqual(int(own) + int(some) + int(whole), 130 ** 2)

    def test_every_message_is_counted(self):
        for words, messages in ((("--ranks=130",), 2 * 129 * 130), (("--ranks=100", "--algorithm=tree"), 2 * 99),
                                (("--grid=20x5", "--algorithm=torus2d"), 2 * 19 * 100 + 2 * 4 * 100)):
            count, alike, last = 0, 0, -1
            for line in run("show", "collective", *words).stdout.splitlines()[1:]:
                if found := re.match(r"round (\d+), [^;]*(?:; so are rounds \d+ ... (\d+),.*)?$", line):
                    self.assertEqual(int(found[1]), last + 1)
                    last = int(found[2] or found[1])
                    alike = last - int(found[1]) + 1
                elif found := re.match(r"  and (\d+) ranks? more, each to the rank \d+ (?:behind|before)$", line):
                    count += alike * int(found[1])
                elif re.match(r"  \d+ -> \d+  elements", line):
                    count += alike
            self.assertEqual(count, messages, words)


if __name__ == "__main__":
    unittest.main()
