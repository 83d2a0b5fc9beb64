#!/usr/bin/python3
"""What each cluster costs for how long a wait: the fronts of `plan`, one for each.

front.py            predict them (4 s of CPU), write front.csv and front.svg
front.py --check    predict them, and exit with 1 if the two files say something else
front.py --table    print front.csv as a table
"""
import csv
import io
import math
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ.get("FORETRAIN", str(HERE.parents[1] / "build" / "foretrain"))
CLUSTERS = {"dgx-h100": ("example-h100", "#4477aa"), "dgx-a100": ("example-a100", "#cc3311")}
KEPT = ["platform", "nodes", "algorithm", "bucket", "batch_per_device",
        "time_to_train_s", "time_to_train_s_low", "time_to_train_s_high", "cost", "cost_low", "cost_high",
        "energy_kwh"]


def plan(platform, prices):
    """The front of one cluster, up to 64 nodes, the fastest first."""
    done = subprocess.run([PROGRAM, "plan", HERE / "job.yaml", "--backend", "analytic",
                           "--platforms", platform, "--nodes", "1..64:x2", "--prices", prices,
                           "--within", "1h", "--csv", "-"],
                          capture_output=True, text=True, check=True)
    rows = [row for row in csv.DictReader(io.StringIO(done.stdout)) if not row["plan"]]
    return [{key: short(row[key]) for key in KEPT} for row in rows]


def short(cell):
    """Numbers with six digits."""
    try:
        return " ".join(f"{float(word):.6g}" for word in cell.split())
    except ValueError:
        return cell


def predicted():
    """The content of front.csv as it should be."""
    file = io.StringIO()
    writer = csv.DictWriter(file, KEPT, lineterminator="\n")
    writer.writeheader()
    for platform, (prices, _) in CLUSTERS.items():
        writer.writerows(plan(platform, prices))
    return file.getvalue()


def read():
    """The rows of front.csv."""
    return list(csv.DictReader(io.StringIO((HERE / "front.csv").read_text(encoding="utf-8"))))


def ends(row, key):
    """The value and its interval."""
    return tuple(float(row[key + end]) for end in ("", "_low", "_high"))


def table():
    """For Markdown."""
    print("| cluster | nodes | images per GPU | time to 75.9 % | 90 % interval | USD | bounds | kWh |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for row in read():
        time, early, late = ends(row, "time_to_train_s")
        cost, low, high = ends(row, "cost")
        print(f"| {row['platform']} | {row['nodes']} | {row['batch_per_device']} | {time:.0f} s "
              f"| {early:.0f} to {late:.0f} s | {cost:.1f} | {low:.1f} to {high:.1f} "
              f"| {float(row['energy_kwh']):.2f} |")


WIDE, HIGH, EDGE = 560, 320, 60
TIMES, COSTS = (30, 2000), (10, 80)


def place(value, limits):
    """Where it is on a logarithmic axis, 0 to 1."""
    return math.log(value / limits[0]) / math.log(limits[1] / limits[0])


def across(seconds):
    """Its x."""
    return EDGE + WIDE * place(seconds, TIMES)


def down(dollars):
    """Its y."""
    return EDGE + HIGH * (1 - place(dollars, COSTS))


def axes():
    """Grid lines and their numbers."""
    for seconds, name in ((30, "30 s"), (60, "1 min"), (120, "2 min"), (300, "5 min"),
                          (600, "10 min"), (1800, "30 min")):
        x = across(seconds)
        yield (f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{EDGE}" y2="{EDGE + HIGH}" stroke="#dddddd"/>'
               f'<text x="{x:.1f}" y="{EDGE + HIGH + 18}" text-anchor="middle">{name}</text>')
    for dollars in (10, 20, 40, 80):
        y = down(dollars)
        yield (f'<line x1="{EDGE}" x2="{EDGE + WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
               f'<text x="{EDGE - 6}" y="{y + 4:.1f}" text-anchor="end">{dollars} USD</text>')


def picture():
    """Cost against time: a cross of both intervals for each plan, a line for each cluster."""
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE + 2 * EDGE} '
             f'{HIGH + 2 * EDGE}" font-family="sans-serif" font-size="12" role="img">',
             "<title>Cost against the time to 75.9 % on both clusters, with intervals</title>",
             f'<rect width="{WIDE + 2 * EDGE}" height="{HIGH + 2 * EDGE}" fill="white"/>', *axes()]
    for number, (platform, (_, colour)) in enumerate(CLUSTERS.items()):
        rows = [row for row in read() if row["platform"] == platform]
        points = " ".join(f"{across(float(row['time_to_train_s'])):.1f},{down(float(row['cost'])):.1f}"
                          for row in rows)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for row in rows:
            time, early, late = ends(row, "time_to_train_s")
            cost, low, high = ends(row, "cost")
            x, y = across(time), down(cost)
            parts.append(f'<path d="M{across(early):.1f} {y:.1f}H{across(late):.1f}M{x:.1f} '
                         f'{down(low):.1f}V{down(high):.1f}" stroke="{colour}" '
                         'stroke-opacity="0.5"/>'
                         f'<text x="{x + 4:.1f}" y="{y + (14 if number else -6):.1f}" '
                         f'fill="{colour}">{row["nodes"]}</text>')
        parts.append(f'<text x="{EDGE + 240 * number}" y="{EDGE - 14}" fill="{colour}">'
                     f'{platform}, by number of nodes</text>')
    return "\n".join(parts) + "\n</svg>\n"


def main():
    """Predict, check, or print what was predicted."""
    files = HERE / "front.csv", HERE / "front.svg"
    if sys.argv[1:] == ["--table"]:
        table()
    elif sys.argv[1:] == ["--check"]:
        table_now, picture_now = (file.read_text(encoding="utf-8") for file in files)
        if (table_now, picture_now) != (predicted(), picture()):
            sys.exit("run experiments/05_which_cluster/front.py and say in the commit why it moved")
    else:
        files[0].write_text(predicted(), encoding="utf-8")
        files[1].write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
