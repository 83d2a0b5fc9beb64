#!/usr/bin/python3
"""Predict the runs of this folder's tables, and write predictions.csv, README.md and the pictures.

usage: report.py            predict, write everything anew
       report.py --baseline predict, write baseline.csv: what a later model is compared with
"""
import csv
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parent / "published.py"
TABLES = ("single", "multi", "bert")
KEPT = ("table", "line", "role", "family", "network", "system", "device", "precision", "software", "nodes", "devices",
        "batch_per_device", "measured_s", "predicted_s", "low_s", "high_s", "left_open")


# ---- rows ----


def predict(table):
    """The answer about a table."""
    done = subprocess.run([sys.executable, SCRIPT, HERE / f"{table}.csv", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def kept(table, row):
    """What predictions.csv keeps of a row."""
    low, high = row["interval_s"]
    row = {**row, "table": table, "low_s": low, "high_s": high}
    return {key: f"{row[key]:.6g}" if isinstance(row[key], float) else row[key] for key in KEPT}


def read(name):
    """The rows of predictions.csv or baseline.csv that were measured."""
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["measured_s"]]
    for row in rows:
        for key in ("measured_s", "predicted_s", "low_s", "high_s"):
            row[key] = float(row[key])
        row["ratio"] = row["predicted_s"] / row["measured_s"]
        row["inside"] = row["low_s"] <= row["measured_s"] <= row["high_s"]
    return rows


def write(name, rows):
    """Write such a table."""
    with (HERE / name).open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, KEPT, lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


# ---- scores ----


def quantile(values, share):
    """Between the two nearest of the sorted values."""
    values, at = sorted(values), share * (len(values) - 1)
    low = min(int(at), max(len(values) - 2, 0))
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def interval_score(row):
    """Of a 90 % interval of the step's logarithm (Gneiting and Raftery 2007, eq. 43)."""
    low, high, measured = (math.log(row[key]) for key in ("low_s", "high_s", "measured_s"))
    return high - low + 20 * max(low - measured, measured - high, 0)


def cells(rows):
    """Number, errors, bias, coverage and score of rows as words."""
    errors = [abs(row["ratio"] - 1) for row in rows]
    return [str(len(rows)), *(f"{100 * quantile(errors, share):.0f} %" for share in (0.5, 0.9)),
            f"{100 * (statistics.median(row['ratio'] for row in rows) - 1):+.0f} %",
            f"{100 * statistics.mean(row['inside'] for row in rows):.0f} %",
            f"{statistics.mean(map(interval_score, rows)):.2f}"]


HEAD = ["rows", "median error", "90th percentile", "median with sign", "inside 90 %", "interval score"]


def markdown(head, rows):
    """A table; the first column is words."""
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def by(rows, key):
    """Scores of each value of a column, many rows first."""
    groups = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return [[name, *cells(group)] for name, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))]


def parts(rows):
    """The parts that are scored: one device, one node, several nodes, and what is apart."""
    scored = [row for row in rows if row["role"] != "apart"]
    # The tables of BERT repeat runs of multi.csv in another form: each counts once.
    once = [row for row in scored if row["table"] != "bert" or row["family"] != "BERT"]
    return {"one device": [row for row in scored if row["table"] == "single"],
            "one node, several devices": [row for row in once if row["table"] == "multi" and row["nodes"] == "1"],
            "several nodes": [row for row in once if row["table"] == "multi" and row["nodes"] != "1"],
            "BERT, bert.csv": [row for row in scored if row["table"] == "bert"],
            "scored apart": [row for row in rows if row["role"] == "apart" and row["table"] != "bert"]}


def worst(rows, count=12):
    """The largest errors, one of each network, device and precision."""
    seen, lines = set(), []
    for row in sorted(rows, key=lambda row: -abs(math.log(row["ratio"]))):
        key = (row["family"], row["device"], row["precision"])
        if key not in seen and len(lines) < count:
            seen.add(key)
            lines.append([f"{row['network']}, {row['device']}, {row['precision']}", row["devices"], row["batch_per_device"],
                          f"{100 * (row['ratio'] - 1):+.0f} %", "yes" if row["inside"] else "no"])
    return lines


def refusals(answers):
    """How many rows are refused, by reason."""
    count = {}
    for answer in answers.values():
        for row in answer["rows"]:
            if row["refused"]:
                reason = re.sub(r"^network '[^']*':? ?", "", row["refused"])
                if "not built in" in reason:
                    reason = f"the network is not built in ({row['network'].lower()})"
                elif "device" not in reason:
                    reason = re.sub(r"\b\d+(\.\d+)?\b", "N", reason)
                count[reason] = count.get(reason, 0) + 1
    return [[reason, str(number)] for reason, number in sorted(count.items(), key=lambda item: (-item[1], item[0]))]


# ---- pictures ----

WIDE, LEFT, TOP, STEP, SPAN = 760, 170, 50, 26, math.log(4)


def picture(height, shapes, wide=WIDE):
    """An SVG file."""
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {height}" font-family="sans-serif" '
                      f'font-size="12">', f'<rect width="{wide}" height="{height}" fill="white"/>', *shapes, "</svg>"]) + "\n"


def families_picture(rows):
    """Predicted over measured, a line of dots for each family and precision."""
    groups = {}
    for row in rows:
        groups.setdefault(f'{row["family"]}, {row["precision"]}', []).append(row)
    left = max(LEFT, 50 + 7 * max(len(name) for name in groups))

    def place(ratio):
        return left + (WIDE - LEFT - 20) * (0.5 + max(-1, min(1, math.log(ratio) / SPAN)) / 2)
    bottom = TOP + STEP * len(groups)
    shapes = [f'<text x="{left}" y="20">predicted over measured step; filled: inside the 90 % interval; dashed: 10 % '
              'off</text>']
    for ratio in (0.25, 0.5, 0.9, 1, 1.1, 2, 4):
        dash = ' stroke-dasharray="4 4"' if ratio in (0.9, 1.1) else ""
        shapes.append(f'<line x1="{place(ratio):.1f}" y1="{TOP - 10}" x2="{place(ratio):.1f}" y2="{bottom}" '
                      f'stroke="#999999"{dash}/>')
        if not dash:
            shapes.append(f'<text x="{place(ratio):.1f}" y="{bottom + 16}" text-anchor="middle">{ratio:g}</text>')
    for k, (name, group) in enumerate(sorted(groups.items())):
        y = TOP + STEP * (k + 0.5)
        shapes.append(f'<text x="{left - 10}" y="{y + 4:.1f}" text-anchor="end">{name} ({len(group)})</text>')
        for i, row in enumerate(group):
            colour = "#228833" if row["inside"] else "#cc3311"
            shapes.append(f'<circle cx="{place(row["ratio"]):.1f}" cy="{y - 6 + 12 * ((i * 0.618) % 1):.1f}" r="3" '
                          f'fill="{colour if row["inside"] else "none"}" stroke="{colour}"><title>{row["network"]} on '
                          f'{row["device"]}</title></circle>')
    return picture(bottom + 30, shapes, WIDE + left - LEFT)


def curves(rows):
    """Runs of NVIDIA's example by device and precision, more devices last."""
    found = {}
    for row in rows:
        if row["table"] == "bert" and row["system"].startswith("DGX") and row["role"] != "apart":
            found.setdefault((row["device"], row["precision"]), []).append(row)
    return {key: sorted(group, key=lambda row: int(row["devices"])) for key, group in found.items() if len(group) >= 4}


def scaling_picture(rows):
    """Efficiency against devices, predicted (lines) and measured (dots), of BERT-large at one global batch."""
    groups, height = curves(rows), 380

    def x_of(devices):
        return 60 + 620 * math.log2(int(devices)) / 8

    def y_of(part):
        return 40 + 280 * (1.05 - part) / 0.3
    shapes = ['<text x="60" y="20">BERT-large, one global batch: sequences/s of a device over those of one; lines predicted, dots '
              'measured</text>', '<rect x="60" y="40" width="620" height="280" fill="none" stroke="#999999"/>']
    for power in range(0, 9):
        shapes.append(f'<text x="{x_of(2 ** power):.1f}" y="336" text-anchor="middle">{2 ** power}</text>')
    for part in (0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05):
        shapes.append(f'<text x="54" y="{y_of(part) + 4:.1f}" text-anchor="end">{part:.2f}</text>')
    for k, ((device, precision), group) in enumerate(sorted(groups.items())):
        colour = ("#4477aa", "#228833", "#cc3311", "#aa3377", "#ccbb44", "#66ccee")[k % 6]
        for key in ("predicted_s", "measured_s"):
            work = [int(row["batch_per_device"]) / row[key] for row in group]
            points = [(x_of(row["devices"]), y_of(rate / work[0])) for row, rate in zip(group, work)]
            if key == "predicted_s":
                path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
                shapes.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
            else:
                shapes += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in points]
        shapes.append(f'<text x="76" y="{230 + 16 * k}" fill="{colour}">{device}, {precision}</text>')
    shapes.append('<text x="370" y="360" text-anchor="middle">devices</text>')
    return picture(height, shapes, 700)


# ---- the page ----


def figures(answers, rows):
    """The tables of the page by name."""
    scored = parts(rows)
    single, several = scored["one device"], [row for name in list(scored)[1:3] for row in scored[name]]
    old = {(row["table"], row["line"]): row for row in read("baseline.csv")}
    both = [(row, old[row["table"], row["line"]]) for row in rows if (row["table"], row["line"]) in old]
    compared = []
    for name, group in scored.items():
        here = {(row["table"], row["line"]) for row in group}
        pairs = [pair for pair in both if (pair[0]["table"], pair[0]["line"]) in here]
        if pairs:
            now, then = (cells([pair[k] for pair in pairs]) for k in (0, 1))
            compared.append([name, now[0], *(f"{a} ({b})" for a, b in zip(now[1:], then[1:]))])
    return {
        "parts": markdown(["", *HEAD], [[name, *cells(group)] for name, group in scored.items() if group]),
        "families": markdown(["one device", *HEAD], by(single, "family")),
        "devices": markdown(["one device", *HEAD], by(single, "device")),
        "precisions": markdown(["one device", *HEAD], by(single, "precision")),
        "nodes": markdown(["several devices", *HEAD], by(several, "family")),
        "baseline": markdown(["with one efficiency in brackets", *HEAD], compared),
        "worst": markdown(["run", "devices", "batch a device", "error", "inside"], worst(single) + worst(several)),
        "refused": markdown(["reason", "rows"], refusals(answers))}


# Rows of README.md: kinds of networks, and their families here.
VALIDATED = (("other dense convolutions: ResNet, VGG, DenseNet, Inception", ("ResNet", "VGG", "DenseNet", "Inception")),
             ("grouped and depthwise: ResNeXt, RegNet, MobileNet, EfficientNet", ("ResNeXt", "RegNet", "depthwise")),
             ("BERT, ViT", ("BERT", "ViT")), ("detectors: SSD, RetinaNet, Mask R-CNN", ("detection",)))


def validated(rows):
    """What is known of which networks, for README.md."""
    scored = parts(rows)
    groups = [scored["one device"], scored["one node, several devices"] + scored["several nodes"]]
    lines = []
    for name, families in VALIDATED:
        line = [name]
        for group in groups:
            chosen = [row for row in group if row["family"] in families]
            score = cells(chosen) if chosen else []
            line.append(f"{score[1]}, {score[2]}; {score[4]} of {score[0]}" if chosen else "no runs")
        lines.append(line)
    page = (HERE.parents[1] / "docs" / "accuracy.md").read_text("utf-8")
    known = [re.search(rf"^\| {name} \|.*\| (\S+(?: %)?) \| \S+(?: %)? \|$", page, re.MULTILINE)[1]
             for name in ("median", "90th percentile", "coverage", "rows")]
    return markdown(["networks", "one device", "several devices"], [
        ["ResNet-50", "fitted to it", f"{known[0]}, {known[1]}; {known[2]} of {known[3]}"], *lines])


def replace(path, tables):
    """Write tables between their marks."""
    page = path.read_text("utf-8")
    for name, text in tables.items():
        before, rest = page.split(f"<!-- {name} -->\n")
        page = f"{before}<!-- {name} -->\n{text}\n<!-- end -->{rest.split('<!-- end -->', 1)[1]}"
    path.write_text(page, encoding="utf-8")


def main():
    """Predict and write."""
    answers = {table: predict(table) for table in TABLES}
    rows = [kept(table, row) for table, answer in answers.items() for row in answer["rows"] if not row["refused"]]
    if "--baseline" in sys.argv[1:]:
        write("baseline.csv", rows)
        return
    write("predictions.csv", rows)
    rows = read("predictions.csv")
    replace(HERE / "README.md", figures(answers, rows))
    replace(HERE.parents[1] / "README.md", {"validated": validated(rows)})
    (HERE / "families.svg").write_text(families_picture([row for row in rows if row["role"] != "apart" and row["table"] != "bert"]), encoding="utf-8")
    (HERE / "scaling.svg").write_text(scaling_picture(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
