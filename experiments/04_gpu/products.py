#!/usr/bin/python3
"""Fit what a matrix product reaches by its shape, and print the residuals.

usage: products.py    of kernels.csv (one H200) and products.csv (A100 PCIe and B200, of SimuMax)

seconds = start + max(2 * work * (k + terms) / (rate * alignment), bytes / bandwidth)

work is the number of results, in whole tiles of 128 x 128 or of 64 x 64, which are slower, and at
least as many as keep every multiprocessor busy; sums of more than CHUNK terms are split among them.
A row of a matrix that does not begin at a multiple of 16 bytes has its own alignment.  Start, rate
and bandwidth belong to a device, the rest to all.  core/backend/cost.c has the constants.
"""
import csv
import math
import pathlib
import statistics

HERE = pathlib.Path(__file__).resolve().parent
CHUNK = 4096  # the best of 256, 512, ... 8192, and of no split
# Multiprocessors, peak [FLOP/s], bandwidth [bytes/s] of data sheets.
DEVICES = {"h200": (132, 989e12, 4800e9), "a100": (108, 312e12, 1935e9), "b200": (148, 2250e12, 8000e9)}
SHARED = {"terms": 100.0, "small tiles": 1.5, "4 bytes": 0.35, "2 bytes": 0.15}
OWN = {"start": 3e-6, "rate": 0.7, "bandwidth": 0.8}
BOUNDS = {"terms": (0, 1000), "small tiles": (1, 4), "4 bytes": (0.1, 1), "2 bytes": (0.05, 1),
          "start": (0, 3e-5), "rate": (0.2, 1), "bandwidth": (0.5, 1)}
ROBUST = 0.2  # errors above count linearly


def row(device, how, sizes, seconds, moved):
    """A product that was measured."""
    *batch, m, n, k = sizes
    lengths = (n, m) if how == "weights" else (n, k)
    return {"device": device, "how": how, "batch": batch[0] if batch else 1, "m": m, "n": n, "k": k, "seconds": seconds,
            "bytes": moved, "bytes aligned": 2 * min(length & -length for length in lengths)}


def read():
    """The rows of both tables."""
    rows = []
    with (HERE / "kernels.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if line["group"] == "product" and line["type"] in ("bf16", "fp16"):
                rows.append(row("h200", line["kernel"], [int(side) for side in line["shape"].split("x")],
                                float(line["seconds"]), float(line["bytes"])))
    with (HERE / "products.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            device = line["device"][:4]
            m, n, k = (int(line[key]) for key in "mnk")
            seconds = 2 * m * n * k / (float(line["efficiency"]) * DEVICES[device][1])
            width = 4 if line["result_type"] == "fp32" else 2
            rows.append(row(device, "", [m, n, k], seconds, 2 * (m * k + k * n) + m * n * width * (1 + int(line["added"]))))
    count = {device: sum(one["device"] == device for one in rows) for device in DEVICES}
    for one in rows:
        one["weight"] = count[one["device"]] ** -0.5
    return rows


def predict(p, one):
    """Seconds of a row by the model."""
    units, peak, bandwidth = DEVICES[one["device"]]
    busy = units / max(1, one["k"] / CHUNK)
    work = min(max(one["batch"] * math.ceil(one["m"] / side) * math.ceil(one["n"] / side), busy) * side * side * cost
               for side, cost in ((128, 1), (64, p["small tiles"])))
    alignment = {2: p["2 bytes"], 4: p["4 bytes"]}.get(one["bytes aligned"], 1)
    own = {key: p[f"{key} {one['device']}"] for key in OWN}
    return own["start"] + max(2 * work * (one["k"] + p["terms"]) / (own["rate"] * peak * alignment),
                              one["bytes"] / (own["bandwidth"] * bandwidth))


def errors(p, rows):
    """Of the logarithm."""
    return [math.log(predict(p, one) / one["seconds"]) for one in rows]


def loss(values, rows):
    """Sum of squares, linear beyond ROBUST."""
    return sum(one["weight"] ** 2 * (value * value if abs(value) < ROBUST else 2 * ROBUST * abs(value) - ROBUST ** 2)
               for value, one in zip(values, rows))


def solve(matrix, right):
    """The solution of a system of linear equations, by Gauss."""
    rows = [line[:] + [value] for line, value in zip(matrix, right)]
    for i, _ in enumerate(rows):
        pivot = max(range(i, len(rows)), key=lambda j, i=i: abs(rows[j][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for j, line in enumerate(rows):
            if j != i:
                rows[j] = [a - line[i] / rows[i][i] * b for a, b in zip(line, rows[i])]
    return [line[-1] / line[i] for i, line in enumerate(rows)]


def clip(name, value):
    """A value within its bounds."""
    low, high = BOUNDS[name if name in BOUNDS else name.rsplit(" ", 1)[0]]
    return min(high, max(low, value))


def fit(rows):
    """Least squares, by Levenberg and Marquardt, in relative steps of the parameters."""
    p = {**SHARED, **{f"{key} {device}": value for key, value in OWN.items() for device in DEVICES}}
    values, damping = errors(p, rows), 1e-2
    while damping < 1e4:
        slopes = [[(b - a) / 0.01 for a, b in zip(values, errors({**p, name: p[name] * 1.01}, rows))] for name in p]
        weights = [one["weight"] ** 2 * min(1, ROBUST / max(abs(value), 1e-9)) for one, value in zip(rows, values)]
        matrix = [[sum(w * a * b for w, a, b in zip(weights, one, two)) for two in slopes] for one in slopes]
        right = [-sum(w * a * v for w, a, v in zip(weights, one, values)) for one in slopes]
        while damping < 1e4:
            damped = [[value * (1 + damping * (i == j)) + 1e-9 * (i == j) for j, value in enumerate(line)]
                      for i, line in enumerate(matrix)]
            trial = {name: clip(name, p[name] * math.exp(max(-0.5, min(0.5, step))))
                     for name, step in zip(p, solve(damped, right))}
            next_values = errors(trial, rows)
            gain = loss(values, rows) - loss(next_values, rows)
            if gain > 1e-6 * loss(values, rows):
                p, values, damping = trial, next_values, damping / 5
                break
            damping *= 5
    return p


def score(title, values):
    """One line of residuals."""
    ordered = sorted(map(abs, values))
    print(f"{title:28} {len(values):4} products: median error {ordered[len(ordered) // 2]:.1%}, 90th percentile "
          f"{ordered[int(0.9 * (len(ordered) - 1))]:.1%}, deviation {statistics.pstdev(values):.1%}")


def main():
    rows = read()
    p = fit(rows)
    for name, value in p.items():
        print(f"{name:16} {value:.4g}")
    values = errors(p, rows)
    for device in DEVICES:
        own = [one for one in rows if one["device"] == device]
        score(device, [value for value, one in zip(values, rows) if one["device"] == device])
        logs = [math.log(2 * one["batch"] * one["m"] * one["n"] * one["k"] / one["seconds"]) for one in own]
        score("    with one rate", [value - statistics.median(logs) for value in logs])
    for device in DEVICES:  # what shapes need comes from the other devices, the rest from this one
        if device == "h200":
            continue  # alone has rows without alignment
        apart = fit([one for one in rows if one["device"] != device])
        own = [one for one in rows if one["device"] == device]
        logs = errors(apart, own)
        score(f"{device}, shapes of the others", [value - statistics.median(logs) for value in logs])


if __name__ == "__main__":
    main()
