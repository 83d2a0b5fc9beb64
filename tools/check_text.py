#!/usr/bin/python3
"""Text files are tidy and hold nothing that only means something on one machine or desk."""
import re

import project

PATTERNS = ("*.c", "*.h", "*.cpp", "*.hpp", "*.cu", "*.cuh", "*.py", "*.sh", "*.md", "*.yaml",
            "*.scd", "*.txt", "*.csv", "*.svg", "*.ipynb", "*.bash", "meson.build")
BANNED = (
    (re.compile(r"(?<![\w.~])/(?:home|work|root|Users|mnt|build)/\w"), "a path of one machine"),
    (re.compile(r"\b(?:issue|ticket|PR|bug) ?#?\d+\b|(?:^|\s)#\d+\b", re.I), "a ticket number"),
    (re.compile(r"\b(?:T[O]DO|FIX[M]E)\b(?!\(\w+\))"), "a to-do without an owner"),
    (re.compile(r"\b(?:this|previous|last|next) session\b", re.I), "talk about how it was made"),
)
# A .csv may come from elsewhere with its own idea of spaces.
SPACING = (
    (re.compile(r"[ \t]+$"), "blanks at the end of the line"),
    (re.compile(r"\t"), "a tab"),
    (re.compile("[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]"), "an invisible character"),
)


def faults_of(name, text):
    """Faults of one file's text."""
    faults = []
    rules = BANNED if name.endswith((".csv", ".scd")) else BANNED + SPACING
    for number, line in enumerate(text.split("\n"), 1):
        faults += [f"{name}:{number}: {what}" for pattern, what in rules if pattern.search(line)]
    if text and not text.endswith("\n"):
        faults.append(f"{name}: no newline at the end")
    if text.endswith("\n\n"):
        faults.append(f"{name}: empty lines at the end")
    return faults


def main():
    """Check every text file of the project."""
    # What lies in tests/bad is wrong on purpose.
    paths = [path for path in project.files(*PATTERNS)
             if not project.place(path).startswith("tests/bad/")]
    faults = [fault for path in paths
              for fault in faults_of(project.place(path), path.read_text(encoding="utf-8"))]
    project.finish(faults, f"{len(paths)} files")


if __name__ == "__main__":
    main()
