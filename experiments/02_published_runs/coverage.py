#!/usr/bin/python3
"""Predict runs on one node of a device that nobody has measured, of which there are measurements.

usage: coverage.py [--device NAME]... [TABLE.csv]

Each device of the table (single_node.csv) is left out in turn: software profiles are fitted to the runs of all
others, its device file keeps only the numbers of its data sheet, and its runs are predicted.  Prints for each device
how many runs lie inside the 90 % interval, and how wide that is beside the interval of the measured device.  Runs
under software of which no other device has one are left out.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAM = os.environ.get("FORETRAIN", str(ROOT / "build/foretrain"))
NO_DATA_SHEET = ("math_efficiency", "memory_efficiency", "kernel_overhead", "fusion", "compute_slowdown",
                 "communication_slowdown", "collective_launch", "jitter")


def foretrain(*words, data=ROOT):
    """What foretrain prints with the files in @data."""
    done = subprocess.run([PROGRAM, *map(str, words)], env={**os.environ, "FORETRAIN_DATADIR": str(data)},
                          capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"foretrain {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def device_of(job):
    """The device in the library of the platform that published.py wrote beside a job."""
    path, key = job.parent / "platforms" / job.name, "device"
    while True:
        name = re.search(rf"^{key}: (\S+)", path.read_text(encoding="utf-8"), re.M)[1]
        if not name.endswith(".yaml"):
            return name
        path, key = path.parent / name, "extends"


def software_of(job):
    """The software profile of a job."""
    return re.search(r"software: ([\w.-]+)", job.read_text(encoding="utf-8"))[1]


def leave_out(device, jobs, folder):
    """platforms/ in @folder: profiles without runs of @device, and its file with its data sheet alone."""
    shutil.copytree(ROOT / "platforms", folder / "platforms")
    others = folder / "jobs"
    shutil.copytree(jobs[0].parent, others)
    for job in jobs:
        if device_of(job) == device:
            (others / job.name).unlink()
    for old in (folder / "platforms/software").glob("*.yaml"):
        if "published_fit.py" in old.read_text(encoding="utf-8"):
            old.unlink()
    subprocess.run([HERE.parent / "published_fit.py", others, "--to", folder / "platforms/software"], check=True,
                   capture_output=True)
    path = folder / f"platforms/devices/{device}.yaml"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if line.split(":")[0] not in NO_DATA_SHEET),
                    encoding="utf-8")


def predict(job, data):
    """The step, the ends of its interval, and the measured step [s]."""
    answer = json.loads(foretrain("predict", job, "--json", "-banalytic", "--ignore-memory", data=data))
    measured = float(re.search(r"^measured: {step: ([\d.]+) ms", job.read_text(encoding="utf-8"), re.M)[1])
    return answer["step_s"], answer["step_s_low"], answer["step_s_high"], measured / 1e3


def cover(device, jobs):
    """A row of the table, of the runs of @device."""
    own = [job for job in jobs if device_of(job) == device]
    with tempfile.TemporaryDirectory() as name:
        leave_out(device, jobs, pathlib.Path(name))
        left = {path.stem for path in (pathlib.Path(name) / "platforms/software").glob("*.yaml")}
        own = [job for job in own if software_of(job) in left]
        new = [predict(job, name) for job in own]
    known = [predict(job, ROOT) for job in own]

    def width(rows):
        return statistics.median((high - low) / step for step, low, high, _ in rows)

    def inside(rows):
        return sum(low <= measured <= high for _, low, high, measured in rows)
    error = statistics.median(step / measured - 1 for step, _, _, measured in new)
    return device, len(own), inside(new), inside(known), width(new), width(known), error


def main(words):
    """Print the table."""
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1].split("\n", 1)[0])
    parser.add_argument("--device", action="append")
    parser.add_argument("table", nargs="?", default=HERE / "single_node.csv")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([sys.executable, ROOT / "experiments/published.py", options.table, "--jobs", name,
                        "--backend", "analytic"], stdout=subprocess.DEVNULL, check=False)
        jobs = sorted(pathlib.Path(name).glob("*.yaml"))
        devices = options.device or sorted({device_of(job) for job in jobs})
        print("| device | runs | inside | inside, measured | width | width, measured | error |\n"
              "| --- | --: | --: | --: | --: | --: | --: |")
        rows = []
        for device in devices:
            rows.append(cover(device, jobs))
            row = rows[-1]
            print(f"| `{row[0]}` | {row[1]} | {row[2]} | {row[3]} | {row[4]:.0%} | {row[5]:.0%} | "
                  f"{row[6]:+.1%} |", flush=True)
        runs, new, known = (sum(row[i] for row in rows) for i in (1, 2, 3))
        print(f"\n{len(rows)} devices, {runs} runs: {new / runs:.0%} inside, of measured devices {known / runs:.0%}; "
              f"mean of devices {statistics.mean(row[2] / row[1] for row in rows):.0%}; median width "
              f"{statistics.median(row[4] for row in rows):.0%} of the step, of measured devices "
              f"{statistics.median(row[5] for row in rows):.0%}")


if __name__ == "__main__":
    main(sys.argv[1:])
