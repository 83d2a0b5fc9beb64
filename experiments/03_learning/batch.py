#!/usr/bin/python3
"""Epochs to 90 % against the batch: batch.py --measure trains the job of procedural.yaml with ten batches and three
seeds, to batch.csv; --check repeats one of its runs; alone it prints the table of README.md.

The learning rate is constant and grows with the batch up to 0.8. A run ends with the first evaluation that finds the
target. All runs take half an hour of CPU time.
"""
import argparse
import csv
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ.get("FORETRAIN", str(HERE.parents[1] / "build" / "foretrain"))
BATCHES, SEEDS, TARGET, MOST = (8, 16, 32, 64, 128, 256, 384, 512, 768, 1024), (1, 2, 3), 0.9, 40
FIELDS = ("batch", "seed", "learning_rate", "epochs", "top1")
FAILED, STOPPED = 65, 75  # exit codes: training cannot recover; stopped as asked


def train(batch, seed):
    """The row of one run; 0 epochs: the target was not found in MOST epochs, or training failed before."""
    rate = min(0.1 * batch / 32, 0.8)
    found = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen(
                [PROGRAM, "train", HERE / "procedural.yaml", "-n", "1", "--threads", "1", "--out", f"{folder}/run",
                 f"--set=training.phases=[{{epochs: {MOST}, global_batch: {batch}}}]", f"--set=seed={seed}",
                 f"--set=training.learning_rate={{base: {rate}, decay: constant}}", "--set=training.evaluate_every=0.25",
                 "--set=training.dataset.validation_images=500"],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
            for line in run.stderr:
                words = line.replace(":", "").split()
                if words[:3] == ["evaluation", "at", "epoch"] and found == (0, 0):
                    top1 = float(words[words.index("top-1") + 1])
                    if top1 >= 100 * TARGET:
                        found = float(words[3]), round(top1 / 100, 4)
                        run.send_signal(signal.SIGINT)
    if run.returncode not in (0, FAILED, STOPPED):
        sys.exit(f"batch {batch}, seed {seed}: training ended with {run.returncode}")
    return {name: f"{value:g}" for name, value in zip(FIELDS, (batch, seed, rate, *found))}


def write(rows):
    """All of the file."""
    with open(HERE / "batch.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    """See above."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--measure", action="store_true")
    options.add_argument("--check", action="store_true")
    asked = options.parse_args()
    if asked.measure:
        rows = []
        for batch in BATCHES:
            rows += [train(batch, seed) for seed in SEEDS]
            write(rows)
    with open(HERE / "batch.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if asked.check:
        again = next(row for row in rows if row["batch"] == "64")
        found = train(64, 1)
        sys.exit(None if found == again else f"{found}, not {again}")
    points = ",".join(f"{row['batch']}:{row['epochs']}" for row in rows if row["epochs"] != "0")
    sys.exit(subprocess.run([PROGRAM, "show", "convergence", "--points", points], check=False).returncode)


if __name__ == "__main__":
    main()
