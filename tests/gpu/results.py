#!/usr/bin/python3
"""Write what acceptance.sh measured into the table of docs/gpu.md.

Usage: acceptance.sh --results DIRECTORY...

Each DIRECTORY holds the acceptance.json of a call.  A row's command names its parts: the row gets the
results of those that no row above has, failures like passes.  Of two runs of a part the later one
counts.  A line below
the table says on what machine and with what versions each run was made.
"""
import json
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "gpu.md"
# A row of the table, in front of the result and behind it, with the parts.
ROW = re.compile(r'^(\|[^|]*\|[^|]*\| ).*( \| `tests/gpu/acceptance\.sh .*--only "([^"]*)"` \|)$',
                 re.MULTILINE)
RUN = re.compile(r"^\* \d{4}-\d\d-\d\d \d\d:\d\d: .*\n", re.MULTILINE)
NOTHING = re.compile(r"\*\*Nothing on this page was measured on a GPU yet\.\*\*[^\n]*\n(?:[^\n]+\n)*\n")
VERSIONS = {"commit": "commit", "driver": "driver", "cuda": "CUDA", "cudnn": "cuDNN",
            "nccl": "NCCL", "torch": "PyTorch"}


def when(machine):
    """"2026-11-26 09:30", of the machine's record."""
    return machine["date"][:16].replace("T", " ")


def latest(calls):
    """{part: (time, what it came to)} of all that were run."""
    found = {}
    for call in sorted(calls, key=lambda call: call["machine"]["date"]):
        for part in call["parts"]:
            if part["verdict"] != "skip":
                figure = " ".join(part["figure"].replace("|", "/").split())
                found[part["name"]] = when(call["machine"]), f"{part['verdict']}: {figure}"
    return found


def run_line(machine):
    """Of one call, in a list."""
    versions = ", ".join(f"{word} {machine.get(key) or 'unknown'}"
                         for key, word in VERSIONS.items())
    return f"* {when(machine)}: {machine['name']}, {versions}\n"


def filled(page, calls):
    """The page with the results of calls."""
    found, above = latest(calls), {"build"}

    def row(match):
        parts = [name for name in match[3].split(",") if name not in above and name[:5] != "plans"]
        above.update(parts)
        told = [f"{told} ({time})" for name, (time, told) in found.items()
                if name.split(":")[0] in parts]
        return f"{match[1]}{'; '.join(told)}{match[2]}" if told else match[0]
    page, last = ROW.sub(row, page), None
    for last in ROW.finditer(page):
        pass
    runs = sorted({*RUN.findall(page), *(run_line(call["machine"]) for call in calls)})
    table, rest = RUN.sub("", page[:last.end()]), RUN.sub("", page[last.end():]).lstrip("\n")
    page = f"{table}\n\n{''.join(runs)}\n{rest}"
    return NOTHING.sub("", page)


def main():
    """Read, write."""
    if len(sys.argv) < 2:
        print("usage: acceptance.sh --results DIRECTORY...", file=sys.stderr)
        return 64
    try:
        calls = [json.loads(pathlib.Path(folder, "acceptance.json").read_text(encoding="utf-8"))
                 for folder in sys.argv[1:]]
    except OSError as error:
        print(f"acceptance: {error}", file=sys.stderr)
        return 66
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), calls), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
