#!/usr/bin/python3
"""Predict every run of published.csv and print predicted and published side by side, as a table."""
import csv
import json
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ.get("FORETRAIN", str(HERE.parents[1] / "build" / "foretrain"))
LABEL = {"scaling_efficiency": "scaling efficiency", "time_to_train_s": "time to train",
         "step_s": "step"}


def predict(scenario):
    """The JSON result of one scenario."""
    done = subprocess.run([PROGRAM, "predict", HERE / f"{scenario}.yaml", "--json"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def show(quantity, value):
    """The value as people write it."""
    if quantity == "scaling_efficiency":
        return f"{100 * value:.2f} %"
    return f"{1000 * value:.2f} ms" if quantity == "step_s" else f"{value:.1f} s"


def main():
    """One row for each published quantity."""
    print("| run | GPUs | quantity | published | predicted | error | bound by |")
    print("|---|---|---|---|---|---|---|")
    results = {}
    with (HERE / "published.csv").open(encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table):
            name, quantity, published = row["scenario"], row["quantity"], float(row["value"])
            result = results.setdefault(name, None) or predict(name)
            results[name] = result
            flat = {**result, "step_s": result["step_s"]}
            error = flat[quantity] / published - 1
            print(f"| [{name}]({name}.yaml) | {result['devices']} | {LABEL[quantity]} "
                  f"| {show(quantity, published)} | {show(quantity, flat[quantity])} "
                  f"| {100 * error:+.1f} % | {result['bound_by']} |")


if __name__ == "__main__":
    main()
