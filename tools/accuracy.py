#!/usr/bin/python3
"""Write docs/accuracy.md and docs/accuracy.svg: every published run, predicted and measured.

Usage: FORETRAIN=build/foretrain tools/accuracy.py [DIRECTORY [ANSWER [--quick]]]

ANSWER is what `foretrain published runs.csv --json` printed.  Without a directory the committed pages are
replaced.  tests/app/test_published.py compares them with fresh ones, so they cannot go stale.  With --quick the row
about submitters never seen, for which profiles are fitted to all others, stays as it is committed.
"""
import csv
import itertools
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RUNS = ROOT / "experiments" / "02_published_runs"
PROGRAM = os.environ.get("FORETRAIN", str(ROOT / "build" / "foretrain"))

BAR = {"median": 0.05, "p90": 0.12, "worst": 0.25}
NAMES = {"median": "median", "p90": "90th percentile", "worst": "worst"}
COLOURS = {"V100": "#4477aa", "V100S": "#4477aa", "A100": "#228833", "H100": "#cc3311",
           "L40S": "#aa3377"}


def ask(*words, **env):
    """The JSON answer of a command."""
    done = subprocess.run([PROGRAM, *map(str, words), "--json"], cwd=ROOT, capture_output=True,
                          text=True, check=False, env={**os.environ, **env})
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def published(name, *words, **env):
    """What experiments/published.py answers about a table; rows that it refuses are left out."""
    done = subprocess.run([sys.executable, ROOT / "experiments" / "published.py", RUNS / name, "--json", *words],
                          capture_output=True, text=True, check=True, env={**os.environ, **env})
    answer = json.loads(done.stdout)
    return {**answer, "rows": [row for row in answer["rows"] if not row["refused"]]}


def read(name):
    """The rows of a table beside the runs."""
    with (RUNS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def percent(fraction):
    """A signed percentage."""
    return f"{100 * fraction:+.1f} %"


def table(head, rows):
    """A Markdown table; all columns but the first two are numbers."""
    rule = ["---", "---"] + ["--:"] * (len(head) - 2)
    lines = [head, rule[:len(head)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def summary(answer):
    """Reached against asked, for the rows nothing was fitted to."""
    check, fitted = answer["summary"]["check"], answer["summary"]["calibration"]
    rows = [[NAMES[key], "error of the step time", f"{100 * limit:.0f} %",
             f"{100 * check[key]:.1f} %", f"{100 * fitted[key]:.1f} %"]
            for key, limit in BAR.items()]
    rows.append(["coverage", "measured inside the 90 % interval", "80 to 97 %",
                 f"{100 * check['coverage']:.0f} %", f"{100 * fitted['coverage']:.0f} %"])
    rows.append(["rows", "", "", str(check["rows"]), str(fitted["rows"])])
    return table(["", "of", "bar", "several nodes (check)", "one node (calibration)"], rows)


def checked(answer):
    """The rows nothing was fitted to."""
    return [row for row in answer["rows"] if row["role"] == "check" and row["measured_s"]]


def interval_score(rows):
    """Gneiting and Raftery 2007, eq. 43, for 90 %, over the measured value: the width, and 20 times
    what a value lies outside.  Lower is better."""
    scores = []
    for row in rows:
        (low, high), measured = row["interval_s"], row["measured_s"]
        outside = max(0, low - measured, measured - high)
        scores.append((high - low + 20 * outside) / measured)
    return sum(scores) / len(scores)


def clusters(rows):
    """Rows of one submitter and kind of machine: they err together."""
    found = {}
    for row in rows:
        found.setdefault((row["submitter"].lower(), row["family"]), []).append(row)
    return list(found.values())


def mean(values):
    """Their mean."""
    values = list(values)
    return sum(values) / len(values)


def score_cells(name, rows):
    """Errors, coverage and interval score, by row and by cluster."""
    errors = [abs(row["error"]) for row in rows]
    groups = clusters(rows)
    of_groups = [quantile([abs(row["error"]) for row in group], 0.5) for group in groups]
    return [name, f"{len(rows)} in {len(groups)}",
            f"{100 * quantile(errors, 0.5):.1f} %", f"{100 * quantile(errors, 0.9):.1f} %",
            f"{100 * quantile(of_groups, 0.5):.1f} %",
            f"{100 * mean(row['inside'] for row in rows):.0f} %",
            f"{100 * mean(mean(row['inside'] for row in group) for group in groups):.0f} %",
            f"{interval_score(rows):.3f}"]


def without(submitter, jobs):
    """The runs of @submitter, by software profiles fitted to the runs of all others, of which @jobs has the jobs."""
    with tempfile.TemporaryDirectory() as data:
        data = pathlib.Path(data)
        (data / "platforms").mkdir()
        for path in (ROOT / "platforms").iterdir():
            if path.name != "software":
                (data / "platforms" / path.name).symlink_to(path)
        others = data / "others"
        others.mkdir()
        (others / "platforms").symlink_to(jobs / "platforms")
        (others / "devices").symlink_to(jobs / "devices")
        for line, row in enumerate(read("single_node.csv"), 2):
            if row["submitter"].lower() != submitter:
                (others / f"{line:04d}.yaml").write_bytes((jobs / f"{line:04d}.yaml").read_bytes())
        subprocess.run([ROOT / "experiments" / "published_fit.py", others, "--to",
                        data / "platforms" / "software"], check=True, capture_output=True)
        rows = [row for row in read("runs.csv") if row["submitter"].lower() == submitter]
        with (data / "runs.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        answer = published(data / "runs.csv", FORETRAIN_DATADIR=str(data))
    return [row for row in checked(answer) if row["predicted_s"]]


def unseen_cells(rows, name="those of other submitters"):
    """The scores of machines of submitters never seen."""
    if "--quick" in sys.argv:
        text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
        return next(row for row in text.splitlines() if row.startswith(f"| {name} |"))[2:-2].split(" | ")
    with tempfile.TemporaryDirectory() as jobs:
        published("single_node.csv", "--backend=analytic", f"--jobs={jobs}")
        unseen = [row for submitter in sorted({row["submitter"].lower() for row in rows})
                  for row in without(submitter, pathlib.Path(jobs))]
    return score_cells(name, unseen)


def scores(answer):
    """How good the intervals are, and whether that holds for machines of submitters never seen."""
    rows = checked(answer)
    return table(["profiles fitted to", "rows in clusters", "median error", "90th percentile",
                  "median of clusters", "coverage", "of clusters", "interval score"],
                 [score_cells("all runs on one node", rows), unseen_cells(rows)])


def throughput(row, key):
    """Images per second."""
    return row["devices"] * row["batch_per_device"] / row[key]


def what_ifs(answer):
    """Pairs of runs that differ in size: predicted against measured ratio of throughput."""
    rows = [row for row in answer["rows"] if row["measured_s"] and row["predicted_s"]]
    pairs, ranked, errors = [], [], []
    for a, b in itertools.combinations(rows, 2):
        if a["round"] != b["round"]:
            continue
        predicted, measured = (throughput(b, key) / throughput(a, key)
                               for key in ("predicted_s", "measured_s"))
        ranked.append((predicted > 1) == (measured > 1))
        kin = [row["submitter"] + row["family"] for row in (a, b)]
        if kin[0] == kin[1] and a["devices"] != b["devices"]:
            errors.append(abs(math.log(predicted / measured)))
            pairs.append([a["round"], a["submitter"], a["family"],
                          f"{a['devices']} to {b['devices']}", f"{predicted:.3f}",
                          f"{measured:.3f}", percent(predicted / measured - 1)])
    head = ["round", "submitter", "family", "GPUs", "predicted", "measured", "error"]
    return (f"{len(pairs)} pairs: |log(predicted / measured)| is {100 * quantile(errors, 0.5):.1f} % "
            f"in the median and {100 * quantile(errors, 0.9):.1f} % at the 90th percentile (aims: 4 "
            f"and 15 %). Of {len(ranked)} pairs of one round, of any submitter, "
            f"{sum(ranked)} are ranked right.\n\n" + table(head, pairs))


def row_cells(row):
    """One run as cells."""
    low, high = row["interval_s"]
    mark = "" if row["inside"] else " (outside)"
    return [row["round"], f"`{row['system']}`", str(row["devices"]), str(row["batch_per_device"]),
            f"{1e3 * row['measured_s']:.2f}", f"{1e3 * row['predicted_s']:.2f}",
            percent(row["error"]), f"{1e3 * low:.2f} ... {1e3 * high:.2f}{mark}"]


def runs(answer, role):
    """All runs of a role, the worst first."""
    rows = [row for row in answer["rows"] if row["role"] == role]
    rows.sort(key=lambda row: -abs(row["error"]))
    return table(["round", "system", "GPUs", "images each", "measured ms", "predicted ms", "error",
                  "90 % interval"], [row_cells(row) for row in rows])


def causes(answer):
    """What is believed to be behind each error above the 90th percentile's bar."""
    known = {(row["round"], row["system"]): row["cause"] for row in read("causes.csv")}
    lines = []
    for row in sorted(answer["rows"], key=lambda row: -abs(row["error"])):
        if row["role"] == "check" and abs(row["error"]) > BAR["p90"]:
            cause = known.get((row["round"], row["system"]), "not explained")
            lines.append(f"* `{row['system']}` ({row['round']}, {percent(row['error'])}): {cause}")
    return "\n".join(lines) if lines else "None."


def quantile(values, fraction):
    """Between the two nearest of the sorted values, as the program reckons."""
    values, at = sorted(values), fraction * (len(values) - 1)
    low = min(int(at), len(values) - 2)
    return values[low] + (at - low) * (values[low + 1] - values[low])


def train_rows(answer):
    """Runs of several nodes whose time to train is known."""
    return [row for row in answer["rows"] if row["role"] == "check" and row["time_to_train_s"]
            and row["measured_time_to_train_s"]]


def train(answer):
    """Errors of the time to train with the predicted step, and with the measured one."""
    def cells(name, predict):
        errors = [abs(predict(row) / row["measured_time_to_train_s"] - 1)
                  for row in train_rows(answer)]
        return [name, f"{len(errors)} runs",
                *(f"{100 * quantile(errors, part):.1f} %" for part in (0.5, 0.9, 1.0))]

    def steps(row):
        return row["time_to_train_s"] - row["startup_s"] - row["evaluation_s"]

    def measured(row):
        return steps(row) * row["measured_s"] / row["predicted_s"]

    rows = [cells("all predicted", lambda row: row["time_to_train_s"]),
            cells("**start-up and evaluations predicted, steps as measured**",
                  lambda row: measured(row) + row["startup_s"] + row["evaluation_s"]),
            cells("steps as measured alone", measured)]
    return table(["time to train", "", "median error", "90th percentile", "worst"], rows)


def evaluations(answer):
    """How much longer evaluations took than predicted, in the median."""
    return quantile([row["measured_evaluation_s"] / row["evaluation_s"]
                     for row in train_rows(answer) if row["measured_evaluation_s"]], 0.5)


def own_points(row):
    """The epochs of other runs of the row's submitter in its round, as points of a recipe."""
    epochs = {}
    for other in read("runs.csv") + read("single_node.csv"):
        if (other["round"] == row["round"] and other["system"] != row["system"]
                and other["submitter"].lower() == row["submitter"].lower()):
            epochs.setdefault(int(float(other["global_batch"])), {})[other["system"]] = float(
                other["epochs_mean"])
    return ", ".join(f"{{batch: {batch}, epochs: {sum(runs.values()) / len(runs):.4g}}}"
                     for batch, runs in sorted(epochs.items()))


def to_target(row, directory):
    """The answer to a run's job when its epochs are not given."""
    scenario = pathlib.Path(directory) / f"{row['line']:04d}.yaml"
    recipe = "rcp-nvidia" if row["round"] >= "v1.0" else f"{{points: [{own_points(row)}]}}"
    target = "74.9 %" if row["round"] == "v0.5" else "75.9 %"
    batch = row["batch_per_device"]
    return ask("predict", scenario, "--set", f"training.phases=[{{batch_per_device: {batch}}}]",
               "--set", f"training.target={target}", "--set", f"training.recipe={recipe}",
               "--set", "training.extrapolate=true", "--set", "device.iteration_overhead=0 us")


def target_group(row):
    """In which group a run is scored: batches up to 3328 take the epochs that their recipe says."""
    if row["round"] < "v1.0":
        return 1
    return 2 if row["devices"] * row["batch_per_device"] <= 3328 else 0


GROUPS = ("v1.0 on, batches between the reference points", "before v1.0, from the round's other runs",
          "v1.0 on, batch up to 3328: a constant of the recipe")


def score(pairs):
    """Errors of pairs (run, answer) as cells."""
    errors = [abs(result["time_to_train_s"] / row["measured_time_to_train_s"] - 1)
              for row, result in pairs]
    epochs = [abs(result["epochs"] / float(row["epochs"]) - 1) for row, result in pairs]
    given = [abs(row["time_to_train_s"] / row["measured_time_to_train_s"] - 1) for row, _ in pairs]
    inside = sum(result["time_to_train_s_low"] <= row["measured_time_to_train_s"]
                 <= result["time_to_train_s_high"] for row, result in pairs)
    return [f"{len(pairs)}", f"{100 * quantile(epochs, 0.5):.1f} %",
            f"{100 * quantile(errors, 0.5):.1f} %", f"{100 * quantile(errors, 0.9):.1f} %",
            f"{100 * quantile(given, 0.5):.1f} %",
            f"{inside} of {len(pairs)} ({100 * inside / len(pairs):.0f} %)"]


def target_cells(row, result):
    """One run as cells."""
    measured = row["measured_time_to_train_s"]
    low, high = result["time_to_train_s_low"], result["time_to_train_s_high"]
    mark = "" if low <= measured <= high else " (outside)"
    return [row["round"], f"`{row['system']}`", str(row["devices"] * row["batch_per_device"]),
            row["epochs"], f"{result['epochs']:.1f}", f"{measured:.1f}",
            f"{result['time_to_train_s']:.1f}",
            percent(result["time_to_train_s"] / measured - 1),
            f"{low:.1f} ... {high:.1f}{mark}"]


def targets(answer):
    """Time to train when the epochs are predicted too: the summary, and the runs that inform."""
    given = {(row["round"], row["system"]): row["epochs_mean"] for row in read("runs.csv")}
    with tempfile.TemporaryDirectory() as directory:
        published("runs.csv", "--backend=analytic", "--jobs", directory)
        pairs = [({**row, "epochs": given[row["round"], row["system"]]}, to_target(row, directory))
                 for row in train_rows(answer) if row["submitter"] != "Fujitsu"]
    pairs.sort(key=lambda pair: (pair[0]["round"], pair[0]["system"]))
    groups = [[pair for pair in pairs if target_group(pair[0]) == k] for k in range(len(GROUPS))]
    summary_rows = [[GROUPS[k], *score(group)] for k, group in enumerate(groups)]
    summary_rows.append(["**all**", *score(pairs)])
    return (table(["runs of several nodes", "number", "epochs: median error",
                   "time to train: median error", "90th percentile",
                   "median error with the epochs given", "inside the 90 % interval"], summary_rows)
            + "\n\n" + table(["round", "system", "batch", "epochs", "predicted", "measured s",
                              "predicted s", "error", "90 % interval"],
                             [target_cells(*pair) for group in groups[:2] for pair in group]))


def quantity(record, result):
    """The published figure of a record, the predicted one, its interval, and how to write them."""
    key, factor, form = {
        "efficiency": ("scaling_efficiency", 1, "{:.1%}"),
        "minutes": ("time_to_train_s", 1 / 60, "{:.2f} min"),
        "images/s": ("images_per_s", 1, "{:,.0f} images/s"),
    }.get(record["quantity"], ("step_s", 1e3, "{:.1f} ms"))
    return (float(record["published"]), factor * result[key],
            [factor * result[f"{key}_{end}"] for end in ("low", "high")], form)


FREE = [word for key in ("compute_slowdown=0 %", "communication_slowdown=0 %", "collective_launch=0 s")
        for word in ("--set", f"device.{key}")]


def records():
    """The records that are not in MLPerf."""
    rows, inside, inside_free = [], 0, 0
    for record in read("records.csv"):
        published, predicted, (low, high), form = quantity(record,
                                                           ask("predict", record["scenario"]))
        _, free, (least, most), _ = quantity(record, ask("predict", record["scenario"], *FREE))
        inside += low <= published <= high
        inside_free += least <= published <= most
        difference = (f"{100 * (predicted - published):+.1f} points"
                      if record["quantity"] == "efficiency" else percent(predicted / published - 1))
        rows.append([record["work"], f"[{record['quantity']}](../{record['scenario']})",
                     form.format(published), form.format(predicted), difference,
                     f"{form.format(low)} ... {form.format(high)}"
                     + ("" if low <= published <= high else " (outside)"),
                     f"{form.format(free)}, {form.format(least)} ... {form.format(most)}"])
    return (table(["work", "quantity", "published", "predicted", "difference", "90 % interval",
                   "if overlap were free"], rows)
            + f"\n\n{inside} of {len(rows)} published figures lie inside the intervals; "
            f"{inside_free} if overlap were free.")


PAGE = (ROOT / "tools" / "accuracy.md.in").read_text(encoding="utf-8")


def page(answer):
    """The whole page."""
    return PAGE.format(summary=summary(answer), scores=scores(answer),
                       what_ifs=what_ifs(answer), check=runs(answer, "check"), causes=causes(answer),
                       calibration=runs(answer, "calibration"), train=train(answer),
                       evaluations=evaluations(answer), targets=targets(answer),
                       records=records())


SIDE, EDGE, LOW, HIGH = 460, 60, 4.0, 250.0


def place(value_ms):
    """Position along an axis."""
    return SIDE * math.log(value_ms / LOW) / math.log(HIGH / LOW)


def line(factor, style):
    """predicted = factor x measured, inside the frame."""
    first, last = max(LOW, LOW / factor), min(HIGH, HIGH / factor)
    return (f'<line x1="{EDGE + place(first):.1f}" y1="{EDGE + SIDE - place(first * factor):.1f}" '
            f'x2="{EDGE + place(last):.1f}" y2="{EDGE + SIDE - place(last * factor):.1f}" '
            f'{style}/>')


def mark(row):
    """One run: a disc for several nodes, a ring for one, and its interval."""
    x = EDGE + place(1e3 * row["measured_s"])
    y, low, high = (EDGE + SIDE - place(1e3 * value)
                    for value in (row["predicted_s"], *row["interval_s"]))
    colour = COLOURS.get(row["family"], "#555555")
    fill = colour if row["role"] == "check" else "white"
    return (f'<line x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}" stroke="{colour}" '
            f'stroke-opacity="0.5"/>\n<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" '
            f'stroke="{colour}"><title>{row["system"]}</title></circle>')


def picture(answer):
    """Predicted against measured on logarithmic axes."""
    size = SIDE + 2 * EDGE
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" '
             f'font-family="sans-serif" font-size="12">',
             f'<rect width="{size}" height="{size}" fill="white"/>',
             f'<rect x="{EDGE}" y="{EDGE}" width="{SIDE}" height="{SIDE}" fill="none" '
             'stroke="#999999"/>']
    for tick in (5, 10, 20, 50, 100, 200):
        x, y = EDGE + place(tick), EDGE + SIDE - place(tick)
        parts.append(f'<text x="{x:.1f}" y="{EDGE + SIDE + 16}" text-anchor="middle">{tick}</text>')
        parts.append(f'<text x="{EDGE - 6}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>')
    parts.append(line(1, 'stroke="#333333"'))
    parts += [line(factor, 'stroke="#333333" stroke-dasharray="4 4"') for factor in (0.9, 1.1)]
    parts += [mark(row) for row in answer["rows"] if row["measured_s"]]
    middle = EDGE + SIDE / 2
    parts.append(f'<text x="{middle}" y="{size - 16}" text-anchor="middle">measured ms per step'
                 '</text>')
    parts.append(f'<text x="18" y="{middle}" text-anchor="middle" '
                 f'transform="rotate(-90 18 {middle})">predicted ms per step</text>')
    for i, (family, colour) in enumerate((f, c) for f, c in COLOURS.items() if f != "V100S"):
        parts.append(f'<circle cx="{EDGE + 14}" cy="{EDGE + 16 + 18 * i}" r="4" fill="{colour}"/>'
                     f'<text x="{EDGE + 24}" y="{EDGE + 20 + 18 * i}">{family}</text>')
    parts.append(f'<text x="{EDGE}" y="{EDGE - 14}">discs: several nodes, rings: one node; bars: '
                 '90 % interval; dashed: 10 % off</text>')
    return "\n".join(parts) + "\n</svg>\n"


def main():
    """Write both pages."""
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs"
    answer = (json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")) if len(sys.argv) > 2
              else published("runs.csv"))
    (directory / "accuracy.md").write_text(page(answer), encoding="utf-8")
    (directory / "accuracy.svg").write_text(picture(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
