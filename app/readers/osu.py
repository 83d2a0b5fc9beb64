"""OSU micro-benchmarks: osu_latency, osu_bw, osu_allreduce and osu_iallreduce.

A file may contain several tables.  The title says what one is of, its head what the columns are.
"""
import re

from draft import Refused, number, plural, streams

TITLE = re.compile(r"#\s*(OSU \S.*)")
OURS = re.compile(r"OSU MPI(?P<device>(?:-\w+)*) (?P<test>Latency|Bandwidth|(?:Non-blocking )?Allreduce Latency) Test\b")
COLUMN = re.compile(r"Size|Iterations|Validation|[^\s()][^()]*\([^)]*\)(?: Tail Lat\(us\))?")
# Of each test: the list of its rows, the column that counts, seconds of its unit.
LATENCY, BANDWIDTH, ALL_REDUCE = "osu_latency", "osu_bw", "osu_allreduce"
TESTS = {"Latency": (LATENCY, ("Avg Latency", "Latency")), "Bandwidth": (BANDWIDTH, ("Bandwidth",)),
         "Allreduce Latency": (ALL_REDUCE, ("Avg Latency", "Latency")),
         "Non-blocking Allreduce Latency": (ALL_REDUCE, ("Pure Comm.",))}
UNITS = {"us": 1e-6, "ms": 1e-3, "MB/s": 1e6}


class Tables:
    """What has been read so far."""

    def __init__(self):
        self.rows = {LATENCY: [], BANDWIDTH: [], ALL_REDUCE: []}  # (size, value in SI)
        self.count = dict.fromkeys(self.rows, 0)
        self.others, self.devices = [], False
        self.wrong = 0  # sizes whose validation failed
        self.now = None  # rows that are being read, or None
        self.titled, self.column, self.unit = False, None, None

    def title(self, line):
        """A table begins."""
        found = OURS.match(line)
        self.titled, self.now, self.column = True, None, None
        if not found:
            self.others.append(re.sub(r" v[\d.]+$", "", line.strip()))
            return
        self.now, self.wanted = TESTS[found["test"]]
        self.count[self.now] += 1
        self.devices = self.devices or bool(found["device"])

    def head(self, row, line):
        """The names of its columns."""
        names = COLUMN.findall(line.lstrip("# "))
        for index, name in enumerate(names):
            title, _, unit = name.rstrip(")").partition("(")
            if title.strip() in self.wanted:
                self.column, self.unit = index, UNITS.get(unit)
        if self.column is None or not self.unit:
            raise Refused(f"expected a column '{self.wanted[0]}' in us or MB/s", row)

    def numbers(self, row, line):
        """One size."""
        words = line.split()
        values = [number(words[i]) if i < len(words) else None for i in (0, self.column)]
        if None in values or values[0] < 0 or values[1] <= 0:
            raise Refused("expected a size and a number above 0; remove lines of other programs", row)
        self.wrong += "Fail" in words
        if values[0] > 0 and "Fail" not in words:
            self.rows[self.now].append((values[0], values[1] * self.unit))


def read_lines(tables, lines):
    """All lines of one process."""
    for row, line in lines:
        if found := TITLE.match(line):
            tables.title(found[1])
        elif tables.now and line.startswith("#") and re.match(r"#\s*Size\b", line):
            tables.head(row, line)
        elif line[:1].isdigit():
            if not tables.titled:
                raise Refused("numbers without a title '# OSU MPI ... Test' above them; keep the lines that begin "
                              "with #", row)
            if tables.now and tables.column is None:
                tables.column, tables.unit = 1, UNITS["MB/s" if tables.now == BANDWIDTH else "us"]
                if "Pure Comm." in tables.wanted:
                    raise Refused("numbers without the head '# Size  Overall(us) ... Pure Comm.(us)'", row)
            if tables.now:
                tables.numbers(row, line)


def read_pair(draft, tables, nodes):
    """Two ranks, on two nodes unless the user says one."""
    if nodes > 2:
        raise Refused(f"--nodes {nodes}: must be 1 or 2 for osu_latency and osu_bw", code=64)
    if not nodes:
        draft.assume("the two ranks were on 2 nodes; --nodes 1 says otherwise")
    draft.put(description="fitted to OSU micro-benchmarks",
              pair={"nodes": nodes or 2, "latency": tables.rows[LATENCY],
                    "bandwidth": [(size, size / rate) for size, rate in tables.rows[BANDWIDTH]]})


def read_all_reduce(draft, rows, ranks, nodes):
    """All ranks, which are not printed."""
    if not ranks:
        raise Refused("osu_allreduce does not print how many ranks took part: say --ranks N --nodes N", code=64)
    if not nodes:
        draft.assume("a node for each rank; --nodes N says otherwise")
    draft.note(f"osu_allreduce of {ranks} ranks, {len(rows)} sizes")
    draft.put(description=f"fitted to osu_allreduce: {ranks} ranks",
              times={"ranks": ranks, "nodes": nodes or ranks, "rows": rows})


def read(draft, text, ranks, nodes):
    """Fill @draft."""
    tables = Tables()
    for lines in streams(text):
        read_lines(tables, lines)
    pair = tables.rows[LATENCY] or tables.rows[BANDWIDTH]
    if not pair and not tables.rows[ALL_REDUCE]:
        if tables.wrong:
            raise Refused("no size has right results (Validation): run the test again")
        seen = f"; there is '{tables.others[0]}'" if tables.others else ""
        raise Refused("no table of osu_latency, osu_bw or osu_allreduce up to here: give the output of one of them"
                      + seen, len(text.splitlines()))
    if pair and tables.rows[ALL_REDUCE]:
        raise Refused("tables of two ranks and of osu_allreduce: import them one by one")
    for name, count in tables.count.items():
        if count > 1:
            draft.note(f"{count} tables of {name}, taken together")
    if tables.others:
        draft.note(f"{plural(len(tables.others), 'table')} left out: {', '.join(dict.fromkeys(tables.others))}")
    if tables.wrong:
        draft.note(f"{plural(tables.wrong, 'size')} left out: their results were wrong")
    if tables.devices:
        draft.note("buffers lay on devices")
    if pair:
        read_pair(draft, tables, nodes)
    else:
        read_all_reduce(draft, tables.rows[ALL_REDUCE], ranks, nodes)
