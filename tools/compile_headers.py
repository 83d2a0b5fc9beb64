#!/usr/bin/python3
"""Every header compiles alone, and twice.  usage: compile_headers.py BUILD_DIRECTORY

Include paths and definitions are those of the build, so the headers of a part that is switched off
cannot be compiled: they are named, and not counted.
"""
import json
import pathlib
import shlex
import subprocess
import sys

import project

CUDA = ("cuda", "cudnn", "nccl.h")
OPTIONAL = {"sim": ("simgrid/", "xbt/"), "exec": ("mpi.h", "dnnl", "oneapi/", *CUDA), "tests": CUDA}


def flags_of(build):
    """Every -I, -isystem and -D of the build, and its C standard.

    Folders of the project are left out: what they hold is named from its root, and a file there
    may be called as a library's is.
    """
    flags = ["-std=c11", "-D_GNU_SOURCE", f"-I{project.ROOT}"]
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    for command in commands:
        for word in shlex.split(command["command"]):
            if word.startswith("-I"):
                folder = (build / word[2:]).resolve()
                if folder.is_relative_to(project.ROOT) and not folder.is_relative_to(build):
                    continue
                word = f"-I{folder}"
            if word.startswith(("-I", "-D", "-isystem/")) and word not in flags:
                flags.append(word)
    return flags


def main():
    """Compile every header of the project."""
    build = pathlib.Path(sys.argv[1]).resolve()
    command = ["cc", *flags_of(build), "-Wall", "-Wextra", "-Wpedantic", "-Werror",
               "-fsyntax-only", "-x", "c", "-"]
    faults, checked = [], 0
    for path in project.files("*.h"):
        name = project.place(path)
        done = subprocess.run(command, input=f'#include "{name}"\n' * 2, text=True,
                              stderr=subprocess.PIPE, check=False)
        if done.returncode == 0:
            checked += 1
            continue
        missing = OPTIONAL.get(name.split("/")[0], ())
        if any(f"fatal error: {library}" in done.stderr for library in missing):
            print(f"{name}: needs a library that is not there")
            continue
        faults.append(f"{name} does not compile alone:\n{done.stderr}")
    project.finish(faults, f"{checked} headers")


if __name__ == "__main__":
    main()
