"""What test programs share: how a program is run, a directory for each case, ranks, and why a test cannot run.

`meson test` puts this folder into PYTHONPATH.  By hand: PYTHONPATH=tests python3 tests/app/test_usage.py.
"""
import contextlib
import fcntl
import functools
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = os.environ.get("FORETRAIN", str(ROOT / "build" / "foretrain"))
EXECUTOR, SIMULATOR = PROGRAM + "-exec", PROGRAM + "-sim"
TOY = ROOT / "tests" / "exec" / "toy.yaml"
SANITIZED = os.environ.get("SANITIZED", "none") != "none"
HANGS = 1000  # seconds that only something that hangs takes
# Where files may not grow: a build that measures coverage would damage its counters.
NO_COUNTERS = {"GCOV_PREFIX": "/dev/null", "GCOV_ERROR_FILE": "/dev/null"}

# A shell in the background, or nohup, ignores these for all that it starts; tests send them.
for ignored in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)


def execute(*words, environment=None, timeout=HANGS, **options):
    """Run any program; the result has returncode, stdout and stderr.  @environment is added to ours."""
    return subprocess.run(list(map(str, words)), env={**os.environ, **(environment or {})}, check=False, timeout=timeout,
                          **{"stdin": None if "input" in options else subprocess.DEVNULL, "stdout": subprocess.PIPE,
                             "stderr": subprocess.PIPE, "text": True, **options})


@functools.cache
def validator(name):
    """What checks answers called @name, which have no keys beside."""
    return jsonschema.Draft202012Validator(closed(json.loads(execute(PROGRAM, "schema", name).stdout)))


def closed(schema):
    """@schema, whose objects have no other keys."""
    if isinstance(schema, dict):
        schema = {key: closed(value) for key, value in schema.items()}
        if "properties" in schema and isinstance(schema.get("type"), str):
            schema["additionalProperties"] = False
    return schema


def needs_library():
    """End the test program where its Python cannot load libforetrain."""
    if SANITIZED and "LD_PRELOAD" not in os.environ:
        print("Python does not begin with the sanitizer that libforetrain was built with")
        sys.exit(77)


def run(*words, **environment):
    """Run foretrain, whose JSON must follow its schema."""
    done = execute(PROGRAM, *words, environment=environment)
    if jsonschema and "--json" in words and done.stdout.startswith("{"):
        found = json.loads(done.stdout)
        validator(found["schema"].split("/")[1]).validate(found)
    return done


def good(*words, **environment):
    """Run foretrain with a command that must succeed."""
    done = run(*words, **environment)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done


def answer(*words, **environment):
    """The JSON object that a command prints."""
    return json.loads(good(*words, "--json", **environment).stdout)


def part(name):
    """What `foretrain env` found of a part of the program, or None."""
    return {row["name"]: row["found"] for row in answer("env")["parts"]}[name]


def on_ranks(ranks, *words):
    """The words that run a program on ranks of this machine; with 0 ranks the program itself."""
    return [sys.executable, ROOT / "tests" / "exec" / "mpirun.py", ranks, *words] if ranks else list(words)


def skip(reason):
    """End as a test that cannot run."""
    print(reason)
    sys.exit(77)


def need_mpi():
    """Skip the whole program without Open MPI's launcher or the executor."""
    if not shutil.which("mpirun"):
        skip("mpirun (package openmpi-bin) is not installed")
    if not os.path.exists(EXECUTOR):
        skip("this build has no foretrain-exec")


def wait_until(condition, seconds=HANGS):
    """Whether @condition comes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return bool(condition())
        time.sleep(0.05)
    return True


def on_terminal(run, columns=80):
    """What @run writes to a terminal of so many columns, which is its argument."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    run(theirs)
    os.close(theirs)
    return all_said(ours)


def all_said(terminal):
    """What was written to a terminal, of which @terminal is our end, until nobody has the other; ends ours.

    One read gets what has arrived, which may be less.
    """
    said = b""
    with contextlib.suppress(OSError):  # everybody has left
        while part := os.read(terminal, 1 << 16):
            said += part
    os.close(terminal)
    return said.decode()


class Case(unittest.TestCase):
    """A test with a directory of its own."""

    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="foretrain-")))

    def write(self, name, text, mode=0o644):
        """A file in the directory."""
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    def json(self, *names):
        """What a JSON file in the directory contains."""
        return json.loads(self.directory.joinpath(*names).read_text(encoding="utf-8"))

    def begin(self, *words, **options):
        """Start a program that does not outlive the test."""
        process = subprocess.Popen(list(map(str, words)), **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                                                             "stdin": subprocess.DEVNULL, "text": True, **options})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def execute(self, code, *words, **options):
        """Run a program that must end with @code, or one of several; the result."""
        done = execute(*words, **options)
        self.assertIn(done.returncode, code if isinstance(code, tuple) else (code,), done.stderr)
        return done

    def refused(self, code, *words, **environment):
        """The messages of a command that must fail with @code and print no result."""
        done = self.execute(code, PROGRAM, *words, environment=environment)
        self.assertEqual(done.stdout, "")
        return done.stderr
