"""What the tests of the lab share: its platforms, what is left behind, what is missing, who disturbs."""
import contextlib
import os
import pathlib
import signal
import time
import unittest

from harness import PROGRAM, ROOT, execute, skip

LAB = str(ROOT / "tools" / "lab.py")
OTHERS = ("abci", "t1-torus")  # platforms that no lab builds
# What it says when this machine, not the platform, is the reason for exit code 69.
MISSING = ("this machine does not allow", "a lab needs ", "this machine does not let")


def platform(name):
    """The file of a platform for the lab."""
    return str(ROOT / "platforms" / "lab" / (name + ".yaml"))


def words(name):
    """The words before a command in the lab of a platform: one of ours, or a file."""
    return ["env", f"FORETRAIN={PROGRAM}", LAB, name if "/" in str(name) or name in OTHERS else platform(name)]


def lab(name, *command):
    """Run a command there."""
    return execute(*words(name), *command)


def run_as(user, *words, **environment):
    """Run a command in the lab flat-4 as this user, which only root can; a skipped test where that user cannot."""
    def run_words(*all_words):
        return execute(*all_words, user=user, group=user, extra_groups=[], environment=environment, cwd="/")
    if run_words("test", "-x", PROGRAM, "-a", "-r", platform("flat-4")).returncode:
        raise unittest.SkipTest("others may not enter the build directory or the sources")
    environment["FORETRAIN"] = PROGRAM
    done = run_words(LAB, platform("flat-4"), *words)
    if any(reason in done.stderr for reason in MISSING):
        raise unittest.SkipTest(done.stderr.strip())
    return done


def need_lab():
    """Skip the whole program where no lab can be built."""
    done = lab("flat-4", "true")
    if done.returncode == 69 and any(reason in done.stderr for reason in MISSING):
        skip(done.stderr.strip().splitlines()[-1])


def busy_share(seconds=1.5):
    """The part of the processors' time that is not idle."""
    def read():
        with open("/proc/stat", encoding="ascii") as lines:
            time_of = [int(word) for word in lines.readline().split()[1:9]]
        return sum(time_of), time_of[3] + time_of[4]
    before = read()
    time.sleep(seconds)
    after = read()
    return 1.0 - (after[1] - before[1]) / max(1, after[0] - before[0])


def need_quiet(limit=0.2):
    """Skip the whole program where others have more than @limit of the processors."""
    busy = busy_share()
    if busy > limit:
        skip(f"disturbed: other processes have {100 * busy:.0f} % of this machine's processors")


def namespaces():
    """The network namespaces that processes of this machine live in."""
    found = set()
    for process in pathlib.Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(os.readlink(process))
        except OSError:
            pass
    return found


def processes_of(mark):
    """The processes whose environment or command line holds @mark."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in text and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def kill_all(mark):
    """End what a failed test left of them."""
    for pid in processes_of(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def interfaces():
    """The network interfaces of this machine outside of labs."""
    return set(os.listdir("/sys/class/net"))


def mounts():
    """What this machine has mounted outside of labs."""
    return pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8")
