"""Build for this machine's GPU and run the tests of suite gpu on it, or others: acceptance.sh's work.

Usage: acceptance.sh [--out DIRECTORY] [--carried DIRECTORY] [--build DIRECTORY] [--seconds N] [--arch NN]
                     [WORD...]

WORDs are for `meson test`: names of tests, and suites, of which docs/gpu.md has three that hold what matters.
All that has not ended after --seconds (540), the build included, is ended.  A table is printed at the end;
DIRECTORY then has meson's acceptance.json and acceptance.txt, machine.json, and build.txt.  Plans of
convolutions are kept beside the build, and come from --carried where there are none yet.

Exit status 0: nothing failed; 1: something did; 69: nothing can be built here; 77: no GPU.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import machine
import throughput
import toolchain
from report import Failure

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the machine happens to have decides nothing but MPI, which the four ranks ask for.
OPTIONS = [*(f"-D{part}=disabled" for part in ("simgrid", "onednn", "docs", "hwloc")),
           *(f"-D{part}=enabled" for part in ("cuda", "gsl", "jpeg")),
           "--buildtype=release", "-Db_ndebug=false"]  # assertions are there on a real GPU, too
# Plans of convolutions, those of --tune apart.
PLANS = ("convolutions", "convolutions-tuned")
LOG = "acceptance"  # .json, .txt; not of a run of meson that tests this


def read_options():
    """The command line, and the words for meson."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0], allow_abbrev=False)
    parser.add_argument("--out", type=pathlib.Path, default=os.environ.get("OUT"),
                        help="directory of results ($OUT, or the build directory's with -acceptance)")
    parser.add_argument("--carried", type=pathlib.Path, default=ROOT / "carried", help="what carry.sh fetched")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-gpu", help="build directory")
    parser.add_argument("--seconds", type=float, default=540, help="for the build and all tests together (540)")
    parser.add_argument("--arch", help="compute capability to build for, also where there is no GPU (90)")
    options, words = parser.parse_known_args()
    options.build, options.carried = options.build.resolve(), options.carried.resolve()
    options.out = pathlib.Path(options.out or f"{options.build}-acceptance").resolve()
    return options, words if "--suite" in words else ["--suite", "gpu", *words]


def copy_plans(source, target, replace):
    """Those that are there; @replace: also where @target has some."""
    target.mkdir(parents=True, exist_ok=True)
    for name in PLANS:
        if (source / name).exists() and (replace or not (target / name).exists()):
            shutil.copy(source / name, target)


def table(log):
    """What meson's log says, as text: test, result, seconds, the last line that it printed."""
    lines = []
    for record in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
        said = (record.get("stdout") or record.get("stderr") or "").strip().split("\n")[-1]
        name = re.split("[ :]", record["name"])[-1]
        lines.append(f"{name:<24} {record['result']:<10} {record['duration']:6.1f} s  {said}\n")
    return "".join(lines)


class Acceptance:
    """One call."""

    def __init__(self, options, words, plain):
        self.options, self.plain = options, plain  # the environment that PyTorch compiles in
        self.end = time.monotonic() + options.seconds
        self.meson = toolchain.program("meson", "mesonbuild.mesonmain")
        self.test = [*self.meson, "test", "-C", options.build, "--logbase", LOG, *words]

    def left(self):
        """Seconds."""
        return max(self.end - time.monotonic(), 0.1)

    def log(self, *words):
        """Run a command, which must succeed, and write what it prints to build.txt."""
        with open(self.options.out / "build.txt", "a", encoding="utf-8") as log:
            subprocess.run(words, stdout=log, stderr=subprocess.STDOUT, check=True, timeout=self.left())

    def build(self, ending):
        """Configure, then compile while PyTorch compiles what the tests will time; its server then rests but when
        asked, until @ending."""
        options = self.options
        if not (options.build / "build.ninja").exists():
            self.log(*self.meson, "setup", options.build, ROOT, *OPTIONS, f"-Dgpu_arch={options.arch}")
        names = subprocess.run([*self.test, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
        batches = re.findall(r"gpu_throughput_(\d+)$", names, re.MULTILINE)
        if batches:
            socket = os.environ["FORETRAIN_PYTORCH"] = f"{ending.enter_context(tempfile.TemporaryDirectory())}/socket"
            server = throughput.serve(sys.executable, socket, options.out / "pytorch.txt", "--batches",
                                      ",".join(batches), "--seconds", 180, environment=self.plain)
            ending.callback(server.kill)
        self.log(*toolchain.program("ninja", "ninja"), "-C", options.build, "gpu-programs")
        if batches:
            server.stdout.readline()  # it listens, or has ended
            try:
                print("PyTorch:", throughput.PyTorch(socket).ask("variants", min(self.left(), 240)), flush=True)
            except Failure as failure:  # ours is worth measuring all the same
                print(failure, flush=True)

    def run(self):
        """Build and test.  @return whether all passed."""
        with contextlib.ExitStack() as ending:
            self.build(ending)
            testing = ending.enter_context(subprocess.Popen([*self.test, "--num-processes", "5"]))
            try:
                testing.wait(self.left())
            except subprocess.TimeoutExpired:
                print("acceptance: no time is left", flush=True)
                testing.terminate()  # meson ends its tests, and writes its log
                testing.wait()
            return testing.returncode == 0


def accept(options, words):
    """Run and report.  @return the exit status."""
    gpu = {"name": "none", "shared": True}
    try:
        if not options.arch:
            gpu = machine.gpu()
            options.arch, os.environ["FORETRAIN_TEST_GPU"] = gpu["capability"], "1"
    except machine.NoGpu as reason:
        print(f"no GPU to use here: {reason}")
        return 77
    options.out.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(f"{options.build}-libraries")
    plans = work / "cache" / "foretrain"
    try:
        environment, remarks = toolchain.environment_for(options.carried, work)
    except toolchain.Missing as missing:
        print(f"acceptance: {missing}", file=sys.stderr)
        return 69
    if not gpu["shared"]:
        remarks.append("this GPU admits one process at a time (nvidia-smi -q -d COMPUTE): four ranks, PyTorch beside "
                       "ours, and tests beside others will fail")
    print("\n".join(remarks), flush=True)
    copy_plans(options.carried, plans, False)
    plain = dict(os.environ)
    os.environ.update(environment, XDG_CACHE_HOME=str(plans.parent), OUT=str(options.out), PYTHON=sys.executable)
    record = {**gpu, "command": sys.argv, "notes": remarks}
    describing = threading.Thread(target=lambda: record.update(machine.describe(ROOT, sys.executable)))
    describing.start()  # for seconds, since PyTorch is asked
    logs = [options.build / "meson-logs" / f"{LOG}.{kind}" for kind in ("json", "txt")]
    for log in (options.out / "build.txt", *logs):
        log.unlink(missing_ok=True)
    passed = False
    try:
        passed = Acceptance(options, words, plain).run()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"acceptance: {error}: see {options.out}/build.txt")
    describing.join()
    record["clocks_after"] = machine.query(*machine.CLOCKS)
    (options.out / "machine.json").write_text(json.dumps(record, indent=2), encoding="utf-8")
    copy_plans(plans, options.out, True)
    for log in filter(pathlib.Path.exists, logs):
        shutil.copy(log, options.out)
    if logs[0].exists():
        print(f"\n{table(logs[0])}\n{options.out}/{LOG}.json")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(accept(*read_options()))
