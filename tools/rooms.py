"""The table of rooms in docs/DESIGN.md: which folders there are, and what each may include.

It is the one place where that stands: check_includes.py reads it.  A row is

    | `core/config` | `base` | contents |

with the rooms or headers that may be included.
"""
import re

import project

DESIGN = project.ROOT / "docs" / "DESIGN.md"
FOLDERS = ("core", "models", "sim", "exec", "app")
SOURCES = ("*.c", "*.h", "*.cu", "*.cuh")
ROW = re.compile(r"^\| `(?P<room>[\w/]+)` \|(?P<may>[^|]*)\|", re.MULTILINE)
LIMIT = 25  # files: what a reader takes in at a glance


def parse(text):
    """{folder: what it may include} of a table.  "base" in a row of core/ is core/base."""
    rooms = {}
    for match in ROW.finditer(text):
        top = match["room"].split("/")[0]
        if top not in FOLDERS:  # the programs
            continue
        rooms[match["room"]] = tuple(word if word.split("/")[0] in FOLDERS else f"{top}/{word}"
                                     for word in re.findall(r"`([\w/.]+)`", match["may"]))
    return rooms


def read():
    """The table as it stands."""
    return parse(DESIGN.read_text(encoding="utf-8"))


def count():
    """{folder: number of its sources}."""
    found = {}
    for path in project.files(*SOURCES):
        name = project.place(path)
        if name.split("/")[0] in FOLDERS:
            room = name.rsplit("/", 1)[0]
            found[room] = found.get(room, 0) + 1
    return found


def faults(rooms, found):
    """What the table says that is not so."""
    wrong = [f"{room}: in the table, but not in the tree" for room in rooms if room not in found]
    for room, files in sorted(found.items()):
        if files > LIMIT:
            wrong.append(f"{room}: {files} files, more than {LIMIT}: more than one purpose?")
        if room not in rooms:
            wrong.append(f"{room}: not in the table of docs/DESIGN.md")
    return wrong
