#!/usr/bin/python3
"""Every folder sees only the folders and libraries it may see (docs/DESIGN.md, section 3)."""
import re

import project

# Folder -> what its files may include from the project.
MAY = {
    "core": ("core/",),
    "models": ("core/", "models/"),
    "sim": ("core/", "sim/"),
    "exec": ("core/", "exec/"),
    "app": ("core/", "models/", "app/", "sim/sim.h",
            "exec/input/dataset.h", "exec/input/input.h", "exec/input/pack.h",
            "exec/checkpoint/checkpoint.h", "exec/checkpoint/run_directory.h", "exec/step/layout.h",
            "exec/measure/measure.h", "exec/measure/timing.h", "exec/train/train.h", "exec/world/agree.h", "exec/world/world.h", "exec/measure/devices.h"),
    "tests": ("core/", "models/", "sim/", "exec/", "app/", "tests/"),
}
# Further walls inside a folder.
MAY_NOT = {"exec/cpu/": ("exec/cuda/",), "exec/cuda/": ("exec/cpu/",)}
# Library header -> the files that may include it.  Anything not named here is free (libc, POSIX).
OWNERS = {
    "libfyaml.h": ("core/config/yaml.c",),
    "jansson.h": ("core/base/json.c",),
    "sha2.h": ("core/", "core/base/checksum.c"),
    "xxhash.h": ("core/base/checksum.c", "exec/input/hash.c"),
    "jpeglib.h": ("exec/input/jpeg.c", "tests/exec/input/", "tests/cuda/fake/fake_nvjpeg.c"),
    "jerror.h": ("exec/input/jpeg.c",),
    "simgrid/": ("sim/", "tests/sim/"),
    "xbt/": ("sim/", "tests/sim/"),
    "smpi/": (),
    "mpi.h": ("exec/", "app/main/foretrain_exec.c", "tests/exec/"),
    "dnnl": ("exec/cpu/",),
    "oneapi/": ("exec/cpu/", "tests/exec/device_step.c"),
    "cuda": ("exec/cuda/", "tests/cuda/", "tests/gpu/"),
    "cudnn": ("exec/cuda/", "tests/cuda/"),
    "cublas": ("exec/cuda/",),
    "nccl.h": ("exec/cuda/", "tests/cuda/"),
    "gsl/": ("app/",),
    "hwloc.h": ("app/process/cores.c",),
    "expat.h": ("app/import/import_xml.c",),
    "cmocka.h": ("tests/",),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def fault_of_quoted(name, target):
    """What is wrong with #include "target" in file `name`, or None."""
    folder = name.split("/")[0]
    if target == "config.h":
        return None if name.endswith(".c") else "config.h belongs in sources, not in headers"
    ours = [project.ROOT / target, project.ROOT / (target + ".in")]
    if "/" not in target or not any(path.is_file() for path in ours):
        return f'"{target}" is not a path from the root of the project'
    if not target.startswith(MAY[folder]):
        return f'{folder}/ may not include "{target}"'
    for wall, beyond in MAY_NOT.items():
        if name.startswith(wall) and target.startswith(beyond):
            return f'{wall} may not include "{target}"'
    return None


def fault_of_system(name, target):
    """What is wrong with #include <target> in file `name`, or None."""
    if (project.ROOT / target).is_file():
        return f"<{target}> is ours: write it in quotes"
    for prefix, owners in OWNERS.items():
        if target.startswith(prefix) and not name.startswith(owners):
            return f"<{target}> belongs in {' or '.join(owners) or 'no file'} alone"
    return None


def check(path):
    """Faults of one file."""
    name = project.place(path)
    includes = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            includes.append((number, *match.groups()))
    faults = []
    for number, quote, target in includes:
        fault = (fault_of_quoted if quote == '"' else fault_of_system)(name, target)
        if fault:
            faults.append(f"{name}:{number}: {fault}")
    own = path.with_suffix(".h")
    if path.suffix == ".c" and own.exists() and (
            not includes or includes[0][2] != project.place(own)):
        faults.append(f'{name}: its first include must be "{project.place(own)}"')
    return faults


def main():
    """Check every C file of the folders with rules."""
    paths = [p for p in project.files("*.c", "*.h", "*.cpp", "*.hpp", "*.cu", "*.cuh")
             if project.place(p).split("/")[0] in MAY]
    faults = [fault for path in paths for fault in check(path)]
    project.finish(faults, f"{len(paths)} files")


if __name__ == "__main__":
    main()
