#!/usr/bin/python3
"""Predict published runs from their own columns, and report how far off that is.

usage: published.py FILE.csv [--json] [--jobs DIR] [--backend analytic|sim]

A mapper, recognised by the columns of the table, turns each row into a job with what was measured,
and libforetrain predicts it.  --jobs DIR keeps the jobs: `foretrain predict DIR/0002.yaml` predicts
line 2 by hand, and `published_fit.py DIR` fits devices to them.
"""
import argparse
import contextlib
import csv
import dataclasses
import io
import json
import math
import pathlib
import re
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "app" / "library"))
import foretrain  # noqa: E402 pylint: disable=wrong-import-position
import published_language  # noqa: E402 pylint: disable=wrong-import-position
import published_mlperf  # noqa: E402 pylint: disable=wrong-import-position
import published_networks  # noqa: E402 pylint: disable=wrong-import-position

PASSES = "training.accumulate"


class Fault(Exception):
    """What is wrong with a table, and the exit code."""

    def __init__(self, text, code=65):
        super().__init__(text)
        self.code = code


# Each: NEEDED, TEXTS and NUMBERS (columns), SIGNED, IGNORED, BACKEND, and read(row) -> Mapped or Refused.
MAPPERS = [published_mlperf, published_networks.Networks, published_networks.Bert, published_language,
           published_language.Layouts]


# ---- tables ----


def read_text(path):
    """The text of a table."""
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as fault:
        raise Fault(f"cannot open {path}: {fault.strerror}", 66) from fault
    if b"\0" in data:
        raise Fault(f"{path}: error: this is not a text file")
    return data.decode("utf-8-sig", "replace")


def records(path, text):
    """The lines of a table with their numbers, without empty ones."""
    reader, line = csv.reader(io.StringIO(text, newline=""), strict=True), 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as fault:
        raise Fault(f"{path}:{line}: error: a quote is not closed") from fault


def clean(text):
    """Without characters that steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def choose_mapper(path, header):
    """The one that knows the columns."""
    for mapper in MAPPERS:
        if mapper.NEEDED <= set(header):
            break
    else:
        missing = sorted(min((mapper.NEEDED - set(header) for mapper in MAPPERS), key=len))
        raise Fault("\n".join(f"{path}:1: error: there is no column '{name}'" for name in missing))
    for k, name in enumerate(header):
        if name in header[:k]:
            raise Fault(f"{path}:1: error: cell {k + 1}: this column is there twice: '{name}'")
    return mapper


def number(text, signed, where):
    """A cell; NAN if it is empty."""
    try:
        value = float(text) if text.strip() else math.nan
    except ValueError:
        value = math.inf
    if math.isinf(value) or (text.strip() and math.isnan(value)):
        raise Fault(f"{where}: not a number: '{clean(text)}'")
    if value < 0 and not signed:
        raise Fault(f"{where}: a negative number: '{text}'")
    return value


def read_row(path, line, header, cells, mapper):
    """A line of a table as a mapping from column to text or number."""
    row = {**dict.fromkeys(mapper.TEXTS, ""), **dict.fromkeys(mapper.NUMBERS, math.nan), "line": line}
    for k, text in enumerate(cells):
        if k >= len(header):
            raise Fault(f"{path}:{line}: error: cell {k + 1}: more cells than the header has columns: '{clean(text)}'")
        if header[k] in mapper.NUMBERS:
            where = f"{path}:{line}: error: cell {k + 1}, {header[k]}"
            row[header[k]] = number(text, header[k] in mapper.SIGNED, where)
        elif header[k] in mapper.TEXTS:
            row[header[k]] = text
    if len(cells) < len(header):
        raise Fault(f"{path}:{line}: error: cell {len(cells) + 1}: the row ends here, before the columns of the header do")
    return row


def read_table(path):
    """The mapper of a table, its rows, and the columns that count for nothing."""
    lines = list(records(path, read_text(path)))
    if not lines:
        raise Fault(f"{path}:1: error: there are no columns")
    header = lines[0][1]
    mapper = choose_mapper(path, header)
    if len(lines) == 1:
        raise Fault(f"{path}:1: error: no rows below the header")
    known = {*mapper.TEXTS, *mapper.NUMBERS, *mapper.IGNORED, ""}
    return (mapper, [read_row(path, line, header, cells, mapper) for line, cells in lines[1:]],
            [name for name in header if name not in known])


# ---- predictions ----


@dataclasses.dataclass
class Answer:
    """A row and what is predicted for it."""
    row: dict
    mapped: object = None  # or what refused it
    refused: str = None
    result: dict = None
    interval: tuple = None


def mix(x):
    """SplitMix64's finaliser."""
    mask = (1 << 64) - 1
    x = (x + 0x9e3779b97f4a7c15) & mask
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & mask
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & mask
    return x ^ (x >> 31)


def way_of(draw, ways):
    """Which way a draw takes, whatever else is drawn in it: each is as likely as any other."""
    seed, stream = 1, 5
    bits = mix(mix(mix(mix(seed) ^ draw) ^ stream))
    return int(((bits >> 12) + 0.5) * 2.0 ** -52 * ways)


def quantile(values, share):
    """Between the two nearest of the sorted values."""
    values, at = sorted(values), share * (len(values) - 1)
    low = min(int(at), max(len(values) - 2, 0))
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def draw_ways(mapped, folder, steps, first):
    """The draws of a row, each in its own way to fill what the row leaves open.  Other ways are in closed form,
    longer by as much as the back end's step is in the first."""
    def closed(name, values=None):
        return foretrain.predict(folder / name, draws=True, values={**mapped.sets, **(values or {})})
    plain = mapped.without_extra
    whole = closed(mapped.names[0])["step_s"]
    bare = closed(mapped.names[0], values=plain)["step_s"] if plain else whole
    ratio = (first - (whole - bare)) / bare
    drawn = [steps]
    for name in mapped.names[1:]:
        drawn.append([ratio * step for step in closed(name)["step_draws_s"]])
    return [drawn[way_of(k, len(drawn))][k] for k in range(len(steps))]


def ask(mapped, folder, backend):
    """The answer and the step of each draw.  What each pass adds is that of the third, for a step of many takes long
    to predict."""
    def step_of(values):
        result = foretrain.predict(folder / mapped.names[0], backend=backend, grain="smoothed", draws=True,
                                   values={**mapped.sets, **values})
        return result, result.pop("step_draws_s")
    if mapped.passes <= 3:
        return step_of({})
    (fewer, few), (result, many) = (step_of({PASSES: count}) for count in (2, 3))
    more = mapped.passes - 2
    result["step_s"] = fewer["step_s"] + more * (result["step_s"] - fewer["step_s"])
    return result, [a + more * (b - a) for a, b in zip(few, many)]


def predict(answer, folder, backend):
    """Ask for a row."""
    mapped = answer.mapped
    result, steps = ask(mapped, folder, backend)
    if len(mapped.names) > 1:
        steps = draw_ways(mapped, folder, steps, result["step_s"])
    answer.result, answer.interval = result, (quantile(steps, 0.05), quantile(steps, 0.95))


def reason(mapped, fault):
    """Why foretrain refused a job: its first message, without the place in the job."""
    text = re.sub(r"^.*?error: ", "", str(fault).splitlines()[0])
    unknown = re.match("unknown network '[^']*'|keys of transformers, as", text)
    return f"network '{mapped.network}' is not built in" if unknown else f"network '{mapped.network}': {text}"


def answer_row(row, mapper, folder, backend):
    """Write the jobs of a row, and predict it."""
    answer = Answer(row)
    try:
        answer.mapped = mapper.read(row)
        for name, text in answer.mapped.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if answer.mapped.refused:
            raise mapper.Refused(answer.mapped.refused)
        predict(answer, folder, backend)
    except mapper.Refused as refused:
        answer.refused = str(refused)
    except foretrain.Error as fault:
        if not answer.mapped.network or fault.code not in (65, 66):
            raise
        answer.refused = reason(answer.mapped, fault)
    return answer


# ---- reports ----


def known(value):
    """None for what is not known."""
    return None if value is None or math.isnan(value) else value


def row_json(answer):
    """A row for programs; what was refused has a reason and no numbers."""
    row = {"line": answer.row["line"], "measured_s": None, "predicted_s": None, "interval_s": None, "error": None,
           "refused": answer.refused, "inside": None,
           **{key: answer.row.get(key, "") for key in ("round", "submitter", "system", "network")}}
    if answer.refused:
        return row
    mapped, result = answer.mapped, answer.result
    predicted, measured, (low, high) = result["step_s"], mapped.measured, answer.interval
    steps = mapped.steps * predicted
    return {**row, "measured_s": known(measured), "predicted_s": predicted, "interval_s": [low, high],
            "error": known(predicted / measured - 1 if measured else math.nan), "inside": low <= measured <= high,
            "role": mapped.role, "left_open": mapped.open or None, "nodes": mapped.nodes, "devices": mapped.devices,
            "batch_per_device": mapped.batch, "software": mapped.software, "family": mapped.family,
            "device": mapped.device, "precision": mapped.precision,
            **{key: result[key] for key in ("backend", "grain", "startup_s", "evaluation_s")},
            "memory_bytes": result["memory"]["total_bytes"],
            "first_stage_bytes": result["memory"]["first_stage_bytes"], "measured_memory_bytes": known(mapped.memory),
            "exposed_communication_s": result["step"]["exposed_communication_s"],
            "measured_evaluation_s": known(mapped.measured_evaluation),
            "time_to_train_s": known(steps + result["evaluation_s"] + result["startup_s"]),
            "measured_time_to_train_s": known(mapped.measured_train)}


def score_interval(row):
    """The score of a 90 % interval of the step's logarithm: its width, and what it misses by, twenty times."""
    low, high, measured = (math.log(value) for value in (*row["interval_s"], row["measured_s"]))
    return high - low + 20 * max(low - measured, measured - high, 0)


def sum_up(rows):
    """Errors of rows that were measured, and how many lie in their intervals."""
    rows = [row for row in rows if row["measured_s"] and not row["refused"]]
    errors = [abs(row["error"]) for row in rows]
    return {"rows": len(rows), **dict.fromkeys(("median", "p90", "worst", "coverage", "bias", "width", "interval_score")), **({
        "median": statistics.median(errors), "p90": quantile(errors, 0.9), "worst": max(errors),
        "coverage": sum(row["inside"] for row in rows) / len(rows),
        "bias": statistics.median(row["error"] for row in rows),
        "width": statistics.median(math.log(row["interval_s"][1] / row["interval_s"][0]) for row in rows),
        "interval_score": statistics.mean(map(score_interval, rows))} if rows else {})}


NOT_SCORED = ("anchor", "apart")  # what a constant is from, and what is another thing


def by_column(rows, name):
    """Sums of the rows of each value of a column, without what is not scored."""
    rows = [row for row in rows if not row["refused"] and row["role"] not in NOT_SCORED and row[name]]
    return {value: sum_up([row for row in rows if row[name] == value]) for value in sorted({row[name] for row in rows})}


def print_people(rows, summary, left_out):
    """A table, what was refused, and a line for each role."""
    print(f"{'round':5} {'system':37} {'GPUs':>6} {'batch':>5} {'predicted':>9} {'measured':>9} {'error':>8}  "
          f"{'90 % interval':20} role")
    print(f"{'':5} {'':37} {'':6} {'each':>5} {'ms/step':>9} {'ms/step':>9}")
    for row in rows:
        if row["refused"]:
            continue
        measured = (f"{1e3 * row['measured_s']:9.3f} {100 * row['error']:+6.1f} %" if row["measured_s"]
                    else f"{'-':>9} {'-':>8}")
        print(f"{clean(row['round']):5} {clean(row['system']):37.37} {row['devices']:6} {row['batch_per_device']:5} "
              f"{1e3 * row['predicted_s']:9.3f} {measured} {1e3 * row['interval_s'][0]:8.2f} ... "
              f"{1e3 * row['interval_s'][1]:<8.2f} {row['role']}")
    for row in rows:
        if row["refused"]:
            print(f"refused, line {row['line']}: {clean(row['refused'])}")
    print()
    for role, s in summary.items():
        print(f"{role:11} {s['rows']:3} rows" + (
            f": error median {100 * s['median']:.1f} %, 90th percentile {100 * s['p90']:.1f} %, worst "
            f"{100 * s['worst']:.1f} %; {100 * s['coverage']:.0f} % of the measured values lie inside their 90 % interval"
            if s["rows"] else ""))
    if left_out:
        print(f"columns left out: {clean(', '.join(left_out))}")


def main():
    """Read, predict, report."""
    words = argparse.ArgumentParser(usage=__doc__.splitlines()[2][7:], description="".join(__doc__.splitlines(True)[3:]),
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("table")
    words.add_argument("--json", action="store_true")
    words.add_argument("--jobs", metavar="DIR", type=pathlib.Path)
    words.add_argument("--backend", choices=("analytic", "sim"))
    asked = words.parse_args()
    mapper, table, left_out = read_table(asked.table)
    backend = asked.backend or (mapper.BACKEND if foretrain.simulator() else "analytic")
    with contextlib.ExitStack() as stack:
        folder = asked.jobs or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        answers = [answer_row(row, mapper, folder, backend) for row in table]
    if not asked.json and all(answer.refused for answer in answers):
        raise Fault("\n".join(f"{asked.table}:{answer.row['line']}: error: {clean(answer.refused)}" for answer in answers))
    rows = [row_json(answer) for answer in answers]
    roles = ["calibration", "check", *sorted({row["role"] for row in rows if row.get("role") in NOT_SCORED})]
    summary = {role: sum_up([row for row in rows if row.get("role") == role]) for role in roles}
    if asked.json:
        groups = {name: by_column(rows, name) for name in ("family", "device", "precision")}
        print(json.dumps({"rows": rows, "summary": summary, "by": groups, "left_out": left_out}, indent=1))
    else:
        print_people(rows, summary, left_out)


if __name__ == "__main__":
    try:
        main()
    except (Fault, foretrain.Error) as stopped:
        print(stopped, file=sys.stderr)
        sys.exit(stopped.code)
