#!/usr/bin/python3
"""Predict the runs of this folder, and score what was predicted before.

usage: scores.py predict    write predictions.csv and layouts_predicted.csv, without what was measured
       scores.py            join them with runs.csv and layouts.csv: the tables and the picture of README.md
"""
import csv
import itertools
import json
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "07_networks"))
import report  # noqa: E402 pylint: disable=wrong-import-position

KEPT = ("line", "role", "family", "network", "device", "precision", "software", "nodes", "devices", "batch_per_device",
        "predicted_s", "low_s", "high_s", "left_open", "refused")
MEGATRON = ("megatron-core", "megatron-2023")
MIXTURES = ("gpt oss", "qwen3 235b", "qwen3 30b", "qwen3 moe 30b", "mixtral", "deepseek", "kimi")  # networks with experts
ERRORS = ("median error", "90th percentile", "with sign")
DEVICE = 79.1 * 2**30  # [bytes] of memory: what PyTorch reports of an H100 of 80 GB


def predict(runs, name, kept):
    """Write the columns @kept of what is predicted for a table."""
    done = subprocess.run([sys.executable, HERE.parent / "published.py", HERE / runs, "--json"], capture_output=True,
                          text=True, check=True)
    with (HERE / name).open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, kept, extrasaction="ignore", lineterminator="\n")
        out.writeheader()
        for row in json.loads(done.stdout)["rows"]:
            row["low_s"], row["high_s"] = row["interval_s"] or ("", "")
            out.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})


def table(name):
    """The rows of a table by line."""
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return dict(enumerate(csv.DictReader(file), 2))


def read():
    """The rows that were predicted, with what was measured."""
    runs = table("runs.csv")
    rows = [row for row in table("predictions.csv").values() if not row["refused"]]
    for row in rows:
        run = runs[int(row["line"])]
        row["measured_s"] = float(run["iteration_s"] or 0) or (
            float(run["global_batch"]) * float(run["seq_len"]) / float(run["tokens_per_s"]))
        for key in ("predicted_s", "low_s", "high_s"):
            row[key] = float(row[key])
        row["ratio"] = row["predicted_s"] / row["measured_s"]
        row["inside"] = row["low_s"] <= row["measured_s"] <= row["high_s"]
        row["source"], row["devices"] = row["family"], int(float(row["devices"]))
        row["release"] = run["date"]
        cut = int(float(run["pp"] or 1)) > 1
        row["group"] = f"{row['family']}{', stages' if cut else ''}, {row['device']}"
        row["family"] = row["group"] + (", apart" if row["role"] == "apart" else "")
        name = re.sub("[-_]", " ", row["network"].lower())
        row["mixture"] = next((f"{each}, {row['device']}" for each in MIXTURES if each in name), None)
    return rows


def anchored(rows):
    """Rows of Megatron Core by source and device, beside what the smallest run of the source, release, network and device says
    once: how much faster or slower than predicted this software is there."""
    rows = [row for row in rows if row["software"] in MEGATRON]
    lines = []
    for place in sorted({(row["source"], row["device"]) for row in rows}):
        before, after, factors = [], [], []
        here = sorted((row for row in rows if (row["source"], row["device"]) == place), key=release_of)
        for _, group in itertools.groupby(here, release_of):
            first, *rest = sorted(group, key=lambda row: (row["devices"], int(row["line"])))
            before += [row["ratio"] for row in rest]
            after += [row["ratio"] / first["ratio"] for row in rest]
            factors += [first["ratio"] - 1] * bool(rest)
        if len(before) >= 3:
            lines.append([", ".join(place), str(len(factors)), f"{100 * min(factors):+.0f} to {100 * max(factors):+.0f} %",
                          str(len(before)), *errors_of(before), *errors_of(after)])
    return report.markdown(["source and device", "smallest runs", "their error", "other rows", *ERRORS,
                            *(f"{name}, by the smallest" for name in ERRORS)], lines)


def release_of(row):
    """The release of a source's software, and the network."""
    return row["release"], row["network"]


def read_layouts():
    """Layouts that are predicted, with what was measured."""
    runs = table("layouts.csv")
    rows = [{**runs[int(row["line"])], **row} for row in table("layouts_predicted.csv").values() if not row["refused"]]
    rows = [row for row in rows if int(row["grad_accumulation"]) >= int(row["pp"]) - 1]  # nanotron asserts it
    for row in rows:
        row["ran"] = row["outcome"] == "measured"
        row["fits"] = float(row["memory_bytes"]) <= DEVICE
        row["step"] = float(row["predicted_s"])
        row["measured"] = float(row["iteration_s"] or "nan")
    return rows


def cell_of(row):
    """What a layout is chosen for."""
    return row["model"], int(row["nodes"])


def choices(rows):
    """Of the layouts of each model and number of nodes: how much longer the one that is chosen took than the best, and
    which pairs are ranked right."""
    longer, right = [], []
    for cell in itertools.groupby(sorted(rows, key=cell_of), cell_of):
        ran = list(cell[1])
        chosen = min(ran, key=lambda row: row["step"])
        longer.append(chosen["measured"] / min(row["measured"] for row in ran) - 1)
        right += [(a["step"] < b["step"]) == (a["measured"] < b["measured"]) for a, b in itertools.combinations(ran, 2)
                  if max(a["measured"], b["measured"]) > 1.05 * min(a["measured"], b["measured"])]
    return longer, right


def errors_of(ratios):
    """Median and 90th percentile of how far ratios are from 1, and their median with sign."""
    errors = [abs(ratio - 1) for ratio in ratios]
    values = ((statistics.median(errors), ".1f"), (report.quantile(errors, 0.9), ".0f"), (statistics.median(ratios) - 1, "+.1f"))
    return [f"{100 * value:{form}} %" for value, form in values]


def names_of(row):
    """The groups of a layout."""
    nodes, cut = int(row["nodes"]), int(row["pp"]) > 1
    shape = "no stages" if not cut else "stages, tensor 1" if row["tp"] == "1" else "stages, tensor 2 to 32"
    return {"all", row["model"], "one node" if nodes == 1 else "2 and 4 nodes" if nodes < 8 else "8 and 16 nodes",
            f"several nodes, {shape}" if nodes > 1 else ""}


def layouts_table(rows):
    """What is known of layouts."""
    ran = [row for row in rows if row["ran"] and row["consistent"] == "yes"]
    lines = []
    for name in ("1B", "3B", "8B", "one node", "2 and 4 nodes", "8 and 16 nodes", "several nodes, no stages",
                 "several nodes, stages, tensor 1", "several nodes, stages, tensor 2 to 32", "all"):
        here, all_here = ([row for row in group if name in names_of(row)] for group in (ran, rows))
        longer, right = choices(here)
        fits = f"{100 * statistics.mean(row['ran'] == row['fits'] for row in all_here):.0f} % of {len(all_here)}"
        lines.append([name, str(len(here)), *errors_of([row["step"] / row["measured"] for row in here]),
                      *errors_of([float(row["first_stage_bytes"]) / 2**30 / float(row["memory_gb"]) for row in here]),
                      fits, f"{sum(value <= 0.05 for value in longer)} of {len(longer)}",
                      f"{100 * statistics.mean(right):.0f} % of {len(right)}"])
    return report.markdown(["layouts", "ran", "step: median error", "90th percentile", "with sign", "memory: median error",
                            "90th percentile", "with sign", "fits or not, right", "chosen within 5 % of the best",
                            "pairs ranked right"], lines)


def main():
    """Predict, or score."""
    if sys.argv[1:] == ["predict"]:
        predict("runs.csv", "predictions.csv", KEPT)
        predict("layouts.csv", "layouts_predicted.csv", ("line", "predicted_s", "memory_bytes", "first_stage_bytes", "refused"))
        return
    rows = read()
    nvidia = [row for row in rows if row["role"] == "apart" and row["software"] in MEGATRON]
    mixtures = [row for row in nvidia if row["mixture"]]
    scored = {"one node": [row for row in rows if row["role"] == "calibration"],
              "several nodes": [row for row in rows if row["role"] == "check"],
              "NVIDIA": [row for row in nvidia if not row["mixture"]],
              "apart": [row for row in rows if row["role"] == "apart" and row["software"] not in MEGATRON]}
    report.replace(HERE / "README.md", {name: report.markdown([name, *report.HEAD], report.by(group, "group"))
                                        for name, group in scored.items()} |
                   {"experts": report.markdown(["experts", *report.HEAD], report.by(mixtures, "mixture")),
                    "anchors": anchored(rows), "layouts": layouts_table(read_layouts())})
    (HERE / "errors.svg").write_text(report.families_picture(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
