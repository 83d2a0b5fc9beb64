"""Logs of training: the lines in which Megatron-LM, Megatron Bridge, NeMo, torchtitan and Composer report steps.

Such a line has the time of a step, or the tokens that a device reads in a second.  All ranks may print it.  The first
step contains what is done once and is left out; so are those with another global batch than the last.
"""
import re
import statistics

from draft import Refused, number, plural, streams

REAL = r"(\d[\d,]*\.?\d*(?:[eE][+-]?\d+)?)"
# What a line reports, and in which unit: of a step, or "tokens" a second of a device.
LINES = (("Megatron", 1e-3, re.compile(rf"\biteration +\d+/.*\belapsed time per iteration \(ms\): *{REAL}")),
         ("NeMo", 1, re.compile(rf"\btrain_step_timing in s[=:] *{REAL}")),
         ("torchtitan", "tokens", re.compile(rf"\bstep: *\d+ .*\b[tw]ps: *{REAL}")),
         ("Composer", "tokens", re.compile(rf"\bthroughput/device/tokens_per_sec: *{REAL}")))
STEP = re.compile(r"\bglobal_step[=:] *(\d+)|\b(?:iteration|step:) *(\d+)")
BATCH = re.compile(r"\bglobal[ _]batch[ _]size[=:]? *(\d{1,9})\b")
WORLD = re.compile(r"\bworld[ _]size[ .:=]+(\d{1,9})\b|\bMEMBER: \d+/(\d{1,9})\b")
FACTS = {fact: re.compile(rf"\b{fact}[_-]model[_-]parallel[_ ]size[ .:=]+(\d{{1,9}})\b") for fact in ("tensor", "pipeline")}
LEAST = 3  # steps, or lines that are means of some


def reported(row, line):
    """(step, line, framework, unit, value, global batch or 0) of a line, or None."""
    for framework, unit, pattern in LINES:
        if found := pattern.search(line):
            value, step, batch = number(found[1].replace(",", "")), STEP.search(line), BATCH.search(line)
            if not value or value <= 0:
                raise Refused("expected a number above 0", row)
            return step[0] if step else row, row, framework, unit, value, int(batch[1]) if batch else 0
    return None


def read(draft, text, *_):
    """Fill @draft."""
    found = [[each for row, line in lines if (each := reported(row, line))] for lines in streams(text)]
    rows = list({step: rest for step, *rest in max(found, key=len, default=[])}.values())
    if not rows:
        raise Refused("no line reports a step as Megatron-LM, NeMo, torchtitan or Composer do, such as "
                      "'iteration 5/ 100 | ... | elapsed time per iteration (ms): 4250.3 |'", len(text.splitlines()))
    last, framework, unit, _, batch = rows[-1]
    for row, other, *_ in rows:
        if other != framework:
            raise Refused(f"a step of {other} in a log of {framework}: give the log of one run", row)
    alike = [value for *_, value, own in rows[1:] if own == batch]
    if len(alike) < LEAST:
        raise Refused(f"{plural(len(alike), 'step')} with the same global batch after the first: at least {LEAST} are needed", last)
    low, median, high = statistics.quantiles(alike, n=4)
    worlds = {int(found[1] or found[2]) for found in WORLD.finditer(text)}
    if len(worlds) > 1:
        raise Refused(f"devices of several runs, {' and '.join(map(str, sorted(worlds)))}: give the log of one")
    draft.note(f"{len(alike)} steps of {framework}; {len(rows) - len(alike)} left out: the first, and those with another global batch")
    draft.put(steps={"tokens" if unit == "tokens" else "seconds": median if unit == "tokens" else median * unit,
                     "spread": (high - low) / 1.349 / median, "count": len(alike), "devices": worlds.pop() if worlds else 0,
                     "batch": batch, **{fact: int(told[1]) for fact, pattern in FACTS.items() if (told := pattern.search(text))}})
