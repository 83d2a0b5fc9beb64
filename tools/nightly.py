"""The record of .ci/nightly: parts, each with the commit and date of its last run, how many tests
passed, which failed, which were skipped and why, and a note."""
import datetime
import json
import pathlib
import subprocess

PARTS = ["full", "bare", "sanitized", "threads", "fuzz", "faults", "analysis", "studies",
         "coverage", "distributions", "packages"]
LIMIT = 50  # commits after which a part says little about today: our choice


def git(*words):
    """What git prints, or None where it fails."""
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False,
                          cwd=pathlib.Path(__file__).resolve().parents[1])
    return done.stdout.strip() if done.returncode == 0 else None


def read(path):
    """The record, empty where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(path, name, result, note):
    """Replace the part @name by (passed, failed, skipped) of the sources as they are."""
    passed, failed, skipped = result
    changed = git("status", "--porcelain", "-uno", "--", ".", f":!{path}")
    record = {**read(path), name: {
        "commit": (git("rev-parse", "--short", "HEAD") or "unknown") + ("-dirty" if changed else ""),
        "date": datetime.date.today().isoformat(), "passed": passed, "failed": failed,
        "skipped": skipped, "note": note}}
    record = {part: record[part] for part in PARTS if part in record}
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def why_skipped(part, count=lambda commit: git("rev-list", "--count", f"{commit}..HEAD")):
    """Why a part of the record counts as skipped, or ""; @count says how many commits ago one was."""
    if not part:
        return "never recorded"
    if part["commit"].endswith("-dirty"):
        return f"recorded from sources that differ from commit {part['commit'][:-6]}"
    old = count(part["commit"])
    if old is None:
        return f"its commit {part['commit']} is not in this clone"
    return f"recorded {old} commits ago, more than {LIMIT}" if int(old) > LIMIT else ""


def show(path):
    """Print the record.  Returns a line for each part that counts as skipped."""
    record = read(path)
    for name, part in record.items():
        print(f"nightly  {name} of {part['date']}, commit {part['commit']}: {part['passed']} passed, "
              f"{len(part['failed'])} failed, {len(part['skipped'])} skipped  {part['note']}".rstrip())
        for failure in part["failed"]:
            print(f"nightly  {name} failed: {failure}")
    reasons = ((name, why_skipped(record.get(name))) for name in PARTS)
    return [f"nightly: {name}: {reason}" for name, reason in reasons if reason]
