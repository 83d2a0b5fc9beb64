#!/usr/bin/python3
"""Count what really ran in the last `meson test` of each build directory or log given.

A cmocka or unittest program counts as its cases, any other test as one.  Skipped tests are named
with their reason, failed ones with their build.  A build without a log counts as one failure.
The last line is "N passed, N failed, N skipped".  A part of a nightly record that is missing or old
counts as skipped.
"""
import argparse
import json
import pathlib
import re
import sys

import nightly

CMOCKA = {
    "passed": re.compile(r"^\[       OK \] (\S+)", re.M),
    "failed": re.compile(r"^\[  FAILED  \] (\w+)$", re.M),
    "skipped": re.compile(r"^\[  SKIPPED \] (\w+)$", re.M),
}
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in", re.M)
UNITTEST_BAD = re.compile(r"^(?:FAIL|ERROR): (\S+)", re.M)
UNITTEST_SKIP = re.compile(r"^(\w+) .*\.\.\. skipped ['\"](.*)['\"]$", re.M)
UNITTEST_SKIP_COUNT = re.compile(r"skipped=(\d+)")


def last_line(text):
    """The last line with something on it: by convention the reason of a skip."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def cmocka_cases(output):
    """(passed, failed names, [(skipped name, reason)]) of a cmocka program, or None."""
    found = {state: pattern.findall(output) for state, pattern in CMOCKA.items()}
    if not any(found.values()):
        return None
    # A failed case is listed again in cmocka's own summary.
    failed = sorted(set(found["failed"]))
    skipped = [(name, "skipped by the case itself") for name in sorted(set(found["skipped"]))]
    return len(found["passed"]), failed, skipped


def unittest_cases(output):
    """The same for Python's unittest."""
    ran = UNITTEST_RAN.search(output)
    if not ran:
        return None
    failed = UNITTEST_BAD.findall(output)
    skipped = UNITTEST_SKIP.findall(output)
    count = UNITTEST_SKIP_COUNT.search(output)
    unnamed = int(count.group(1)) - len(skipped) if count else 0
    skipped += [("a case", "reason shown only with unittest's verbosity=2")] * unnamed
    return int(ran.group(1)) - len(failed) - len(skipped), failed, skipped


def count(record):
    """(passed, failed names, [(skipped name, reason)]) of one test program."""
    output = record.get("stdout", "") + "\n" + record.get("stderr", "")
    if record["result"] == "SKIP":
        return 0, [], [("", last_line(output))]
    good = record["result"] in ("OK", "EXPECTEDFAIL")
    passed, failed, skipped = (cmocka_cases(output) or unittest_cases(output)
                               or (int(good), [], []))
    if not good and not failed:
        # It crashed, timed out or leaked: no case says so.
        failed = [record["result"].lower()]
    return passed, failed, skipped


def collect(builds):
    """(passed, failed, skipped) of all builds; what failed and was skipped are lines."""
    passed, failed, skipped = 0, [], []
    for build in builds:
        log = pathlib.Path(build) / "meson-logs" / "testlog.json"
        if pathlib.Path(build).suffix == ".json":
            log = pathlib.Path(build)
        if not log.exists():
            failed.append(f"{build}: did not build or run")
            continue
        for line in log.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            name = f"{log.parts[-3]}: {record['name'].split(' / ')[-1]}"
            good, bad, skips = count(record)
            passed += good
            failed += [f"{name}: {case}" for case in bad]
            skipped += [f"{name} {case}".rstrip() + f": {reason}" for case, reason in skips]
    return passed, failed, skipped


def main():
    """Print the names, then the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nightly", type=pathlib.Path, help="print this record of .ci/nightly")
    parser.add_argument("--record", nargs=2, metavar=("RECORD", "PART"), help="write a part of it")
    parser.add_argument("--note", default="", help="what else to record")
    parser.add_argument("builds", nargs="+", metavar="BUILD|LOG")
    words = parser.parse_args()
    passed, failed, skipped = collect(words.builds)
    if words.record:
        nightly.write(pathlib.Path(words.record[0]), words.record[1], (passed, failed, skipped),
                      words.note)
    if words.nightly:
        skipped += nightly.show(words.nightly)
    for line in skipped:
        print(f"skipped  {line}")
    for line in failed:
        print(f"failed   {line}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
