#!/usr/bin/python3
"""Eight ranks in every mesh on three networks: predicted, and measured in the lab with `--device replay`; and real losses.

meshes.py            measure all (20 minutes), write meshes.csv and meshes.svg
meshes.py --table    print meshes.csv as tables
meshes.py --draw     write meshes.svg from meshes.csv
"""
import csv
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAM = os.environ.get("FORETRAIN", str(ROOT / "build" / "foretrain"))
MESHES = [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (4, 2), (1, 4), (2, 4)]  # stages, ranks that share layers
NETWORKS = {"slow": (4, 2), "fast": (4, 2), "nodes": (2, 4)}               # nodes, devices of each
STEPS = 4
PARTS = {"bubble": "waiting for stages (bubble)", "layers": "waiting in layers", "data": "waiting for gradients, parameters"}
NONE = {"predicted_s": 0, "lower_quartile_s": 0}


def answer(*words):
    """The JSON that a command prints, whatever its verdict."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, cwd=ROOT)
    if not done.stdout:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def mesh(stages, tensor):
    """Options."""
    return f"--set=parallel.pipeline={stages}", f"--set=parallel.tensor={tensor}"


def loss(stages, tensor):
    """Of the third step of real training on eight ranks, which share the processors of this machine."""
    return answer(PROGRAM, "train", HERE / "job.yaml", "-n8", "--device=cpu", "--threads=1", "--steps=3", "--json", "--quiet",
                  "--timeout=0", "--set=training.phases=[{epochs: 1, global_batch: 8}]", "--set=training.micro_batch=1",
                  "--set=cluster.platform=" + str(HERE / "platforms/nodes.yaml"), "--set=cluster.nodes=2", *mesh(stages, tensor))["loss_last"]


def measure(network, stages, tensor, found):
    """A row of meshes.csv."""
    platform = HERE / f"platforms/{network}.yaml"
    result = answer(sys.executable, ROOT / "tools/lab.py", platform, PROGRAM, "validate", HERE / "job.yaml", "--device=replay",
                    f"--steps={STEPS}", "--timeout=300", f"--set=cluster.platform={platform}",
                    f"--set=cluster.nodes={NETWORKS[network][0]}", "--json", *mesh(stages, tensor))
    rows = {row["name"]: row for row in result["rows"]}
    row = {"network": network, "stages": stages, "tensor": tensor, "replicas": 8 // stages // tensor}
    for key, name in {"step": "step", **PARTS}.items():
        row[key + "_predicted_s"] = f"{rows.get(name, NONE)['predicted_s']:.4f}"
        row[key + "_measured_s"] = f"{rows.get(name, NONE)['lower_quartile_s']:.4f}"
    row.update({"foreign": f"{result['foreign']:.2f}", "loss": f"{found:.7g}"})
    print(row, flush=True)
    return row


def read(network):
    """The rows of a network, the fastest mesh first."""
    with open(HERE / "meshes.csv", encoding="utf-8") as file:
        return sorted((row for row in csv.DictReader(file) if row["network"] == network), key=lambda row: float(row["step_predicted_s"]))


def table():
    """For Markdown: a table for each network, the fastest mesh first."""
    for network in NETWORKS:
        print(f"\n{network}\n\n| stages | tensor | replicas | predicted | measured | error | bubble | in layers | gradients |\n"
              "|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
        for row in read(network):
            step, took = float(row["step_predicted_s"]), float(row["step_measured_s"])
            parts = " | ".join(f"{float(row[p + '_predicted_s']):.2f} / {float(row[p + '_measured_s']):.2f}" for p in PARTS)
            print(f"| {row['stages']} | {row['tensor']} | {row['replicas']} | {step:.2f} s | {took:.2f} s | "
                  f"{100 * (step / took - 1):+.1f} % | {parts} |")


def picture():
    """Two bars for each mesh: its step as predicted, and as measured."""
    shapes, y, scale = [], 20, 60
    for network in NETWORKS:
        shapes.append(f'<text x="0" y="{y}" font-weight="bold">{network}</text>')
        for row in read(network):
            y += 26
            shapes.append(f'<text x="0" y="{y}">{row["stages"]} x {row["tensor"]} x {row["replicas"]}</text>')
            for offset, key, colour in ((-10, "predicted", "#4477aa"), (-1, "measured", "#bbbbbb")):
                step = float(row[f"step_{key}_s"])
                shapes.append(f'<rect x="70" y="{y + offset}" width="{scale * step:.1f}" height="8" fill="{colour}">'
                              f'<title>{key} {step:.2f} s</title></rect>')
            shapes.append(f'<text x="{78 + scale * max(float(row["step_predicted_s"]), float(row["step_measured_s"])):.1f}" y="{y + 2}">'
                          f'{float(row["step_measured_s"]):.2f} s</text>')
        y += 34
    key = (f'<text x="70" y="{y}"><tspan fill="#4477aa">predicted</tspan>, <tspan fill="#888888">measured</tspan>; '
           'stages x ranks that share layers x replicas</text>')
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 {y + 12}" font-family="sans-serif" font-size="12" role="img">',
                      "<title>The step of eight ranks in every mesh on three networks, predicted and measured</title>",
                      f'<rect width="700" height="{y + 12}" fill="white"/>', *shapes, key, "</svg>"]) + "\n"


def main():
    """Measure, draw, or print what was measured."""
    if sys.argv[1:] == ["--table"]:
        return table()
    if sys.argv[1:] == ["--draw"]:
        return (HERE / "meshes.svg").write_text(picture(), encoding="utf-8") and 0
    losses = {shape: loss(*shape) for shape in MESHES}
    rows = [measure(network, *shape, losses[shape]) for network, (_, each) in NETWORKS.items() for shape in MESHES if each % shape[1] == 0]
    with open(HERE / "meshes.csv", "w", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return (HERE / "meshes.svg").write_text(picture(), encoding="utf-8") and 0


if __name__ == "__main__":
    sys.exit(main())
