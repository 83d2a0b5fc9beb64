#!/usr/bin/python3
"""What runs on one device say of the profiles `pytorch` and `pytorch-nchw`: rates of kinds of kernels, and how far off
networks and devices are that had no part in them.

usage: fit.py                                      # some minutes

A prediction is nearly linear in the logarithms of the rates, so each rate is raised by 5 % once and all rows are
predicted again.  From these sensitivities follow the rates that fit best, those of the profiles being priors with their
spreads, without the rows of a family or a device, and the errors of what was left out.  Each device's efficiency is that
of ResNet-50, so a kind counts by how much its share differs from its share there.

Rates that physics bounds stay: those of AT_BOUND, and of the kinds of transformers, which come from micro-benchmarks and
earlier fits and which other profiles share.  From what is left out follow kinds.residual, and from the runs of several
devices of one node, none of which has a part in any fit, kinds.node: the deviations with which 90 % of them are inside
their intervals, each family counting the same.  Runs of several nodes are not read.
"""
import collections
import csv
import math
import os
import pathlib
import re
import shutil
import statistics
import tempfile

import report

ROOT = report.HERE.parents[1]
RAISE = 1.05
NOISE = 0.07  # deviation of a row about what its kinds say
LOOSE = 3  # priors where something is left out, since the profiles know those rows
DEVICE = 0.10  # of the efficiency of a device without a run of ResNet-50
RATE = re.compile(r"\{kernel: ([\w-]+)(?:, precision: (fp32))?(, .*?)\}")
# Batch norm in NHWC moves its bytes at the bandwidth, and in NCHW a type of twice the bytes no more elements; convolutions
# in fp32 reach the peak, which Winograd's exceed.
AT_BOUND = {("pytorch", "batch-norm", ""), ("pytorch-nchw", "batch-norm", "fp32"), ("pytorch-nchw", "convolution", "fp32")}
BY_LAYOUT = {"convolution", "grouped", "depthwise", "batch-norm", "elementwise"}  # the other kinds have one rate


# ---- profiles and rows ----


def profiles(folder=ROOT / "platforms"):
    """The texts of both."""
    return {name: (folder / "software" / f"{name}.yaml").read_text("utf-8") for name in ("pytorch", "pytorch-nchw")}


def rates_of(text):
    """Spread and share by kind and precision, "" for all that have none of their own."""
    found = {}
    for kind, precision, rest in RATE.findall(text):
        numbers = {key: float(value) / 100 for key, value in re.findall(r"(\w+): ([\d.]+) %", rest)}
        found[kind, precision] = {"spread": 0.2, "share": 0, **found.get((kind, ""), {}), **numbers}
    return found


def raised(text, key):
    """A profile with one rate raised."""
    def change(match):
        if (match[1], match[2] or "") != key:
            return match[0]
        return re.sub(r"(math|memory): ([\d.]+) %", lambda rate: f"{rate[1]}: {float(rate[2]) * RAISE:.6g} %", match[0])
    return RATE.sub(change, text)


def predict(key=None):
    """The rows of one device by line, with one rate raised."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "platforms", pathlib.Path(folder) / "platforms")
        for name, text in profiles().items():
            (pathlib.Path(folder) / "platforms" / "software" / f"{name}.yaml").write_text(raised(text, key), encoding="utf-8")
        os.environ["FORETRAIN_DATADIR"] = folder
        answer = report.predict("single")
        del os.environ["FORETRAIN_DATADIR"]
    return {row["line"]: row for row in answer["rows"] if row.get("role") == "calibration" and row["measured_s"]}


def profile_of(row):
    """The profile of a row: networks without a layout have that of the other."""
    return "pytorch" if row["family"] in ("BERT", "ViT") else row["software"]


def efficiencies(text):
    """Of devices with runs, and of others (None)."""
    found = dict(re.findall(r"device: (\S+)\n(?:    .*\n)*?    efficiency: {value: ([\d.]+) %", text))
    found[None] = re.search(r"\nfallback:\n(?:  .*\n)*?  efficiency: {value: ([\d.]+) %", text)[1]
    return {device: math.log(float(value) / 100) for device, value in found.items()}


def equations():
    """A list of rows: family, device, error z (log of predicted over measured) and its slopes by unknown."""
    texts, base = profiles(), predict()
    rates = {name: rates_of(text) for name, text in texts.items()}
    slopes = collections.defaultdict(dict)
    for key in sorted(set().union(*rates.values())):
        for line, row in predict(key).items():
            slopes[line][key] = -math.log(row["predicted_s"] / base[line]["predicted_s"]) / math.log(RAISE)
    rows, seen = [], set()
    for line, row in base.items():
        same = (row["family"], row["network"], row["device"], row["precision"], row["software"], row["batch_per_device"])
        if same in seen:  # the same run on another day
            continue
        seen.add(same)
        name = profile_of(row)
        of = {}
        for kind, precision in rates[name]:
            of[name if kind in BY_LAYOUT else "", kind, precision] = slopes[line][kind, precision]  # shared ones: no profile
        total = sum(of.values())
        for kind, precision in rates[name]:
            if not precision:
                of[name if kind in BY_LAYOUT else "", kind, ""] -= total * rates[name][kind, ""]["share"]
        rows.append({"family": row["family"], "device": row["device"], "name": name, "total": total,
                     "z": math.log(row["predicted_s"] / row["measured_s"]), "row": row,
                     "of": {key: slope for key, slope in of.items() if key[0] and key not in AT_BOUND}})
    return rows, rates, {name: efficiencies(text) for name, text in texts.items()}


# ---- the fit ----


def solve(matrix, right):
    """Gauss' elimination of a symmetric positive system."""
    size = len(right)
    work = [row[:] + [value] for row, value in zip(matrix, right)]
    for k in range(size):
        for i in range(k + 1, size):
            factor = work[i][k] / work[k][k]
            work[i] = [a - factor * b for a, b in zip(work[i], work[k])]
    found = [0.0] * size
    for k in reversed(range(size)):
        found[k] = (work[k][size] - sum(work[k][j] * found[j] for j in range(k + 1, size))) / work[k][k]
    return found


def fit(rows, rates, known, loose=1):
    """The change of each unknown's logarithm, and of devices without a run of ResNet-50; priors are @loose times as wide."""
    count = collections.Counter((row["family"], row["device"], row["row"]["precision"], row["name"]) for row in rows)
    names = sorted({key for row in rows for key in row["of"]}) + sorted(
        {(row["name"], row["device"]) for row in rows if row["device"] not in known[row["name"]]})
    place = {name: k for k, name in enumerate(names)}
    matrix = [[0.0] * len(names) for _ in names]
    right = [0.0] * len(names)
    for name, k in place.items():
        prior = DEVICE if len(name) == 2 else rates[name[0] or "pytorch"][name[1], name[2]]["spread"]
        matrix[k][k] += 1 / (loose * prior) ** 2
    for row in rows:
        weight = 1 / NOISE ** 2 / math.sqrt(count[row["family"], row["device"], row["row"]["precision"], row["name"]])
        slopes = [(place[key], slope) for key, slope in row["of"].items()]
        if (row["name"], row["device"]) in place:
            slopes.append((place[row["name"], row["device"]], row["total"]))
        for i, a in slopes:
            right[i] += weight * a * row["z"]
            for j, b in slopes:
                matrix[i][j] += weight * a * b
    return dict(zip(names, solve(matrix, right)))


def error(row, change, known, own=True):
    """The error of a row with such rates; without @own as if its device had no run of ResNet-50."""
    left = row["z"] - sum(slope * change.get(key, 0) for key, slope in row["of"].items())
    device = known[row["name"]].get(row["device"])
    if not own and device is not None:
        left += row["total"] * (device - known[row["name"]][None])
    return left


def left_out(rows, rates, known, key):
    """The errors of rows, each without those of its family or device."""
    found = []
    for name in sorted({row[key] for row in rows}):
        change = fit([row for row in rows if row[key] != name], rates, known, LOOSE)
        found += [(name, row, error(row, change, known, key == "family")) for row in rows if row[key] == name]
    return found


def table(found):
    """How far off, by what was left out."""
    groups = collections.defaultdict(list)
    for name, _, left in found:
        groups[name].append(left)
    groups["all"] = [left for _, _, left in found]
    lines = [[name, str(len(left)), *(f"{100 * report.quantile([abs(math.exp(z) - 1) for z in left], share):.0f} %" for share in (0.5, 0.9)),
              f"{100 * (math.exp(report.quantile(left, 0.5)) - 1):+.0f} %"] for name, left in groups.items()]
    return report.markdown(["left out", "rows", "median error", "90th percentile", "median with sign"], lines)


def deviation(groups, before, least=0.9):
    """The deviation with which that part of the errors lies inside, families counting the same; @groups: family to pairs
    of an error and of the width that its interval has with @before."""
    def inside(value):
        return statistics.mean(statistics.mean(abs(z) <= 1.645 * math.sqrt(max(0, (wide / 3.29) ** 2 + value ** 2 - before ** 2))
                                               for z, wide in group) for group in groups.values())
    return next((k / 1000 for k in range(500) if inside(k / 1000) >= least), 0.5), inside(before)


def width(row):
    """Of the interval of an answer's row, in its logarithm."""
    low, high = row["interval_s"]
    return math.log(high / low)


def main():
    """Print all."""
    rows, rates, known = equations()
    change = fit(rows, rates, known)
    print("\n".join(f"{' '.join(name)}: times {math.exp(value):.3f}" for name, value in sorted(change.items())))
    print(table([(row["family"], row, error(row, {}, known)) for row in rows]))
    now = {key: float(re.search(rf"\n  {key}: ([\d.]+) %", profiles()["pytorch"])[1]) / 100 for key in ("residual", "node")}
    for key in ("family", "device"):
        found, groups = left_out(rows, rates, known, key), collections.defaultdict(list)
        for name, row, left in found:
            groups[name].append((left, width(row["row"])))
        print(table(found))
        value, inside = deviation(groups, now["residual"])
        print(f"{key} left out: residual {100 * value:.1f} %, from {len(found)} rows; {100 * inside:.0f} % inside with today's")
    groups = collections.defaultdict(list)
    for row in report.predict("multi")["rows"]:
        if row.get("role") == "calibration" and row["nodes"] == 1 and row["measured_s"]:
            groups[row["family"], row["software"]].append((math.log(row["predicted_s"] / row["measured_s"]), width(row)))
    for software in sorted({software for _, software in groups}):
        chosen = {name: group for name, group in groups.items() if name[1] == software}
        value, inside = deviation(chosen, now["node"])
        print(f"{software}: node {100 * value:.1f} %, from {sum(map(len, chosen.values()))} rows in {len(chosen)} families; "
              f"{100 * inside:.0f} % inside with today's")


if __name__ == "__main__":
    main()
