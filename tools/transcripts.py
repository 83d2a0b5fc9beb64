#!/usr/bin/python3
"""The outputs shown in the documentation are what the programs print.

A place in a Markdown file that shows an output looks like this:

    <!-- run: build/foretrain predict JOB.yaml -->
    ```text
    what it prints
    ```

Usage: tools/transcripts.py [--check] [FILE...]: write the outputs anew, or with --check say which
differ (exit status 1).  FORETRAIN names the program to use for build/foretrain.
"""
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLACE = re.compile(r"<!-- run: (?P<command>.*?) -->\n(?P<fence>```(?:text|md)|<!-- -->)\n"
                   r"(?P<output>.*?)(?P<end>```|<!-- end -->)\n", re.DOTALL)


def run(command):
    """What the command prints to its standard output."""
    words = shlex.split(command)
    if words[0] == "build/foretrain":
        words[0] = os.environ.get("FORETRAIN", str(ROOT / "build" / "foretrain"))
    if not pathlib.Path(ROOT, words[0]).exists():
        sys.exit(f"{words[0]} is not there: build first (./setup.sh), or say FORETRAIN=PROGRAM")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


def rewrite(text):
    """The file with every output as it is now."""
    return PLACE.sub(lambda place: f"<!-- run: {place['command']} -->\n{place['fence']}\n"
                     f"{run(place['command'])}{place['end']}\n", text)


def files():
    """Markdown files that show an output."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.split()
    return [name for name in listed if PLACE.search((ROOT / name).read_text(encoding="utf-8"))]


def main(words):
    """Check or write the files named, or all."""
    check = "--check" in words
    different = 0
    for name in [word for word in words if word != "--check"] or files():
        path = ROOT / name
        old = path.read_text(encoding="utf-8")
        new = rewrite(old)
        if new != old and check:
            different += 1
            sys.stdout.writelines(difflib.unified_diff(
                old.splitlines(True), new.splitlines(True), name, f"{name} as it should be"))
        elif new != old:
            path.write_text(new, encoding="utf-8")
            print(f"{name}: written")
    if different:
        sys.exit("run tools/transcripts.py and say in the commit why the numbers moved")


if __name__ == "__main__":
    main(sys.argv[1:])
