#!/usr/bin/python3
"""Run gcc's analyzer and clang-tidy over the C sources of the product.  usage: analyze.py BUILD

A finding fails unless tests/style/analyzed.txt justifies it; so does a justification of nothing.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("app", "core", "exec", "models", "sim")
FINDING = re.compile(r"^(?P<file>[^\s:]+):\d+:\d+: (?:warning|error): .* \[(?P<check>[-\w.,]+)\]$",
                     re.M)
NOT_OF_CLANG = ("-fvect-cost-model", "-fanalyzer")


def name_of(path, directory):
    """The file as the project calls it, or None outside of it."""
    path = (pathlib.Path(directory) / path).resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else None


def findings(entry):
    """Lines "file check" of one compilation, and what cannot be analyzed."""
    command = [word for word in shlex.split(entry["command"]) if word != "ccache"]
    command[command.index("-o") + 1] = os.devnull
    del command[command.index("-MD"):command.index("-o")]  # what the build depends on stays
    flags = [word for word in command[1:] if not word.startswith(NOT_OF_CLANG)]
    found = set()
    for run in (command + ["-fanalyzer", "-Wno-error", "-fdiagnostics-color=never"],
                ["clang-tidy-14", "--quiet", entry["file"], "--", *flags, "-Wno-everything"]):
        result = subprocess.run(run, cwd=entry["directory"], text=True, capture_output=True)
        told = {f"{name_of(match['file'], entry['directory'])} {match['check']}"
                for match in FINDING.finditer(result.stdout + result.stderr)}
        if result.returncode and not told:
            told = {f"{entry['file']}: {result.stderr}"}
        found |= told
    return found


def main():
    """Compare what is found with what is justified."""
    if not shutil.which("clang-tidy-14"):
        print("clang-tidy-14 is not installed")
        return 77
    build = pathlib.Path(sys.argv[1])
    entries = {entry["file"]: entry
               for entry in json.loads((build / "compile_commands.json").read_text())
               if entry["file"].endswith(".c")
               and (name_of(entry["file"], entry["directory"]) or "").startswith(ROOMS)}
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = set().union(*pool.map(findings, entries.values()))
    text = (ROOT / "tests/style/analyzed.txt").read_text()
    justified = {" ".join(line.split()[:2]) for line in text.splitlines()
                 if line and not line.startswith("#")}
    for line in sorted(found - justified):
        print(f"new: {line}")
    for line in sorted(justified - found):
        print(f"no more: {line}")
    print(f"{len(entries)} files, {len(found)} findings, {len(found & justified)} of them justified")
    return found != justified


if __name__ == "__main__":
    sys.exit(main())
