"""The golden numbers: every experiment on every back end, as rows of results.csv."""
import csv

from harness import ROOT, answer, part

TABLE = ROOT / "tests" / "golden" / "results.csv"

KEY = ["scenario", "backend"]
WORDS = ["grain", "bound_by", "schedule_hash"]
NUMBERS = ["devices", "step_s", "compute_s", "exposed_communication_s", "images_per_s",
           "scaling_efficiency", "baseline_images_per_s", "time_to_train_s"]


def backends():
    """Those that this build has."""
    return ["analytic", "sim"] if part("foretrain-sim") else ["analytic"]


def scenarios():
    """Every experiment, by its path from the root."""
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("experiments/*/*.yaml"))


def compute(scenario, backend):
    """One row: texts and numbers by column."""
    result = answer("predict", ROOT / scenario, "--backend", backend)
    step = result["step"]
    rate = "images_per_s" if "images_per_s" in result else "samples_per_s"  # of what is no picture
    flat = {**result, "images_per_s": result[rate], "compute_s": step["compute_s"],
            "exposed_communication_s": step["exposed_communication_s"],
            "baseline_images_per_s": result["baseline"]["images_per_s"], "scenario": scenario}
    return {column: flat[column] for column in KEY + WORDS + NUMBERS}


def read():
    """The committed rows, numbers as numbers."""
    with TABLE.open(encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table))
    for row in rows:
        row.update({column: float(row[column]) for column in NUMBERS})
    return rows


def write(rows):
    """Replace the committed rows."""
    with TABLE.open("w", encoding="utf-8", newline="") as table:
        writer = csv.DictWriter(table, KEY + WORDS + NUMBERS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, **{column: f"{row[column]:.12g}" for column in NUMBERS}})
