#!/usr/bin/python3
"""Every room sees only the rooms and libraries it may see (docs/DESIGN.md, section 2).

A room that it may see and never does is a fault too: the table says what is, not what was.  Headers
of C, of core/base and of the same room are included once: not where another include brings them.
"""
import functools
import re

import project
import rooms

# Library header -> the files that may include it.  Anything not named here is free (libc, POSIX).
OWNERS = {
    "libfyaml.h": ("core/config/yaml.c",),
    "jansson.h": ("core/base/json.c",),
    "sha2.h": ("core/", "app/page/html.c", "app/wasm/host.c"),
    "xxhash.h": ("core/base/file.c", "exec/input/pack/pack.c"),
    "jpeglib.h": ("exec/input/picture/jpeg.c", "tests/exec/input/"),
    "png.h": ("exec/input/picture/other.c",),
    "webp/": ("exec/input/picture/other.c",),
    "jerror.h": ("exec/input/picture/jpeg.c",),
    "simgrid/": ("sim/", "tests/sim/"),
    "xbt/": ("sim/", "tests/sim/"),
    "smpi/": (),
    "mpi.h": ("exec/", "app/main/foretrain_exec.c", "tests/exec/"),
    "dnnl": ("exec/cpu/dnnl/",),
    "oneapi/": ("exec/cpu/dnnl/", "tests/exec/device_step.c"),
    "cuda": ("exec/cuda/", "tests/cuda/", "tests/gpu/"),
    "cudnn": ("exec/cuda/", "tests/cuda/"),
    "cublas": ("exec/cuda/",),
    "nccl.h": ("exec/cuda/", "tests/cuda/"),
    "gsl/": ("app/", "tests/core/test_base.c"),
    "hwloc.h": ("app/process/cores.c",),
    "cmocka.h": ("tests/",),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
ROOMS = rooms.read()


def allowed_by(room, target):
    """What in the table lets files of @room include @target, or None."""
    folder = target.rsplit("/", 1)[0]
    if folder == room or folder == room.split("/")[0]:
        return folder
    return next((may for may in ROOMS[room] if may in (folder, target)), None)


def fault_of_quoted(name, target):
    """What is wrong with #include "target" in file `name`, or None."""
    if target == "config.h":
        return None if name.endswith(".c") else "config.h belongs in sources, not in headers"
    ours = [project.ROOT / target, project.ROOT / (target + ".in")]
    if "/" not in target or not any(path.is_file() for path in ours):
        return f'"{target}" is not a path from the root of the project'
    room = name.rsplit("/", 1)[0]
    if name.startswith("tests/"):
        return None
    if room not in ROOMS:
        return f"{room}/ is not in the table of docs/DESIGN.md"
    return None if allowed_by(room, target) else f'{room}/ may not include "{target}"'


def fault_of_system(name, target):
    """What is wrong with #include <target> in file `name`, or None."""
    if (project.ROOT / target).is_file():
        return f"<{target}> is ours: write it in quotes"
    for prefix, owners in OWNERS.items():
        if target.startswith(prefix) and not name.startswith(owners):
            return f"<{target}> belongs in {' or '.join(owners) or 'no file'} alone"
    return None


def includes_of(path):
    """(line, quote, target) of each include."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, *match.groups()


@functools.lru_cache(maxsize=None)
def brought(target):
    """All that includes of our file @target bring."""
    path = project.ROOT / target
    if not path.is_file():
        return frozenset()
    own = {other for _, _, other in includes_of(path)}
    return frozenset(own.union(*(brought(other) for other in own)))


def repeated(name, includes):
    """(line, fault) of each header that another include brings; libjpeg needs stdio.h before it,
    and the stand-ins in C++ say all that they need."""
    if name.endswith("pp") or any(target == "jpeglib.h" for _, _, target in includes):
        return
    rooms_once = ("core/base", name.rsplit("/", 1)[0])
    for number, quote, target in includes:
        if target == name[:-1] + "h":
            continue
        if target.rsplit("/", 1)[0] in rooms_once or (quote == "<" and "/" not in target):
            for other in (other for _, _, other in includes if target in brought(other)):
                yield number, f"{target} comes with {other}"
                break


def check(path, used):
    """Faults of one file; what it makes use of in the table is added to @used."""
    name = project.place(path)
    includes = list(includes_of(path))
    faults = []
    for number, quote, target in includes:
        fault = (fault_of_quoted if quote == '"' else fault_of_system)(name, target)
        if fault:
            faults.append(f"{name}:{number}: {fault}")
        room = name.rsplit("/", 1)[0]
        if quote == '"' and room in ROOMS and not fault:
            used.add((room, allowed_by(room, target)))
    faults += [f"{name}:{number}: {fault}" for number, fault in repeated(name, includes)]
    own = path.with_suffix(".h")
    if path.suffix == ".c" and own.exists() and (
            not includes or includes[0][2] != project.place(own)):
        faults.append(f'{name}: its first include must be "{project.place(own)}"')
    return faults


def circles():
    """Rooms that can be reached from themselves."""
    reach = {room: {may for may in ROOMS[room] if may in ROOMS} for room in ROOMS}
    for _ in ROOMS:
        reach = {room: seen.union(*(reach[other] for other in seen))
                 for room, seen in reach.items()}
    return [f"{room}: includes itself by way of others" for room in ROOMS if room in reach[room]]


def main():
    """Check every C file of the folders with rules."""
    paths = [p for p in project.files("*.c", "*.h", "*.cpp", "*.hpp", "*.cu", "*.cuh")
             if project.place(p).split("/")[0] in (*rooms.FOLDERS, "tests")]
    used = set()
    faults = [fault for path in paths for fault in check(path, used)]
    faults += [f"docs/DESIGN.md: {room} does not include {may}"
               for room in ROOMS for may in ROOMS[room]
               if (room, may) not in used and may != "core/base"]  # it comes with others
    project.finish(faults + circles() + rooms.faults(ROOMS, rooms.count()), f"{len(paths)} files")


if __name__ == "__main__":
    main()
