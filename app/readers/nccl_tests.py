"""all_reduce_perf of nccl-tests and rccl-tests, text or JSON: times by size.

A log may contain several programs and runs.  Each begins with its own list of ranks and its own head; the
head says what its columns are.
"""
import json
import re

from draft import Refused, number, plural, streams

RANK = re.compile(r"#?\s*Rank\s+(\d+)\b.*?\son\s+(\S+)\s+device\s+(\d+)\s*\[([^\]]*)\]\s*(.*)")
PROGRAM = re.compile(r"\b(\w+)_perf\b")
VERSION = re.compile(r"(?<!R)NCCL version (\d)\.(\d+)|nccl-library=(\d+)")
BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)")
OURS = "all_reduce"
GIVE = "give the output of all_reduce_perf"


class Run:
    """One table and the ranks that it is of."""

    def __init__(self, program="", ranks=()):
        self.program = program  # "" where nothing names it
        self.ranks = list(ranks)  # (rank, host, device, model)
        self.head, self.row = [], None  # the columns, and the line that names them
        self.rows = []  # (size, time, algorithm bandwidth, bus bandwidth) as printed
        self.operations = set()  # (redop, root), None where there is no such column
        self.wrong = self.bounds = 0
        self.closed = False  # what ends a run was printed

    @property
    def hosts(self):
        """Their names."""
        return {rank[1] for rank in self.ranks}

    def factor(self):
        """Bus over algorithm bandwidth where it is largest, and that."""
        _, _, algorithm, bus = max(self.rows, key=lambda row: row[2])
        return (bus / algorithm if algorithm > 0 else 0), algorithm


# ---- text ----

def columns(words):
    """{name: index} of a head, of the first (out of place) of equal names."""
    return {word: index for index, word in reversed(list(enumerate(words)))}


def read_head(run, row, line):
    """Whether @line is the head of a table; then @run has its columns."""
    words = line.lstrip("#").split()
    if not words or words[0] not in ("size", "bytes") or not {"time", "cputime"} & set(words):
        return False
    run.head, run.row = ["size", *words[1:]], row
    return True


def least(found, other):
    """The faster of two measurements of a size, out of place and in place: both do the same."""
    return [found[0], *other] if None not in [*found, *other] and 0 < other[0] < found[1] else found


def read_row(run, row, line):
    """A line of numbers below a head."""
    if not run.head:
        raise Refused("numbers without the head '#  size  count  type ...' above them; keep the lines of "
                      "nccl-tests that begin with #", row)
    words, at = line.split(), columns(run.head)
    time = at.get("time", at.get("cputime"))
    found = [number(words[i]) if i is not None and i < len(words) else None
             for i in (0, time, at.get("algbw"), at.get("busbw"))]
    found = least(found, [number(word) for word in words[-4:-1]]) if run.head.count("time") == 2 else found
    if None in found:
        raise Refused("expected a row of nccl-tests: size ... time algbw busbw; remove lines of other programs",
                      row)
    if found[0] > 0 and found[1] <= 0:
        raise Refused(f"a time above 0 was expected in column {time + 1}", row)
    wrong = at.get("#wrong")
    if wrong is not None and wrong < len(words) and (number(words[wrong]) or 0) > 0:
        run.wrong += 1  # which `error` does not count: it is the largest rounding error
    elif found[0] > 0:
        run.rows.append(found)
    run.operations.add(tuple(words[at[key]] if key in at else None for key in ("redop", "root")))


def read_stream(lines):
    """The runs in the output of one process."""
    runs = [Run()]
    program = ""
    for row, line in lines:
        run, rank = runs[-1], RANK.match(line)
        named = PROGRAM.search(line)
        if line.startswith("#") and (named or "nThread" in line or "Using devices" in line):
            if run.rows or run.closed:
                runs.append(run := Run())
        if named:
            program = named.group(1)
            run.program = run.program or program
        if rank:
            if run.rows or run.closed:
                runs.append(run := Run(program))
            run.ranks.append((int(rank[1]), rank[2], int(rank[3]), rank[5].strip()))
        elif bounds := BOUNDS.match(line):
            run.bounds, run.closed = int(bounds[1]), True
        elif line.startswith("#") and "Avg bus bandwidth" in line:
            run.closed = True
        elif line.startswith("#"):
            fresh = Run(run.program, () if run.closed else run.ranks)
            if read_head(fresh, row, line):
                if run.rows:
                    runs.append(fresh)
                else:
                    run.head, run.row = fresh.head, fresh.row
        elif line[:1].isdigit():
            if run.closed and run.head:
                runs.append(run := Run(program))
            read_row(run, row, line)
        run.program = run.program or program
    return runs


# ---- JSON ----

def read_json(text):
    """The runs of a report of -J."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise Refused(f"not JSON: {error.msg}", error.lineno, error.colno) from None
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, list):
        raise Refused("expected a list 'results', as nccl-tests writes with -J FILE", 1, 1)
    config = document.get("config")
    devices = config.get("devices") if isinstance(config, dict) else None
    ranks = [(index, str(one.get("hostname", "")), one.get("device"), str(one.get("device_info", "")))
             for index, one in enumerate(devices if isinstance(devices, list) else []) if isinstance(one, dict)]
    runs = {}
    for index, result in enumerate(results):
        if not isinstance(result, dict):
            raise Refused(f"results[{index}]: expected an object with size and out_of_place")
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(result.get("experiment_name", ""))).lower()
        run = runs.setdefault(name, Run(name, ranks))
        bodies = [result[key] for key in ("out_of_place", "in_place") if isinstance(result.get(key), dict)] or [{}]
        body = bodies[0]
        found, other = ([number(value) for value in (result.get("size"), one.get("time", one.get("cpu_time")),
                                                     one.get("alg_bw"), one.get("bus_bw"))]
                        for one in (body, bodies[-1]))
        found = least(found, other[1:])
        if None in found or (found[0] > 0 and found[1] <= 0):
            raise Refused(f"results[{index}]: expected size and out_of_place: {{time, alg_bw, bus_bw}} with a "
                          "time above 0, as nccl-tests writes with -J")
        run.operations.add((str(result["redop"]) if "redop" in result else None, str(result.get("root", -1)).strip()))
        if (number(body.get("nwrong")) or 0) > 0:
            run.wrong += 1
        elif found[0] > 0:
            run.rows.append(found)
    return list(runs.values())


# ---- both ----

def other_operation(run):
    """What says that the table is of another program, or None."""
    if run.program and run.program != OURS:
        return f"the output of {run.program}_perf"
    if run.head and "redop" not in run.head:
        return "a table without a column 'redop', which an all-reduce has"
    for redop, root in run.operations:
        if redop == "none":
            return "a table whose redop is none"
        if root is not None and root != "-1":
            return f"a table of an operation with a root, {root}"
    return None


def choose(runs, ranks):
    """The runs that are all-reduces of the same ranks."""
    runs = [run for run in runs if run.rows or run.wrong]
    if not runs:
        raise Refused(f"no table of nccl-tests with a size and a time above 0; {GIVE}")
    ours = [run for run in runs if not other_operation(run)]
    ours = [run for run in ours if run.rows and is_all_reduce(run, ranks or len(run.ranks))] or ours
    if not ours:
        raise Refused(f"{other_operation(runs[0])}: {GIVE}", runs[0].row)
    for run in ours:
        numbers = [rank[0] for rank in run.ranks]
        if len(set(numbers)) < len(numbers) or (len(numbers) == 1 and not any(row[3] for row in run.rows)):
            raise Refused("the output of all_reduce_perf, but each process ran alone as rank 0 (bus bandwidth 0): "
                          "build nccl-tests with MPI=1, so that they find each other")
    groups = {}
    for run in ours:
        groups.setdefault((len(run.ranks), len(run.hosts)), []).append(run)
    if len(groups) > 1:
        groups = {key: group for key, group in groups.items() if key[0] == ranks} or groups
    if len(groups) > 1:
        found = ", ".join(f"{count} on {hosts}" for count, hosts in groups)
        raise Refused(f"all-reduces of different ranks ({found} nodes): give one of them, or --ranks N to choose it")
    return next(iter(groups.values())), len(runs) - len(ours)


def time_unit(run):
    """Seconds of a printed time: microseconds, or milliseconds, as the bandwidths [GB/s] tell."""
    size, time, algorithm, _ = max(run.rows, key=lambda row: row[2])
    if algorithm < 0.1 or size <= 0:
        return 1e-6
    ratio = size / (time * algorithm * 1e9)
    for unit in (1e-6, 1e-3):
        if 0.8 < ratio / unit < 1.25:
            return unit
    raise Refused(f"{size:.0f} B in a time of {time:g} is not the {algorithm:g} GB/s of column algbw: are columns missing?")


def is_all_reduce(run, ranks):
    """Bus over algorithm bandwidth is 2 (n - 1) / n.  Source: nccl-tests, doc/PERFORMANCE.md."""
    expected = 2 * (ranks - 1) / max(ranks, 1)
    factor, largest = run.factor()
    return abs(factor - expected) <= 0.01 * expected + 0.02 / max(largest, 0.01)


def count(draft, runs, ranks, nodes):
    """Ranks and nodes, which the user may say."""
    run = runs[0]
    ranks = ranks or len(run.ranks)
    if ranks < 1:
        raise Refused("no line '#  Rank  0 ... on HOST device 0 [...]' gives the ranks; use --ranks N --nodes N")
    places = [rank[1:3] for rank in run.ranks]
    if not nodes and len(set(places)) < len(places):
        raise Refused(f"{plural(len(places), 'rank')} on {plural(len(set(places)), 'device')} of "
                      f"{plural(len(run.hosts), 'host')}: nodes share a name, or ranks a device; say --nodes N")
    if ranks == 2 and not run.program:
        draft.assume("an all-reduce: nothing names the program, and with two ranks sendrecv has the same bandwidths")
    return ranks, nodes or max(len(run.hosts), 1)


def version(text):
    """Of NCCL, 100 * major + minor, as the log or the report says it; 0: it does not."""
    if found := VERSION.search(text):
        return 100 * int(found[1]) + int(found[2]) if found[1] else short(int(found[3]))
    found = re.search(r'"nccl_version":\s*"?(\d+)', text)
    return short(int(found[1])) if found else 0


def short(code):
    """NCCL_VERSION_CODE, which had one digit less for the minor version before 2.9."""
    return code // 100 if code >= 10000 else code // 1000 * 100 + code % 1000 // 100


def read(draft, text, ranks, nodes):
    """Fill @draft."""
    if text.lstrip().startswith("{"):
        runs = read_json(text)
    else:
        runs = [run for lines in streams(text) for run in read_stream(lines)]
        if not any(run.head for run in runs):
            raise Refused("no table of nccl-tests up to here (expected a line '#  size  count  type ...'); give what "
                          "all_reduce_perf prints", len(text.splitlines()))
    runs, others = choose(runs, ranks)
    ranks, nodes = count(draft, runs, ranks, nodes)
    times = {}
    for run in runs:
        if not run.rows:
            continue
        if not is_all_reduce(run, ranks):
            raise Refused(f"bus bandwidth is {run.factor()[0]:.3f} times the algorithm's, which is not the "
                          f"{2 * (ranks - 1) / ranks:.3f} of an all-reduce of {plural(ranks, 'rank')}: {GIVE}", run.row)
        unit = time_unit(run)
        for row in run.rows:
            times[row[0]] = min(row[1] * unit, times.get(row[0], row[1] * unit))
    wrong = sum(run.wrong for run in runs)
    rows = sorted(times.items())
    if not rows:
        raise Refused("no row with a size and a time above 0 and right results; run the test again")
    sizes = sorted(times)
    draft.note(f"all-reduce of {ranks} ranks on {plural(nodes, 'node')}, {len(rows)} sizes of {sizes[0]:.0f} to {sizes[-1]:.0f} B")
    if len(runs) > 1:
        draft.note(f"{len(runs)} outputs of all_reduce_perf with these ranks, taken together")
    if others:
        draft.note(f"{plural(others, 'table')} of other programs left out")
    if wrong:
        draft.note(f"{wrong} sizes left out: their results were wrong")
    if any(run.bounds and "error" in run.head for run in runs):
        draft.warn("nccl-tests found values out of bounds; which sizes are wrong is not printed")
    models = list(dict.fromkeys(rank[3] for rank in runs[0].ranks if rank[3]))
    if len(models) > 1:
        draft.note(f"devices differ ({', '.join(models)}): the first counts")
    draft.put(model=models[0] if models else None,
              description=f"fitted to nccl-tests: {ranks} ranks on {nodes} nodes",
              times={"ranks": ranks, "nodes": nodes, "rows": rows, "nccl": version(text)})
