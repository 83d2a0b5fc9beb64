#!/usr/bin/python3
"""docs/reliability.md, from docs/reliability.json alone.

  tools/reliability.py LOG     first put there what the tests of a meson log found
  tools/reliability.py --check fail when the page is stale
"""
import datetime
import json
import pathlib
import sys

import nightly

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
PAGE = """\
# Reliability

Written by `tools/reliability.py` from [reliability.json](reliability.json), which `.ci/nightly faults` fills:
{total} cases on {date}, commit {commit}, {failures} of them failures. `./test.sh` makes some of each. The tests are in
`tests/faults/`; `FORETRAIN_TEST_SEED` repeats a seed.

## Each system call fails

The n-th call of a class fails, for every n: write (no space), fsync, close (I/O error), rename, creation of a
file (read-only), pipe and memfd (too many files), mmap, fork, thread; once, from then on, and, for writes, in part
(of training each fourth of the last two). The command must give the right answer, or end with 71, 73 or 74 ([DESIGN.md](DESIGN.md), section 12) and a reason. Files
are whole or not there, no process and no temporary file is left, and `train` goes on to the same end.
Only a command that runs out of memory, which ends at once, may leave a whole file as FILE and 16 digits.
A library loaded before libc makes the calls fail, also those that libc makes itself (`tests/faults/fail.c`).

{calls}

Requests for memory fail likewise: the right answer, or 71.

{memory}

## Killed at any moment

One process of the command, by a random time, or the command itself at a random call that changes files. Nobody is
left, what is there is whole, and the next run ends as one that nothing disturbed: the same bits of `train`,
the same table of `sweep`. When `mpirun` itself is killed with SIGKILL, Open MPI leaves its session directory and
its shared memory, which `orte-clean` removes.

{kills}

## Slow ranks

Slow ranks are named, and the losses are those of an undisturbed run.

{slow}

## Changed jobs, platforms and devices

Values, keys and types are changed by the schemas that `foretrain schema` prints. What `check` accepts, `predict`
answers with finite numbers or refuses with a reason; what `check` refuses, `predict` does not answer.

{mutations}

## Checkpoints of others

What is another than in the job that goes on, and what `train --resume` does. *If allowed*: refused by name, and
taken with `--allow-change` of that name.

{checkpoints}
"""


def table(records, columns):
    """Rows of Markdown; @columns are (title, key)."""
    lines = ["| " + " | ".join(title for title, _ in columns) + " |",
             "|" + "".join("---|" if key in ("what", "result") else "---:|" for _, key in columns)]
    lines += ["| " + " | ".join(str(record[key]) for _, key in columns) + " |" for record in records]
    return "\n".join(lines)


def page(data):
    """The text."""
    def part(name, *columns):
        found = [record for record in data["records"] if record["test"] == name]
        return table(found, columns)
    what, cases, bad = ("what", "what"), ("cases", "cases"), ("failures", "failures")
    return PAGE.format(
        date=data["date"], commit=data["commit"],
        total=sum(record["cases"] for record in data["records"]),
        failures=sum(record["failures"] for record in data["records"]) or "none",
        calls=part("calls", ("command", "what"), ("calls that failed", "cases"), bad),
        memory=part("memory", ("command", "what"), ("requests that failed", "cases"), bad),
        kills=part("kills", ("command", "what"), ("kills", "cases"), ("seed", "seed"), bad),
        slow=part("slow", what, cases, bad),
        mutations=part("mutations", what, cases, ("seed", "seed"), bad),
        checkpoints=part("checkpoints", ("another", "what"), ("", "result"), bad))


def records_of(log):
    """What the tests of a log say they found, in the order of their names."""
    found = []
    for line in pathlib.Path(log).read_text(encoding="utf-8").splitlines():
        for said in json.loads(line).get("stdout", "").splitlines():
            if "record: " in said:
                found.append(json.loads(said.split("record: ", 1)[1]))
    return sorted(found, key=lambda record: record["test"])


def main(words):
    """Write or compare."""
    path = DOCS / "reliability.json"
    if words and words[0] != "--check":
        changed = nightly.git("status", "--porcelain", "-uno", "--", ".", ":!tests/nightly.json")
        data = {"date": datetime.date.today().isoformat(),
                "commit": nightly.git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else ""),
                "records": records_of(words[0])}
        lines = ",\n  ".join(json.dumps(record) for record in data["records"])
        path.write_text(f'{{"date": "{data["date"]}", "commit": "{data["commit"]}",\n "records": [\n'
                        f"  {lines}]}}\n", encoding="utf-8")
    text = page(json.loads(path.read_text(encoding="utf-8")))
    if words and words[0] == "--check":
        if text != (DOCS / "reliability.md").read_text(encoding="utf-8"):
            sys.exit("docs/reliability.md is stale: tools/reliability.py writes it")
        return
    (DOCS / "reliability.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
