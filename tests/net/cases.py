"""What is measured in the lab to judge predictions, and how: all-reduces, whole training steps, and
predictions that are wrong on purpose.

Every function gives records, dictionaries that stand in docs/validation.json as they are.  The
figure of a measurement is the lower quartile of at least eight.  A case that the machine disturbed
is tried again, and stays `disturbed` after ATTEMPTS.  Nothing is fitted to any run: predictions know
the platform file, the job and the code.
"""
import itertools
import json
import pathlib
import statistics
import tempfile
import time

import harness
import lab

REPEATS = 8
ATTEMPTS = 3
STEP_TOLERANCE = 0.05     # of the step time
EXPOSED_TOLERANCE = 0.10  # of the communication that shows
SPREAD_LIMIT = 0.15       # from lower to upper quartile over the median: more is no measurement

# Platform, algorithm, what of the 4 x 4 grid lies within leaves, sizes.
ALL_REDUCES = [*itertools.product(("flat-16", "leafspine-16-4to1"), ("ring", "torus2d"), ("row", "column"),
                                  ("8MB,1MB",))]
LONG_ALL_REDUCES = [
    ("flat-16", "ring", "row", "50MB"),
    ("flat-16", "torus2d", "row", "50MB"),
    ("leafspine-16-4to1", "ring", "row", "50MB"),
    ("leafspine-16-4to1", "torus2d", "row", "50MB"),
    ("leafspine-16-4to1", "torus2d", "column", "50MB"),
]

# Platform, orientation, and what differs from step.yaml.
STEPS = [
    ("flat-16", "row", ()),
    ("leafspine-16-2to1", "row", ()),
    ("abci-mini", "row", (("nodes: 16", "nodes: 12, devices_per_node: 2"),
                          ("columns: 4, rows: 4", "columns: 6, rows: 4"))),
]

# 270000 parameters and a device that computes for nothing, so that a step takes a quarter of a
# second and the wires decide.
SMALL_JOB = """\
version: 1
model:      {network: resnet20, image: 32, classes: 10}
cluster:    {platform: t1-torus, nodes: 16}
training:
  dataset: {source: procedural, train_images: 50000, validation_images: 1000}
  phases:
    - {epochs: 1, global_batch: 64}
allreduce:  {algorithm: torus2d, grid: {columns: 4, rows: 4}, bucket: 4 MiB, overlap: none}
"""
CONTROL_PLATFORM = "leafspine-16-4to1"
# What the prediction believes, and what of its platform or placement is wrong.
CONTROLS = ["nothing wrong", "half the rate", "twice the oversubscription", "rows across leaves"]


class Broken(Exception):
    """A program did not answer at all."""


def name_of(kind, *words):
    """What a record is called."""
    return " ".join((kind, *map(str, words)))


def size_name(size):
    """8000000 as 8 MB."""
    return f"{size / 1e6:g} MB"


def ask(platform, *words, timeout):
    """The JSON answer of foretrain in the lab of a platform and its exit code."""
    done = harness.execute(*lab.words(platform), harness.PROGRAM, *words, "--json", timeout=timeout)
    if done.returncode == 69 and "this machine carries" in done.stderr or "links dropped" in done.stderr:
        return None, 75, done.stderr.strip()  # too busy to carry the lab, or packets were lost
    if not done.stdout:
        raise Broken(f"foretrain {' '.join(map(str, words))}: {done.stderr}")
    return json.loads(done.stdout), done.returncode, done.stderr.strip()


# ---- all-reduces ----

def all_reduce_record(case, predicted, measured):
    """One size of a case; @measured is the program's row."""
    platform, algorithm, order, _ = case
    return {
        "kind": "all-reduce", "platform": platform, "algorithm": algorithm, "order": order,
        "bytes": predicted["bytes"],
        "name": name_of("all-reduce", platform, algorithm, order, size_name(predicted["bytes"])),
        "predicted_s": predicted["time_s"], "measured_s": measured["time_s"],
        "median_s": measured["median_s"],
        "upper_s": measured["time_s"] + measured["spread"] * measured["median_s"],
        "runs": measured["runs"], "clean": measured["clean"],
        "error": predicted["error"], "tolerance": predicted["tolerance"],
        "verdict": predicted["verdict"], "reason": measured["reason"],
        "steal": measured["steal"], "foreign": measured["foreign"],
        "retransmits": measured["retransmits"],
    }


def all_reduce(case, repeats=REPEATS):
    """The records of one attempt at a case, one per size; empty when the lab could not be built."""
    platform, algorithm, order, sizes = case
    answer, _, _ = ask(platform, "collective", "--platform", lab.platform(platform), "--grid=4x4", "--algorithm", algorithm,
                       "--order", order, "--bytes", sizes, "--backend=sim,exec",
                       "--repeats", repeats, timeout=1200)
    rows = answer["rows"] if answer else []
    measured = {row["bytes"]: row for row in rows if row["backend"] == "exec"}
    return [all_reduce_record(case, row, measured[row["bytes"]])
            for row in rows if row["backend"] == "sim"]


def ranking(records):
    """(faster, slower, whether it was) for all pairs of one size of which one is predicted to be
    clearly faster."""
    found = []
    for a, b in itertools.combinations(records, 2):
        ratio = a["predicted_s"] / b["predicted_s"]
        if a["bytes"] == b["bytes"] and not 0.75 < ratio < 1.33:
            faster, slower = (a, b) if ratio < 1 else (b, a)
            found.append((faster, slower, faster["measured_s"] < slower["measured_s"]))
    return found


# ---- whole steps ----

def quartiles(values):
    """Lower, median, upper; linear between ranks, as the program reckons."""
    return statistics.quantiles(values, n=4, method="inclusive")


def row_of(answer, name):
    """The row of that name."""
    return next(row for row in answer["rows"] if row["name"] == name)


def step_verdict(record):
    """pass, fail or disturbed, and why; from the figures of the record alone."""
    times = record["times_s"]
    lower, median, upper = quartiles(times)
    spread = (upper - lower) / median
    if record["program_verdict"] == "disturbed":
        return "disturbed", (f"others {100 * record['foreign']:.0f} %, host "
                             f"{100 * record['steal']:.1f} %")
    if spread > SPREAD_LIMIT:
        return "disturbed", f"quartiles {100 * spread:.0f} % apart"
    exposed = abs(record["exposed_error"]) <= EXPOSED_TOLERANCE
    return "pass" if record["program_verdict"] == "pass" and exposed else "fail", ""


def step_record(case, answer):
    """What is told of a whole step."""
    platform, order, _ = case
    step, exposed = row_of(answer, "step"), row_of(answer, "waiting for gradients, parameters")
    computing = row_of(answer, "computing")
    lanes = [row_of(answer, lane) for lane in ("row", "column")]
    record = {
        "kind": "step", "name": name_of("step", platform, order), "platform": platform,
        "order": order, "ranks": answer["ranks"],
        "predicted_s": step["predicted_s"], "measured_s": step["lower_quartile_s"],
        "median_s": step["measured_s"], "upper_s": quartiles(answer["step_times_s"])[2],
        "times_s": answer["step_times_s"], "runs": answer["measured_steps"],
        "error": step["error"], "tolerance": answer["tolerance"],
        "exposed_predicted_s": exposed["predicted_s"],
        "exposed_measured_s": exposed["lower_quartile_s"],
        "exposed_error": exposed["predicted_s"] / exposed["lower_quartile_s"] - 1,
        "exposed_tolerance": EXPOSED_TOLERANCE,
        "computing_predicted_s": computing["predicted_s"],
        "computing_measured_s": computing["lower_quartile_s"],
        "communication_predicted_s": sum(lane["predicted_s"] for lane in lanes),
        "communication_measured_s": sum(lane["lower_quartile_s"] for lane in lanes),
        "program_verdict": answer["verdict"],
        **{key: answer[key] for key in ("steal", "foreign", "idle", "late_s", "latest_s", "trace_error_s")},
    }
    record["verdict"], record["reason"] = step_verdict(record)
    return record


def step(case, steps=REPEATS):
    """One attempt at a whole step; empty when the lab could not be built."""
    platform, order, changes = case
    text = (pathlib.Path(__file__).parent / "step.yaml").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "step.yaml"
        job.write_text(text, encoding="utf-8")
        answer, _, _ = ask(platform, "validate", job, f"--set=cluster.platform={lab.platform(platform)}", "--order", order,
                           "--device=replay", "--steps", steps, "--tolerance",
                           f"{100 * STEP_TOLERANCE:g}%", "--timeout=120", timeout=1200)
    return [step_record(case, answer)] if answer else []


# ---- wrong on purpose ----

def platform_with(path, *changes):
    """Write the control's platform to @path with some texts changed."""
    text = pathlib.Path(lab.platform(CONTROL_PLATFORM)).read_text(encoding="utf-8")
    for old, new in (("device: v100-mini", "device: ideal"), *changes):
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return path


def wrong_spans(folder, job, what):
    """The prediction that goes with CONTROLS."""
    changes = {"half the rate": [("value: 100 Mb/s", "value: 50 Mb/s")],
               "twice the oversubscription": [("value: 100 Mb/s, source: \"as a host",
                                               "value: 50 Mb/s, source: \"as a host")]}
    path = platform_with(folder / "wrong.yaml", *changes.get(what, ()))
    order = "column" if what == "rows across leaves" else "row"
    spans = folder / "spans"
    done = harness.run("predict", job, f"--set=cluster.platform={path}", "--order", order,
                   "--traced-ranks=0", "--spans", spans)
    if done.returncode:
        raise Broken(done.stderr)
    return spans


def control(what, steps=REPEATS):
    """One attempt: the verdict says whether a wrong prediction was refused, and the right one, of
    the same run's kind, not."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        job = folder / "small.yaml"
        job.write_text(SMALL_JOB, encoding="utf-8")
        spans = wrong_spans(folder, job, what)
        right = platform_with(folder / "right.yaml")
        answer, code, talk = ask(right, "validate", job, f"--set=cluster.platform={right}", "--device=replay", "--steps", steps, "--predicted", spans,
                                 "--tolerance=15%", "--timeout=60", timeout=170)
    if not answer:
        return []
    row = row_of(answer, "step")
    expected = 0 if what == CONTROLS[0] else 1
    verdict = "disturbed" if code == 75 else "pass" if code == expected else "fail"
    return [{
        "kind": "control", "name": name_of("control", what), "wrong": what,
        "platform": CONTROL_PLATFORM, "predicted_s": row["predicted_s"],
        "measured_s": row["lower_quartile_s"], "median_s": row["measured_s"],
        "upper_s": quartiles(answer["step_times_s"])[2], "runs": answer["measured_steps"],
        "error": row["error"], "tolerance": answer["tolerance"],
        "exit_code": code, "expected_code": expected, "verdict": verdict, "reason": talk,
        **{key: answer[key] for key in ("steal", "foreign", "idle")},
    }]


# ---- attempts ----

def attempt(measure, case, attempts=ATTEMPTS, until=None):
    """The records of @measure(@case); tried again while one is disturbed, at most @attempts times
    and not after @until [time.monotonic()]."""
    records = []
    for count in range(1, attempts + 1):
        records = measure(case) or records
        for record in records:
            record["attempts"] = count
        if records and all(record["verdict"] != "disturbed" for record in records):
            break
        if until is not None and time.monotonic() > until:
            break
    return records
