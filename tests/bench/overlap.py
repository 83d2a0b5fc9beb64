#!/usr/bin/python3
"""How much of the communication hides behind backward when ResNet-50 really trains.

Usage: overlap.py [--json] [--image N] [--batch N] [--ranks N] [--steps N] [--check SHARE] [FORETRAIN]

Two runs of the same job, all-reduces overlapped with backward and after it.  From the spans of the
overlapped one: communication is the time in which a row or column lane works, exposed is what the
compute lane waits between the end of backward and the optimizer, hidden = 1 - exposed /
communication, over all ranks and traced steps.  Where ranks leave no core idle, hidden communication
still takes its processor time from somewhere: the two step times beside it say how much was gained.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = """version: 1
model:      {{network: resnet50, image: {image}, classes: 1000}}
cluster:    {{platform: two-core, nodes: 1}}
training:
  dataset: {{source: synthetic, train_images: 100000}}
  phases:
    - {{epochs: 1, batch_per_device: {batch}}}
allreduce:  {{algorithm: torus2d, bucket: 4 MiB, overlap: {overlap}}}
"""


def lanes(program, job, ranks):
    """The lane and name of each step, as `show schedule` prints them."""
    shown = subprocess.run([program, "show", "schedule", job, "--set", "cluster.nodes=1", "--set",
                            f"cluster.devices_per_node={ranks}"], capture_output=True,
                           encoding="utf-8", check=True).stdout
    found = {}
    for line in shown.splitlines():
        words = line.split()
        if words and words[0].isdigit():
            found[int(words[0])] = (words[1], line)
    return found


def read_spans(path):
    """(iteration, rank) -> {step: (begin, end)}."""
    spans = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if len(words) == 5 and words[0].isdigit():
                iteration, rank, step = map(int, words[:3])
                spans.setdefault((iteration, rank), {})[step] = tuple(map(float, words[3:]))
    return spans


def union(intervals):
    """How long any of the intervals lasts."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def train(options, folder, overlap):
    """Step time, and for the overlapped run communication and exposed, per step and rank."""
    job = os.path.join(folder, overlap + ".yaml")
    spans = os.path.join(folder, overlap + ".spans")
    with open(job, "w", encoding="utf-8") as file:
        file.write(JOB.format(image=options.image, batch=options.batch, overlap=overlap))
    done = subprocess.run([options.program, "train", job, "-n", str(options.ranks), "--threads",
                           "1", "--steps", str(options.steps + 3), "--traced-steps",
                           str(options.steps), "--spans", spans, "--json"],
                          capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        sys.exit(done.stderr)
    step = statistics.median(s["step_s"] for s in json.loads(done.stdout)["step"][2:])
    kinds = lanes(options.program, job, options.ranks)
    compute = [step_id for step_id, (lane, _) in kinds.items() if lane == "compute"]
    optimizer, last = compute[-1], compute[-2]
    communication = exposed = backward = 0.0
    walked = read_spans(spans)
    loss = next(i for i in compute if " loss" in kinds[i][1])
    for found in walked.values():
        communication += union([found[i] for i, (lane, _) in kinds.items()
                                if lane in ("row", "column")])
        exposed += found[optimizer][0] - found[last][1]
        backward += found[last][1] - found[loss][1]
    count = len(walked)
    return {"step_s": step, "communication_s": communication / count,
            "exposed_s": exposed / count, "backward_s": backward / count}


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--image", type=int, default=96, help="pixels (96)")
    parser.add_argument("--batch", type=int, default=8, help="images per rank (8)")
    parser.add_argument("--ranks", type=int, default=2, help="ranks of one thread (2)")
    parser.add_argument("--steps", type=int, default=6, help="traced steps (6)")
    parser.add_argument("--check", type=float, help="exit status 1 when less is hidden")
    parser.add_argument("program", nargs="?", default=str(ROOT / "build" / "foretrain"))
    options = parser.parse_args()
    os.environ.setdefault("FORETRAIN_DATADIR", str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        after = train(options, folder, "none")
        during = train(options, folder, "backward")
    hidden = 1 - during["exposed_s"] / during["communication_s"]
    result = {"hidden": hidden, "overlapped": during, "after": after,
              "step_ratio": during["step_s"] / after["step_s"]}
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print(f"hidden {hidden:.0%} of {during['communication_s']:.3f} s communication in "
              f"{during['backward_s']:.3f} s backward; step {during['step_s']:.3f} s, "
              f"{after['step_s']:.3f} s without overlap ({after['communication_s']:.3f} s "
              "communication)")
    return int(options.check is not None and hidden < options.check)


if __name__ == "__main__":
    sys.exit(main())
