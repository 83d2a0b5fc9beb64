#!/usr/bin/python3
"""All-reduces of the executor beside Open MPI's own, on this machine.

usage: all_reduce.py PROGRAM [--repeats N] [--check RATIO]

PROGRAM is all_reduce_time.  All methods take turns in the same processes; figures are medians, and
the ratio is the best of Open MPI's medians over ours: 1 is as fast, more is faster.  With --check
the exit status is 1 when a ratio of torus2d is below RATIO.
"""
import argparse
import collections
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

MPIRUN = pathlib.Path(__file__).resolve().parents[1] / "exec" / "mpirun.py"
GRIDS = ((2, 1), (2, 2))
SIZES = (64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
CHECKED = 1 << 20  # below it, a message is mostly latency


def measure(program, columns, rows, repeats):
    """Times in seconds by size and method."""
    environment = dict(os.environ, OMPI_MCA_coll_tuned_use_dynamic_rules="1")
    command = [sys.executable, MPIRUN, columns * rows, program, columns, rows, repeats, *SIZES]
    done = subprocess.run([*map(str, command)], env=environment, check=False, encoding="utf-8",
                          stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(done.returncode)
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in done.stdout.splitlines():
        size, method, seconds = line.split()
        times[int(size)][method].append(float(seconds))
    return times


def report(size, times):
    """Print the medians of one size.  Returns the ratio of torus2d."""
    medians = {method: statistics.median(values) for method, values in times.items()}
    best = min(value for method, value in medians.items() if method.startswith("mpi:"))
    print(f"\n{size / 2**20:g} MB")
    for method, median in medians.items():
        ratio = "" if method.startswith("mpi:") else f"  {best / median:5.2f} of the best of MPI"
        print(f"  {method:24} {median * 1e3:9.3f} ms, best {min(times[method]) * 1e3:9.3f}{ratio}")
    return best / medians["torus2d"]


def main():
    """Measure both grids."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--check", type=float)
    arguments = parser.parse_args()
    if not shutil.which("mpirun"):
        print("mpirun (package openmpi-bin) is not installed")
        sys.exit(77)
    slow = []
    for columns, rows in GRIDS:
        print(f"\n{columns * rows} ranks as {columns} x {rows}")
        for size, times in measure(arguments.program, columns, rows, arguments.repeats).items():
            ratio = report(size, times)
            if size >= CHECKED and arguments.check and ratio < arguments.check:
                slow.append(f"{columns} x {rows}, {size / 2**20:g} MB: {ratio:.2f}")
    if slow:
        print(f"\nbelow {arguments.check} of Open MPI:", *slow, sep="\n  ")
    sys.exit(bool(slow))


if __name__ == "__main__":
    main()
