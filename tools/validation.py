#!/usr/bin/python3
"""Measure in the lab, and write docs/validation.md and its pictures from what was measured.

Usage: FORETRAIN=build/foretrain tools/validation.py [--all] [--steps] [--all-reduces] [--long]
       [--controls] [--jobs] [--again] [--attempts N] [--minutes N] [--directory DIRECTORY]

--steps, --all-reduces, --long and --controls measure the cases of tests/net/cases.py of that kind,
--jobs those of tests/exec/jobs.py, and put them into validation.json, in place of older ones; --all
measures all five, 25 minutes on a machine that does nothing else; --again leaves out what is in the
file as passed, --minutes begins no case after so many.  Without any of them the page is written from
the file as it is.  A test compares the committed page with the committed file; it measures nothing.
"""
import argparse
import datetime
import functools
import itertools
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("tools", "tests/exec", "tests/net", "tests")]

import cases              # noqa: E402  pylint: disable=wrong-import-position
import harness            # noqa: E402  pylint: disable=wrong-import-position
import jobs               # noqa: E402  pylint: disable=wrong-import-position
import this_machine       # noqa: E402  pylint: disable=wrong-import-position
import validation_page    # noqa: E402  pylint: disable=wrong-import-position

# Network and batch, ranks.
JOBS = list(itertools.product(this_machine.PREDICTED, (1, 2, 4)))


@functools.cache
def calibration(ranks):
    """One for all jobs on so many ranks."""
    return jobs.Calibration(*(["-n", ranks, "--oversubscribe"] if ranks else []))


def job(case):
    """The record of one attempt at a job; empty when this machine could not be calibrated, or was
    disturbed in all launches."""
    (network, batch), ranks = case
    made = calibration(ranks if ranks > os.cpu_count() else 0)
    if made.reason():
        return []
    record = made.job(network, batch, ranks)
    return [record] if "error" in record else []


KINDS = {
    "steps": (cases.step, cases.STEPS),
    "all_reduces": (cases.all_reduce, cases.ALL_REDUCES),
    "controls": (cases.control, cases.CONTROLS),
    "long": (cases.all_reduce, cases.LONG_ALL_REDUCES),
    "jobs": (job, JOBS),
}


def names_of(kind, case):
    """The records that a case will give."""
    if kind == "steps":
        return [cases.name_of("step", *case[:2])]
    if kind == "controls":
        return [cases.name_of("control", case)]
    if kind == "jobs":
        (network, batch), ranks = case
        return [jobs.name_of(network, batch, ranks)]
    return [cases.name_of("all-reduce", *case[:3], cases.size_name(float(size[:-2]) * 1e6))
            for size in case[3].split(",")]


def output_of(*words):
    """What a program prints, or "" where there is none."""
    try:
        return subprocess.run(words, capture_output=True, text=True, cwd=ROOT,
                              check=False).stdout.strip()
    except OSError:
        return ""


def processor():
    """What /proc/cpuinfo calls it."""
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"model name\s*: (.*)", text)
    return found.group(1) if found else platform.machine()


def describe_run():
    """Where, when and with what is measured."""
    env = json.loads(harness.run("env", "--json").stdout)
    changed = output_of("git", "status", "--porcelain", "--untracked-files=no")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": output_of("git", "rev-parse", "--short=12", "HEAD") + (
            " and changes" if changed else ""),
        "processor": processor(), "cores": os.cpu_count(), "memory_gib": round(memory / 2**30),
        "kernel": platform.release(),
        "versions": {"foretrain": env["version"], "SimGrid": env["simgrid"]["found"],
                     "Open MPI": env["mpi"]["found"], "compiler": env["compiler"],
                     "iproute2": output_of("ip", "-V").rpartition("iproute2-")[2].partition(",")[0]},
    }


def show(record):
    """One line, for those who wait."""
    print("{name:48} predicted {predicted_s:8.4f} s, measured {measured_s:8.4f} s {error:+7.4f} "
          "{verdict} {reason}".format(**record), flush=True)
    if record["kind"] == "step":
        print("{:48} predicted {exposed_predicted_s:8.4f} s, measured {exposed_measured_s:8.4f} s "
              "{exposed_error:+7.4f}".format("   of it communication that shows", **record),
              flush=True)


def measure(chosen, data, options, write):
    """Measure all cases of the @chosen kinds into @data, and @write it after each."""
    until = time.monotonic() + 60 * options.minutes
    passed = {name for name, record in data["records"].items() if record["verdict"] == "pass"}
    run = describe_run()
    for kind in chosen:
        how, all_cases = KINDS[kind]
        for case in all_cases:
            names = names_of(kind, case)
            if (options.again and passed.issuperset(names)) or time.monotonic() > until:
                continue
            records = cases.attempt(how, case, options.attempts, until)
            if not records:
                print(f"{names[0]}: this machine is too busy", flush=True)
            if records and run not in data["runs"]:
                data["runs"].append(run)
            for record in records:
                show(record)
                record["run"] = data["runs"].index(run)
                data["records"][record["name"]] = record
            write(data)


def expected_names():
    """All records a full run has."""
    return [name for kind, (_, all_cases) in KINDS.items() for case in all_cases
            for name in names_of(kind, case)]


def tidy(data):
    """Only runs that some record stands for."""
    known = expected_names()
    records = {name: data["records"][name] for name in known if name in data["records"]}
    used = sorted({record["run"] for record in records.values()})
    for record in records.values():
        record["run"] = used.index(record["run"])
    return {"schema": "foretrain/validation-page/1", "runs": [data["runs"][i] for i in used],
            "records": records}


def write_all(directory, data):
    """The file, the page and its pictures."""
    texts = {"validation.json": json.dumps(data, indent=1) + "\n", **validation_page.render(
        data, expected_names())}
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="utf-8")


def main():
    """Measure what is asked for; write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--all", action="store_true", help="measure everything")
    for kind in KINDS:
        parser.add_argument("--" + kind.replace("_", "-"), action="store_true")
    parser.add_argument("--again", action="store_true", help="leave out what has passed")
    parser.add_argument("--attempts", type=int, default=cases.ATTEMPTS,
                        help=f"at what is disturbed ({cases.ATTEMPTS})")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no case after so many")
    parser.add_argument("--directory", type=pathlib.Path, default=ROOT / "docs")
    options = parser.parse_args()
    path = options.directory / "validation.json"
    data = {"runs": [], "records": {}}
    if path.exists():
        data = json.loads(path.read_text(encoding="utf-8"))
    chosen = [kind for kind in KINDS if options.all or getattr(options, kind)]
    measure(chosen, data, options,
            lambda found: write_all(options.directory, tidy(json.loads(json.dumps(found)))))
    write_all(options.directory, tidy(data))
    records = tidy(data)["records"].values()
    bad = [record["name"] for record in records if record["verdict"] == "fail"]
    return 1 if bad else 75 if any(r["verdict"] == "disturbed" for r in records) else 0


if __name__ == "__main__":
    sys.exit(main())
