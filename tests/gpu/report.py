"""Parts of the acceptance: what each said, how long it may take, one table and one file."""
import dataclasses
import glob
import json
import os
import re
import signal
import subprocess
import threading
import time

SCHEMA = "foretrain/gpu-acceptance/1"


@dataclasses.dataclass
class Outcome:
    """What a part came to."""
    verdict: str  # pass, fail, skip, or measured: a figure that has no limit
    figure: str = ""
    limit: str = ""
    data: dict = dataclasses.field(default_factory=dict)


class Skip(Exception):
    """A part that cannot run here; the text says why."""


class Failure(Exception):
    """A part that came to nothing; the text says why."""


class OutOfTime(Failure):
    """A part whose time was over."""


class Clock:
    """Seconds that are left: of all, or of one part, which may be less than that part may take."""

    def __init__(self, budget, now=time.monotonic, wanted=0):
        self.now, self.short = now, budget < wanted
        self.end = now() + budget

    def part(self, limit):
        """The clock of a part that begins now and may take @limit seconds, or what is left."""
        return Clock(min(limit, self.left()), self.now, limit)

    def left(self):
        """Seconds."""
        return self.end - self.now()


def living(session):
    """Processes of a session; those that only wait to be waited for are none."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                state, _, _, of = file.read().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):  # it has just ended
            continue
        if int(of) == session and state not in "ZX":
            found.append(int(path.split("/")[2]))
    return found


def end_session(process):
    """End a process and all it started.  Ranks are in process groups of their own, but in its
    session.  A driver may keep a process that is killed; nobody waits longer than a while for that.
    """
    end = time.monotonic() + 5
    while (left := living(process.pid)) and time.monotonic() < end:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)
    process.poll()


class Runner:
    """Starts commands, keeps what they print, and ends them when their part's time is over."""

    def __init__(self, clock, directory, environment=None):
        self.clock, self.directory = clock, directory
        self.environment = dict(os.environ) if environment is None else environment
        self.log = os.path.join(directory, "log.txt")

    def run(self, words, check=True, **settings):
        """@return the finished process.  Raises Failure when it takes too long or, with @check,
        when its exit status is not 0; @settings are added to its environment."""
        words = [str(word) for word in words]
        environment = {**self.environment, **settings}
        process = subprocess.Popen(  # pylint: disable=consider-using-with  # which may wait for ever
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace", env=environment, start_new_session=True)
        try:
            out, err = process.communicate(timeout=max(self.clock.left(), 0.1))
        except subprocess.TimeoutExpired:
            end_session(process)
            try:
                out, err = process.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                out, err = "", "cannot be ended\n"
            self.keep(words, out, err, "out of time")
            raise OutOfTime(f"{os.path.basename(words[0])}: out of time") from None
        self.keep(words, out, err, process.returncode)
        if check and process.returncode:
            raise Failure(f"{os.path.basename(words[0])}: exit {process.returncode}: "
                          f"{gist(err or out)}")
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def json(self, words, **settings):
        """The JSON object that a command prints last."""
        return last_object(self.run(words, **settings).stdout)

    def keep(self, words, out, err, status):
        """Append a command and its output to the log."""
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(words)}\n{out}{err}[{status}]\n\n")


def gist(text):
    """The line of what a program said that tells most: its first error, else its last line."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    errors = [line for line in lines if re.search("rror|undefined reference|cannot find", line)]
    return (errors or lines[-1:] or ["no message"])[0][:160]


def last_object(text):
    """The JSON object at the end of @text, over one line or several."""
    lines = text.rstrip().split("\n")
    for first in range(len(lines) - 1, -1, -1):
        if lines[first].startswith("{"):
            try:
                return json.loads("\n".join(lines[first:]))
            except ValueError:
                continue
    raise Failure("no JSON object was printed")


def run_part(part, clock):
    """Call @part, which has the time of @clock.  @return its outcome, whatever happens in it."""
    if clock.left() < 5:
        return Outcome("skip", "no time was left")
    try:
        return part()
    except Skip as skip:
        return Outcome("skip", str(skip))
    except OutOfTime as late:
        return Outcome("skip" if clock.short else "fail",
                       f"{'too little time was left: ' if clock.short else ''}{late}")
    except Failure as failure:
        return Outcome("fail", str(failure))
    except Exception as error:  # pylint: disable=broad-except  # the other parts go on
        return Outcome("fail", f"{type(error).__name__}: {error}")


class Report:
    """The table and the file."""

    def __init__(self, directory, machine, show=print):
        self.path = os.path.join(directory, "acceptance.json")
        self.machine, self.show, self.rows, self.notes = machine, show, [], []
        self.lock = threading.Lock()

    def add(self, name, outcome, seconds):
        """A part is done.  The file is written each time, so that what ends this run takes only
        what was not measured."""
        with self.lock:
            self.rows.append((name, outcome, seconds))
            self.show(f"{name:<20} {outcome.verdict:<8} {seconds:6.1f} s  {outcome.figure}")
            self.write()

    def failed(self):
        """Whether a part failed, or none was run."""
        return not self.rows or any(outcome.verdict == "fail" for _, outcome, _ in self.rows)

    def write(self):
        """The file, whole or not at all."""
        parts = [{"name": name, "seconds": round(seconds, 1), **dataclasses.asdict(outcome)}
                 for name, outcome, seconds in self.rows]
        with open(self.path + ".part", "w", encoding="utf-8") as file:
            json.dump({"schema": SCHEMA, "verdict": "fail" if self.failed() else "pass",
                       "machine": self.machine, "notes": self.notes, "parts": parts}, file,
                      indent=2)
            file.write("\n")
        os.replace(self.path + ".part", self.path)

    def table(self):
        """All parts as text: part, verdict, figure, limit, seconds."""
        rows = [("part", "verdict", "figure", "limit", "seconds")]
        rows += [(name, outcome.verdict, outcome.figure, outcome.limit, f"{seconds:.0f}")
                 for name, outcome, seconds in self.rows]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                         for row in rows)
