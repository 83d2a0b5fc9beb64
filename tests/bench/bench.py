#!/usr/bin/python3
"""CPU time and memory of predictions by number of GPUs, and how they grow.

Figures are of the whole process tree (user and system time; the largest process), so other work on
the machine hardly shows.  `bench.py --budget` checks the budgets of large jobs instead: at most
1 second and 300 MB for a whole prediction, and the all-reduces of a 4096-rank torus and ring.
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("FORETRAIN", str(ROOT / "build" / "foretrain"))
JOB = ROOT / "experiments" / "01_sony_abci" / "v1-1088.yaml"


def measure(*words):
    """Run foretrain.  Returns (CPU seconds, megabytes, JSON answer)."""
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen([PROGRAM, *map(str, words), "--json"], stdout=output) as child:
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"{' '.join(map(str, words))}: exit status {child.returncode}")
        output.seek(0)
        return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, json.load(output)


def predict(columns, rows, *more):
    """A whole prediction for a grid of GPUs, two phases and the baseline."""
    nodes = columns * rows // 4
    platform = [] if nodes <= 1088 else ["--set", "cluster.platform=generic-fat-tree",
                                         "--set", "cluster.devices_per_node=8"]
    nodes = nodes if nodes <= 1088 else nodes // 2
    return measure("predict", JOB, *platform, "--set", f"cluster.nodes={nodes}",
                   "--set", f"allreduce.grid.columns={columns}",
                   "--set", f"allreduce.grid.rows={rows}", *more)


def all_reduce(columns, rows, grain, algorithm="torus2d", platform="t1-torus"):
    """One all-reduce of 100 MB."""
    return measure("collective", "--platform", platform, "--grid", f"{columns}x{rows}",
                   "--algorithm", algorithm, "--bytes", "100MB", "--backend", "sim",
                   "--grain", grain)


def print_growth(title, points):
    """A table, then the exponent of time over the last factor of sizes."""
    print(f"\n{title}\n{'GPUs':>8} {'CPU s':>8} {'MB':>7}")
    for size, (seconds, megabytes, _) in points:
        print(f"{size:8d} {seconds:8.2f} {megabytes:7.1f}")
    (low, (first, _, _)), (high, (last, _, _)) = points[-3], points[-1]
    exponent = math.log(max(last, 0.01) / max(first, 0.01)) / math.log(high / low)
    print(f"growth from {low} to {high} GPUs: time ~ N^{exponent:.2f}")


def benchmark():
    """Print everything."""
    grids = [(8, 8), (16, 16), (32, 32), (68, 64), (64, 128), (128, 128)]
    print_growth("predict, grain auto (abci; generic-fat-tree beyond 4352 GPUs)",
                 [(c * r, predict(c, r)) for c, r in grids])
    print_growth("all-reduce on t1-torus, folded",
                 [(k * k, all_reduce(k, k, "folded")) for k in (8, 16, 32, 64, 128)])
    print_growth("all-reduce on t1-torus, every message",
                 [(k * k, all_reduce(k, k, "full")) for k in (8, 16, 32, 64)])
    print_growth("predict on abci, every message, one bucket",
                 [(c * r, predict(c, r, "--grain", "full", "--set", "allreduce.bucket=64 MiB"))
                  for c, r in ((8, 8), (16, 16), (32, 32))])


def check(name, measured, seconds, megabytes):
    """One budget; says what was used.  Returns whether it was kept."""
    kept = measured[0] <= seconds and measured[1] <= megabytes
    print(f"{'ok' if kept else 'TOO MUCH':8} {name}: {measured[0]:.2f} of {seconds} s CPU, "
          f"{measured[1]:.0f} of {megabytes} MB")
    return kept


def check_budgets():
    """Exit status 1 when one is not kept."""
    kept = [check(f"predict {c * r} GPUs as {c} x {r}", predict(c, r), 1, 300)
            for c, r in ((34, 32), (34, 96), (48, 72), (68, 64), (34, 128))]
    kept += [check("torus of 4096, folded", all_reduce(64, 64, "folded"), 0.2, 100),
             check("ring of 4096, folded", all_reduce(4096, 1, "folded", "ring", "t1-ring"),
                   0.2, 100),
             check("torus of 1024, every message", all_reduce(32, 32, "full"), 5, 265)]
    if os.environ.get("FORETRAIN_LONG"):
        kept.append(check("torus of 4096, every message", all_reduce(64, 64, "full"), 30, 265))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(check_budgets() if "--budget" in sys.argv[1:] else benchmark())
