"""What every notebook begins with: where the project is, and how to ask the program."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = os.environ.get("FORETRAIN", str(ROOT / "build" / "foretrain"))

os.environ.setdefault("FORETRAIN_LIBRARY", str(pathlib.Path(PROGRAM).with_name("libforetrain.so.0")))
sys.path.append(str(ROOT / "app" / "library"))
import foretrain  # noqa: E402  needs the lines above


def run(*words):
    """Run foretrain with these words; the result has returncode, stdout and stderr."""
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False)


def in_lab(platform, *words):
    """Run a command in the network of a platform, built on this machine (tools/lab.py)."""
    return subprocess.run([ROOT / "tools" / "lab.py", platform, *map(str, words)], capture_output=True, text=True, check=False,
                          env={**os.environ, "FORETRAIN": PROGRAM})


def ask(*words):
    """The JSON object that a command prints; what it complains about is an error here too."""
    done = run(*words, "--json")
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def settings(**values):
    """--set KEY=VALUE for each; two underscores stand for a point: allreduce__bucket="4 MiB"."""
    return [f"--set={key.replace('__', '.')}={value}" for key, value in values.items()]


def predict(job, backend="analytic", **values):
    """The answer for a job, by the library; @values as in settings()."""
    return foretrain.predict(job, backend=backend, values={key.replace("__", "."): v for key, v in values.items()})
