#!/usr/bin/python3
"""Predict the runs of this folder, and score what was predicted before.

usage: scores.py predict    write predictions.csv, without what was measured
       scores.py            join it with runs.csv: the tables and the picture of README.md
"""
import csv
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "07_networks"))
import report  # noqa: E402 pylint: disable=wrong-import-position

KEPT = ("line", "role", "family", "network", "device", "precision", "software", "nodes", "devices", "batch_per_device",
        "predicted_s", "low_s", "high_s", "left_open", "refused")


def predict():
    """Write predictions.csv."""
    done = subprocess.run([sys.executable, HERE.parent / "published.py", HERE / "runs.csv", "--json"], capture_output=True,
                          text=True, check=True)
    with (HERE / "predictions.csv").open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, KEPT, extrasaction="ignore", lineterminator="\n")
        out.writeheader()
        for row in json.loads(done.stdout)["rows"]:
            row["low_s"], row["high_s"] = row["interval_s"] or ("", "")
            out.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})


def read():
    """The rows that were predicted, with what was measured."""
    with (HERE / "runs.csv").open(encoding="utf-8", newline="") as file:
        runs = dict(enumerate(csv.DictReader(file), 2))
    with (HERE / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["refused"]]
    for row in rows:
        run = runs[int(row["line"])]
        row["measured_s"] = float(run["iteration_s"] or 0) or (
            float(run["global_batch"]) * float(run["seq_len"]) / float(run["tokens_per_s"]))
        for key in ("predicted_s", "low_s", "high_s"):
            row[key] = float(row[key])
        row["ratio"] = row["predicted_s"] / row["measured_s"]
        row["inside"] = row["low_s"] <= row["measured_s"] <= row["high_s"]
        cut = int(float(run["pp"] or 1)) > 1
        row["group"] = f"{row['family']}{', stages' if cut else ''}, {row['device']}"
        row["family"] = row["group"] + (", apart" if row["role"] == "apart" else "")
    return rows


def main():
    """Predict, or score."""
    if sys.argv[1:] == ["predict"]:
        predict()
        return
    rows = read()
    scored = {"one node": [row for row in rows if row["role"] == "calibration"],
              "several nodes": [row for row in rows if row["role"] == "check"],
              "apart": [row for row in rows if row["role"] == "apart"]}
    report.replace(HERE / "README.md", {name: report.markdown([name, *report.HEAD], report.by(group, "group"))
                                        for name, group in scored.items()})
    (HERE / "errors.svg").write_text(report.families_picture(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
