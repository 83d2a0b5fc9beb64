"""What all readers share: refusals, and the draft of a platform that they print.

A draft is one JSON object, which app/import/import.h reads and completes.  A reader sees only the
bytes on its standard input: it opens, runs and fetches nothing.
"""
import math
import re

LINK_LIMIT = 10  # kinds of cable inside a node
VERTEX_LIMIT = 64  # of each kind inside a node
KINDS = ("devices", "switches", "cpus", "nics")


class Refused(Exception):
    """Why a file is not read."""

    def __init__(self, text, line=None, column=None, code=65):
        super().__init__(text)
        self.line, self.column, self.code = line, column, code

    def __str__(self):
        place = "" if self.line is None else f":{self.line}"
        place += "" if self.column is None else f":{self.column}"
        return f"{place}: {self.args[0]}"


def plain(text):
    """@text as no terminal obeys it."""
    return "".join(c if c.isprintable() else "?" for c in text)


def number(text):
    """The finite number @text, or None."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def plural(count, word):
    """"1 card", "2 cards"."""
    return f"{count} {word}{'' if count == 1 else 's'}"


# What mpirun --tag-output, srun --label, hydra's -l and kubectl's --prefix put before each line of a process; and colours and
# times of day, as kubectl's --timestamps and mpirun's --timestamp-output.
LABEL = re.compile(r"(?:\[[^\]\s]*\d\]<std(?:out|err|diag)>: ?|\[\d+\] | *\d+: |\[pod/[^\]\s]+\] )?")
NOISE = re.compile(r"\x1b\[[\d;]*m|^\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d) |^\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}(?=\[)")


def streams(text):
    """[(number, line)] of each process whose lines are marked, and of those that are not, in order."""
    found = {}
    for row, line in enumerate(text.splitlines(), 1):
        line = NOISE.sub("", line)
        key = LABEL.match(line).group()
        found.setdefault(key.rstrip(), []).append((row, NOISE.sub("", line[len(key):]).strip()))
    return list(found.values())


class Draft:
    """A platform so far, in the keys of app/import/import.h."""

    def __init__(self, name):
        self.name = name  # of the file, without folders: for sources
        self.document = {"understood": [], "assumed": [], "warnings": []}
        self.counts = dict.fromkeys(KINDS, 0)
        self.links, self.cables = {}, {}
        self.merged = 0  # kinds of cable beyond the limit

    def note(self, line):
        """What was found."""
        self.document["understood"].append(line)

    def assume(self, line):
        """What the file does not say."""
        self.document["assumed"].append(line)

    def warn(self, line):
        """What makes the platform of little use as it is."""
        self.document["warnings"].append(line)

    def put(self, **members):
        """Set members of the document."""
        self.document.update(members)

    def link(self, name, **quantities):
        """The kind of cable called @name; quantities are (value, kind, source)."""
        if name not in self.links and len(self.links) == LINK_LIMIT:
            self.merged += 1
            return list(self.links)[-1]
        self.links.setdefault(name, {"name": name, **quantities})
        return name

    def value(self, link):
        """Bandwidth of a kind of cable that is reached [bytes/s]."""
        found = self.links[link]
        return found["bandwidth"][0] * found.get("efficiency", (0.9,))[0]

    def connect(self, one, other, link):
        """A cable between two vertices (kind, index), unless there is one."""
        pair = frozenset((one, other))
        if len(pair) == 2 and pair not in self.cables:
            self.cables[pair] = (one, other, link)

    def path(self, start, end):
        """The kinds of cable on the shortest way between two vertices; [] where there is none.  Devices
        and cards forward nothing."""
        ways = {start: []}
        queue = [start]
        for at in queue:
            if at != start and at[0] in ("devices", "nics"):
                continue
            for one, other, link in self.cables.values():
                if at in (one, other):
                    to = other if at == one else one
                    if to not in ways:
                        ways[to] = ways[at] + [link]
                        queue.append(to)
        return ways.get(end, [])

    def finish(self):
        """The document with its node."""
        if self.merged:
            self.note(f"{plural(self.merged, 'kind')} of cable beyond {LINK_LIMIT} are counted as the last of these")
        first, total = {}, 0
        for kind in KINDS:
            first[kind] = total
            total += self.counts[kind]
        names = list(self.links)
        self.put(vertices=[self.counts[kind] for kind in KINDS], links=list(self.links.values()),
                 cables=[[first[one[0]] + one[1], first[other[0]] + other[1], names.index(link)]
                         for one, other, link in self.cables.values()])
        return self.document
