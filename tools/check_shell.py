#!/usr/bin/python3
"""The product never asks a shell: programs are started by argument vectors, whatever names hold."""
import re

import project

FOLDERS = ("core", "sim", "exec", "models", "app")
CODE = ("*.c", "*.h", "*.cpp", "*.hpp", "*.cu", "*.cuh")
COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|/\*.*?\*/|//[^\n]*', re.S)
SHELL = r"(?:ba|da|k|z|c|tc|fi)?sh"
BANNED = (
    (re.compile(r"\b(?:system|popen|wordexp)\s*\("), "starts a shell"),
    (re.compile(rf'"/[^"]*/{SHELL}"'), "names a shell"),
    (re.compile(rf'\b(?:exec[lv]\w*|posix_spawnp?) *\(.*"{SHELL}"'), "starts a shell"),
    (re.compile(rf'\b{SHELL}(?: +|"\s*,\s*")-\w*c\b'), "a command for a shell"),
    (re.compile(rf"#!.*\b{SHELL}\b"), "a script for a shell"),
)


def without_comments(text):
    """The text with its comments empty, but for their lines."""
    return COMMENT.sub(lambda found: found[1] or "\n" * found[0].count("\n"), text)


def faults_of(name, text):
    """Faults of one file's text."""
    return [f"{name}:{number}: {what}"
            for number, line in enumerate(without_comments(text).split("\n"), 1)
            for pattern, what in BANNED if pattern.search(line)]


def main():
    """Check every source of the programs."""
    names = [project.place(path) for path in project.files(*CODE)]
    names = [name for name in names if name.split("/")[0] in FOLDERS]
    faults = [fault for name in names
              for fault in faults_of(name, (project.ROOT / name).read_text(encoding="utf-8"))]
    project.finish(faults, f"{len(names)} files")


if __name__ == "__main__":
    main()
