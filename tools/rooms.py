#!/usr/bin/python3
"""The table of rooms in docs/DESIGN.md: which folders there are, and what each may include.

It is the one place where that stands: check_includes.py reads it.  A row is

    | core/config | 10 | 2200 | base | what stands there |

with the number of files, of lines (to two digits), and the rooms or headers that may be included.

Usage: tools/rooms.py [--check]: bring the numbers up to date, or say what is wrong (exit status 1).
"""
import collections
import re
import sys

import project

DESIGN = project.ROOT / "docs" / "DESIGN.md"
FOLDERS = ("core", "models", "sim", "exec", "app")
SOURCES = ("*.c", "*.h", "*.cu", "*.cuh")
ROW = re.compile(r"^\| `(?P<room>[\w/]+)` \| *(?P<files>\d+) \| *(?P<lines>\d+) \|(?P<may>[^|]*)\|",
                 re.MULTILINE)
LIMIT = 25  # files: what a reader takes in at a glance
TOLERANCE = 0.15  # lines change with every commit; the table tells the size

Room = collections.namedtuple("Room", "files lines may")


def parse(text):
    """{folder: Room} of a table.  "base" in a row of core/ is core/base."""
    rooms = {}
    for match in ROW.finditer(text):
        top = match["room"].split("/")[0]
        may = []
        for word in re.findall(r"`([\w/.]+)`", match["may"]):
            may.append(word if word.split("/")[0] in FOLDERS else f"{top}/{word}")
        rooms[match["room"]] = Room(int(match["files"]), int(match["lines"]), tuple(may))
    return rooms


def read():
    """The table as it stands."""
    return parse(DESIGN.read_text(encoding="utf-8"))


def count():
    """{folder: (files, lines)} of the sources."""
    found = {}
    for path in project.files(*SOURCES):
        name = project.place(path)
        if name.split("/")[0] not in FOLDERS:
            continue
        room = name.rsplit("/", 1)[0]
        files, lines = found.get(room, (0, 0))
        found[room] = files + 1, lines + path.read_text(encoding="utf-8").count("\n")
    return found


def rounded(lines):
    """To two digits."""
    scale = 10 ** max(len(str(lines)) - 2, 0)
    return (lines + scale // 2) // scale * scale


def faults(rooms, found):
    """What the table says that is not so."""
    wrong = [f"{room}: stands in the table, but not in the tree" for room in rooms
             if room not in found]
    for room, (files, lines) in sorted(found.items()):
        if files > LIMIT:
            wrong.append(f"{room}: {files} files, more than {LIMIT}: more than one purpose?")
        if room not in rooms:
            wrong.append(f"{room}: not in the table of docs/DESIGN.md")
        elif rooms[room].files != files or abs(rooms[room].lines / lines - 1) > TOLERANCE:
            wrong.append(f"{room}: {files} files and {lines} lines, not {rooms[room].files} and "
                         f"{rooms[room].lines}; tools/rooms.py writes them")
    return wrong


def write(found):
    """Bring files and lines up to date."""
    def row(match):
        files, lines = found.get(match["room"], (0, 0))
        return f"| `{match['room']}` | {files} | {rounded(lines)} |{match['may']}|"
    text = DESIGN.read_text(encoding="utf-8")
    DESIGN.write_text(ROW.sub(row, text), encoding="utf-8")


def main():
    """Check or write."""
    found = count()
    if sys.argv[1:] != ["--check"]:
        write(found)
    project.finish(faults(read(), found), f"{len(found)} rooms")


if __name__ == "__main__":
    main()
