#!/usr/bin/python3
"""Recompute tests/golden/results.csv and print what moved: the commit says why.

Usage: FORETRAIN=build/foretrain tools/update_golden.py
"""
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "golden")]

import golden  # noqa: E402


def main():
    """Write the table."""
    if "sim" not in golden.backends():
        sys.exit("this build has no simulator: its rows would be lost")
    before = {(row["scenario"], row["backend"]): row for row in golden.read()} \
        if golden.TABLE.exists() else {}
    rows = [golden.compute(scenario, backend) for scenario in golden.scenarios()
            for backend in ("analytic", "sim")]
    golden.write(rows)
    for row in golden.read():
        old = before.get((row["scenario"], row["backend"]))
        moved = [column for column in golden.WORDS + golden.NUMBERS
                 if not old or old[column] != row[column]]
        for column in moved:
            print(row["scenario"], row["backend"], column,
                  f"{old[column] if old else 'new'} -> {row[column]}")


if __name__ == "__main__":
    main()
