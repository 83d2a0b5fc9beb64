"""Runs that fail and go on, against closed forms and runs played event by event here.

Usage: test_failures.py EXAMPLE
"""
import math
import random
import sys
import unittest

import harness

EXAMPLE = sys.argv.pop(1)
MINUTE, HOUR = 60, 3600


def ask(mtbf, cost, restart, interval, work, draws=0):
    """What the program says: Young's and Daly's interval, checkpoints, mean, and the draws."""
    words = [EXAMPLE, *(repr(float(x)) for x in (mtbf, cost, restart, interval, work)), str(draws)]
    numbers = [float(line) for line in harness.execute(*words).stdout.split()]
    return (*numbers[:4], numbers[4:])


def play(mtbf, cost, restart, interval, work, rng):
    """One run on a clock: what is being done, until when, and when the next failure comes."""
    clock, saved, fails = 0.0, 0.0, rng.expovariate(1 / mtbf)
    while saved < work * (1 - 1e-12):
        part = min(interval or work, work - saved)
        end = clock + part + cost
        while fails < end:
            clock, fails = fails, fails + rng.expovariate(1 / mtbf)
            while fails < clock + restart:  # a restart fails, too
                clock, fails = fails, fails + rng.expovariate(1 / mtbf)
            clock += restart
            end = clock + part + cost
        clock, saved = end, saved + part
    return clock


def mean_of_stretch(mtbf, cost, restart, part):
    """Waiting until `part + cost` seconds pass without a failure: the renewal equation solved."""
    length = part + cost
    return mtbf * math.exp(restart / mtbf) * (math.exp(length / mtbf) - 1)


def farthest(one, other):
    """The statistic of Kolmogorov and Smirnov for two samples."""
    one, other, i, k, most = sorted(one), sorted(other), 0, 0, 0.0
    while i < len(one) and k < len(other):
        value = min(one[i], other[k])
        while i < len(one) and one[i] == value:
            i += 1
        while k < len(other) and other[k] == value:
            k += 1
        most = max(most, abs(i / len(one) - k / len(other)))
    return most


# mtbf, cost, restart, interval, work
CASES = [
    (24 * HOUR, 5 * MINUTE, 10 * MINUTE, 117 * MINUTE, 100 * HOUR),  # a few failures
    (6 * HOUR, 5 * MINUTE, 10 * MINUTE, 57 * MINUTE, 500 * HOUR),    # many
    (15 * MINUTE, 5 * MINUTE, 10 * MINUTE, 9 * MINUTE, 5 * HOUR),    # hardly forward
    (1000.0, 10, 2000, 300, 2000),                                   # restarts that mostly fail
    (HOUR, 30, 60, 0, 2 * HOUR),                                     # saved at the end alone
    (1e6, 1, 1, 100, 950),                                           # hardly any failure
]


class Failures(unittest.TestCase):
    """core/report/toll.h"""

    def test_the_best_intervals_are_those_of_the_paper(self):
        """Captions of figures 3 to 5 of Daly 2006: mtbf and best interval, cost 5 minutes."""
        for mtbf, minutes, digits in ((24 * HOUR, 117, 0), (6 * HOUR, 57, 0), (15 * MINUTE, 9.1, 1)):
            young, daly, *_ = ask(mtbf, 5 * MINUTE, 0, 1, 1)
            self.assertEqual(round(daly / MINUTE, digits), minutes)
            self.assertAlmostEqual(young, math.sqrt(2 * 5 * MINUTE * mtbf))

    def test_no_other_interval_is_much_better(self):
        """By a search over the mean per second of work."""
        for cost in (1e-6, 1e-3, 0.01, 0.1, 0.5, 1.0, 1.9):
            def rate(interval, cost=cost):
                return math.expm1(interval + cost) / interval
            low, high = 1e-9, 20.0
            for _ in range(200):
                a, b = low + (high - low) * 0.382, low + (high - low) * 0.618
                low, high = (low, b) if rate(a) < rate(b) else (a, high)
            _, daly, *_ = ask(1, cost, 0, 1, 1)
            self.assertLess(rate(daly) / rate(low) - 1, 2e-5 if cost <= 0.5 else 2e-3, cost)
        self.assertEqual(ask(100, 200, 0, 1, 1)[1], 100)
        self.assertEqual(ask(100, 1000, 0, 1, 1)[1], 100)

    def test_the_mean_is_the_closed_form(self):
        for mtbf, cost, restart, interval, work in CASES:
            parts = [work]
            if interval:
                whole = int(work // interval)
                parts = [interval] * whole + [work - whole * interval] * (work > whole * interval)
            _, _, checkpoints, mean, _ = ask(mtbf, cost, restart, interval, work)
            self.assertEqual(checkpoints, len(parts))
            self.assertAlmostEqual(
                mean / sum(mean_of_stretch(mtbf, cost, restart, part) for part in parts), 1, places=6)

    def test_draws_are_spread_as_runs_played_event_by_event(self):
        """Means within 4 standard errors; distributions by Kolmogorov and Smirnov at 0.1 %."""
        count = 4000
        for case in CASES:
            *_, mean, draws = ask(*case, count)
            rng = random.Random(7)
            played = [play(*case, rng) for _ in range(count)]
            for sample in (draws, played):
                average = sum(sample) / count
                error = math.sqrt(sum((x - average) ** 2 for x in sample) / (count - 1) / count)
                self.assertLess(abs(average - mean), 4 * error + 1e-9 * mean, case)
            self.assertLess(farthest(draws, played), 1.95 * math.sqrt(2 / count), case)

    def test_sums_drawn_together_are_spread_as_others(self):
        """Many failing stretches, and one that fails thousands of times."""
        count = 400
        for case in ((100.0, 5, 10, 50, 150000), (100.0, 5, 10, 0, 800)):
            *_, mean, draws = ask(*case, count)
            rng = random.Random(3)
            played = [play(*case, rng) for _ in range(count)]
            self.assertLess(farthest(draws, played), 1.95 * math.sqrt(2 / count), case)
            error = math.sqrt(sum((x - mean) ** 2 for x in draws) / count / count)
            self.assertLess(abs(sum(draws) / count - mean), 4 * error, case)

    def test_without_failures_only_checkpoints_cost(self):
        _, _, checkpoints, mean, draws = ask(math.inf, 10, 5, 100, 1000, 3)
        self.assertEqual((checkpoints, mean, draws), (10, 1100, [1100] * 3))
        self.assertEqual(ask(math.inf, 10, 5, 0, 1000)[2:4], (1, 1010))

    def test_what_never_ends_says_so(self):
        *_, mean, draws = ask(1, 1, 1, 0, 2000, 3)
        self.assertEqual((mean, draws), (math.inf, [1e12] * 3))
        *_, mean, draws = ask(1, 1, 1, 0, 100, 3)
        self.assertGreater(mean, 1e12)
        self.assertEqual(draws, [1e12] * 3)
