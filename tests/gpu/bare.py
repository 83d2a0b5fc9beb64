#!/usr/bin/python3
"""Build and train where only a compiler, CUDA, Python and carried packages are.

Usage: bare.py

In namespaces of its own, as root and without network: this machine's files, less all packages of
headers but the C library's, less pkg-config, dpkg and all of Open MPI, in an empty environment.
There carry.sh's packages are unpacked, all programs are built for compute capability 9.0, and one
rank and four train with the device in software.

Exit status 0, 1, or 77 with the reason in the last line.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import toolchain

ROOT = pathlib.Path(__file__).resolve().parents[2]
HIDDEN = re.compile(
    r"-dev(:|$)|^(pkg-?conf|libpkgconf|libfyaml|libcmocka|libgsl|libjpeg|libxxhash|libarchive|libxml2|libicu|libnettle"
    r"|openmpi|libopenmpi|libpmix|libhwloc|libudev|libevent|libmunge|libucx|libfabric|libpsm|libibverbs"
    r"|librdmacm|libnl-)")
COMPILER = re.compile(r"^(libc6|libcrypt|linux-libc|libgcc-.*|libstdc\+\+-.*|dpkg)-dev")

# What failed goes with the machine: the end of its log is told.
ACCEPT = 'tests/gpu/acceptance.sh "$@" || { status=$?; tail -n 40 out/*.txt; exit $status; }'
OPTIONS = ["--arch", "90", "--seconds", "3000", "--out", "/bare/out", "-t", "9", "--suite", "cuda", "software_plans_4",
           "software_ranks"]


def call(*words, **settings):
    """What a command prints; it must succeed."""
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE,
                          **settings).stdout


def skip(reason):
    """End; nothing is said of this machine."""
    print(reason)
    sys.exit(77)


def hide(root):
    """Take packages out of the machine whose files lie in @root."""
    packages = call("dpkg-query", "-W", "-f", "${binary:Package}\n", text=True).split()
    hidden = [name for name in packages if HIDDEN.search(name) and not COMPILER.search(name)]
    files = {*call("dpkg", "-L", *hidden, text=True).split("\n"), "/usr/bin/dpkg"}
    for path in (f"{root}{file}" for file in files if file):
        if os.path.lexists(path) and not os.path.isdir(path):
            os.unlink(path)
    print(f"without {len(hidden)} packages", flush=True)


def mount(folder):
    """The bare machine's files in @folder.  @return their root."""
    call("mount", "-t", "tmpfs", "tmpfs", folder / "bare")
    upper, work, root = (folder / "bare" / name for name in ("upper", "work", "root"))
    for part in (upper, work, root):
        part.mkdir()
    call("mount", "-t", "overlay", "overlay", "-o",
         f"lowerdir=/,upperdir={upper},workdir={work}", root)
    for part in ("proc", "sys", "dev"):
        call("mount", "--rbind", f"/{part}", root / part)
    return root


def enter(folder):
    """In namespaces of their own: make the bare machine, and become the acceptance on it."""
    try:
        root = mount(folder)
    except subprocess.CalledProcessError as error:
        skip(f"a bare machine needs a file system of its own: {error}")
    call("ip", "link", "set", "lo", "up")
    call("cp", "-a", folder / "source", root / "bare")
    hide(root)
    toolkit = toolchain.find_toolkit([])
    os.chroot(root)
    os.chdir("/bare")
    os.execve("/bin/bash", ["bash", "-c", ACCEPT, "bash", *OPTIONS],
              {"PATH": f"{toolkit}/bin:/usr/bin:/bin", "HOME": "/bare",
               "PYTHON": "/usr/bin/python3"})


def main():
    """Carry, enter, judge."""
    if len(sys.argv) > 1:
        enter(pathlib.Path(sys.argv[1]))
    if subprocess.run(["unshare", "--mount", "--net", "true"], check=False).returncode:
        skip("a bare machine is made in namespaces, which need root")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "source")
        for part in ("source", "bare"):
            os.mkdir(f"{folder}/{part}")
        files = call("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others",
                     "--exclude-standard")
        call("tar", "-xC", source, input=call("tar", "-cC", ROOT, "--null", "-T", "-", input=files))
        if subprocess.run([source / "tests/gpu/carry.sh", source / "carried"],
                          check=False).returncode:
            skip("the packages of tests/gpu/packages.txt could not be fetched")
        done = subprocess.run(["unshare", "--mount", "--net", sys.executable, "-B", __file__,
                               folder], stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout.rstrip())
    if done.returncode == 77:
        sys.exit(77)
    sys.exit(not re.search("^software_ranks +OK", done.stdout, re.MULTILINE) or done.returncode)


if __name__ == "__main__":
    main()
