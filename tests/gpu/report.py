"""What a check of the acceptance came to, and the commands that it runs."""
import dataclasses
import json
import os
import re
import subprocess
import sys


@dataclasses.dataclass
class Outcome:
    """What a check came to."""
    verdict: str  # pass, fail, or measured: a figure that has no limit
    figure: str = ""
    limit: str = ""
    data: dict = dataclasses.field(default_factory=dict)


class Skip(Exception):
    """A check that cannot run here; the text says why."""


class Failure(Exception):
    """A check that came to nothing; the text says why."""


def run(words, check=True, **settings):
    """Run a command, to whose environment @settings are added, and print it and its output to stderr.
    @return the finished process.  Raises Failure when, with @check, its exit status is not 0."""
    words = [str(word) for word in words]
    print(f"$ {' '.join(words)}", file=sys.stderr, flush=True)
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          env={**os.environ, **settings}, check=False)
    print(f"{done.stdout}{done.stderr}[{done.returncode}]", file=sys.stderr, flush=True)
    if check and done.returncode:
        raise Failure(f"{os.path.basename(words[0])}: exit {done.returncode}: {gist(done.stderr or done.stdout)}")
    return done


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
