#!/usr/bin/python3
"""The intervals that follow from what is not known of the runs: unknown/*.yaml.

stated.py            predict all of them (3 minutes of CPU), write stated.csv and efficiency.svg
stated.py --table    print stated.csv as a table
"""
import csv
import json
import math
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ.get("FORETRAIN", str(HERE.parents[1] / "build" / "foretrain"))
FIELDS = {"scaling_efficiency": ("scaling efficiency", "weak_scaling"),
          "time_to_train_s": ("time to train", "time_to_train"),
          "step_s": ("step", "step")}
NODES = [1, 2, 4, 8, 16, 32, 64, 128, 272, 544, 816, 1088]
HEAD = ["run", "gpus", "quantity", "published", "predicted", "low", "high", "most", "share"]


def predict(name, *words):
    """The JSON result of a scenario with unknown inputs."""
    done = subprocess.run([PROGRAM, "predict", HERE / "unknown" / f"{name}.yaml", "--json", *words],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def cells(result, quantity):
    """Centre, interval, and the input that makes most of its width."""
    share = FIELDS[quantity][1]
    most = max(result["interval_shares"], key=lambda row: row[share] or 0)
    return [*(f"{result[quantity + end]:.6g}" for end in ("", "_low", "_high")), most["input"], f"{most[share]:.2f}"]


def published():
    """What Sony and Fujitsu published."""
    with (HERE / "published.csv").open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def predict_runs():
    """A row for each published figure."""
    results, rows = {}, []
    for row in published():
        name, quantity = row["scenario"], row["quantity"]
        if name not in results:
            results[name] = predict(name)
        rows.append([name, str(results[name]["devices"]), quantity, row["value"],
                     *cells(results[name], quantity)])
    return rows


def predict_curve():
    """A row for each number of nodes, in closed form, the grid left to the program."""
    rows = []
    for nodes in NODES:
        result = predict("v1-1088", "--backend", "analytic", "--set", f"cluster.nodes={nodes}",
                         "--set", "allreduce.grid=null")
        rows.append(["curve", str(result["devices"]), "scaling_efficiency", "",
                     *cells(result, "scaling_efficiency")])
    return rows


def read():
    """The rows of stated.csv."""
    with (HERE / "stated.csv").open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def show(quantity, value):
    """The value as people write it."""
    if quantity == "scaling_efficiency":
        return f"{100 * value:.1f} %"
    return f"{1000 * value:.2f} ms" if quantity == "step_s" else f"{value:.0f} s"


def table():
    """Published figures against intervals that do not know them."""
    rows = [row for row in read() if row["run"] != "curve"]
    print("| run | quantity | published | 90 % interval | inside | width | most of it |")
    print("|---|---|--:|--:|---|--:|---|")
    inside = 0
    for row in rows:
        name, quantity = row["run"], row["quantity"]
        value, low, high = (float(row[key]) for key in ("published", "low", "high"))
        inside += low <= value <= high
        print(f"| [{name}](unknown/{name}.yaml) | {FIELDS[quantity][0]} | {show(quantity, value)} "
              f"| {show(quantity, low)} to {show(quantity, high)} "
              f"| {'yes' if low <= value <= high else 'no'} | {high / low:.1f} x "
              f"| {row['most']}, {100 * float(row['share']):.0f} % |")
    print(f"\n{inside} of {len(rows)} published figures are inside.")


WIDE, HIGH, EDGE = 560, 300, 50


def place(gpus, efficiency):
    """A point of the picture."""
    x = EDGE + WIDE * math.log(gpus / 4) / math.log(4352 / 4)
    return f"{x:.1f},{EDGE + HIGH * (1 - efficiency):.1f}"


def picture():
    """Efficiency against GPUs: band, centre, published points."""
    rows = [row for row in read() if row["quantity"] == "scaling_efficiency"]
    curve = [row for row in rows if row["run"] == "curve"]
    points = {key: [place(int(row["gpus"]), float(row[key])) for row in curve]
              for key in ("low", "predicted", "high")}
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE + 2 * EDGE} '
             f'{HIGH + 2 * EDGE}" font-family="sans-serif" font-size="12" role="img">',
             "<title>Scaling efficiency on ABCI against GPUs: 90 % band, centre, published "
             "points</title>",
             f'<rect width="{WIDE + 2 * EDGE}" height="{HIGH + 2 * EDGE}" fill="white"/>',
             f'<polygon points="{" ".join(points["low"] + points["high"][::-1])}" '
             'fill="#4477aa" fill-opacity="0.25"/>',
             f'<polyline points="{" ".join(points["predicted"])}" fill="none" stroke="#4477aa" '
             'stroke-width="2"/>']
    for gpus in (4, 16, 64, 256, 1024, 4352):
        x = place(gpus, 0).split(",", maxsplit=1)[0]
        parts.append(f'<text x="{x}" y="{EDGE + HIGH + 18}" text-anchor="middle">{gpus}</text>')
    for percent in range(0, 101, 20):
        y = EDGE + HIGH * (1 - percent / 100)
        parts.append(f'<line x1="{EDGE}" x2="{EDGE + WIDE}" y1="{y}" y2="{y}" stroke="#dddddd"/>'
                     f'<text x="{EDGE - 6}" y="{y + 4}" text-anchor="end">{percent} %</text>')
    for row in rows:
        if row["run"] != "curve":
            x, y = place(int(row["gpus"]), float(row["published"])).split(",")
            right = int(row["gpus"]) > 1050
            parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="#cc3311"/><text x="'
                         f'{float(x) + (8 if right else -8):.1f}" y="{float(y) + 4:.1f}" '
                         f'text-anchor="{"start" if right else "end"}">{row["run"]}</text>')
    parts.append(f'<text x="{EDGE + WIDE / 2}" y="{EDGE + HIGH + 38}" text-anchor="middle">GPUs of '
                 'ABCI</text>')
    parts.append(f'<text x="{EDGE}" y="{EDGE - 16}">scaling efficiency: 90 % band stated without '
                 'these runs, its centre, and what was published (dots)</text>')
    return "\n".join(parts) + "\n</svg>\n"


def main():
    """Predict, or print what was predicted."""
    if sys.argv[1:] == ["--table"]:
        table()
        return
    with (HERE / "stated.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([HEAD, *predict_runs(), *predict_curve()])
    (HERE / "efficiency.svg").write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
