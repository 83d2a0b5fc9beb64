"""Where the compiler and the libraries of a CUDA build are on this machine.

cuDNN and NCCL may lie in the toolkit, in the system, or in Python's site-packages, where PyTorch
brings them without the names that a linker looks for: then links to them are made in a folder of
ours.  Libraries and Open MPI that are not installed are unpacked from carried packages, without
root.
"""
import glob
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

# What pkg-config must know: what every build needs, and parts that the acceptance needs.
NEEDED = ("libfyaml", "jansson", "libmd", "zlib", "cmocka", "gsl", "libjpeg", "libxxhash", "libarchive")
# Header and library of each part that belongs to CUDA.
PARTS = {"cudart": "cuda_runtime_api.h", "cudnn": "cudnn.h", "nccl": "nccl.h"}


class Missing(Exception):
    """Something without which nothing can be built; the text says what to do."""


def site_folders():
    """Folders that Python packages of NVIDIA were installed into."""
    roots = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return [folder for root in roots for folder in sorted(glob.glob(f"{root}/nvidia/*"))]


def find_toolkit(folders):
    """The folder of CUDA, which nvcc itself names: in the path it may be a script that calls
    another, as meson.build knows too."""
    places = [shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc",
              *(f"{folder}/bin/nvcc" for folder in folders)]
    for place in places:
        if place and os.access(place, os.X_OK):
            said = subprocess.run([place, "--dryrun", "-x", "cu", os.devnull], check=False,
                                  capture_output=True, text=True).stderr
            top = re.search(r"^#\$ TOP=(.+)", said, re.MULTILINE)
            return pathlib.Path(top[1] if top else f"{os.path.realpath(place)}/../..").resolve()
    raise Missing("nvcc was not found: install the CUDA toolkit, or put its bin/ into $PATH")


def find_library(name, folder):
    """lib@name.so or lib@name.so.N in a library folder of @folder, or None."""
    for pattern in (f"lib{name}.so", f"lib{name}.so.*"):
        for part in ("lib64", "lib"):
            found = sorted(glob.glob(f"{folder}/{part}/{pattern}"))
            if found:
                return found[0]
    return None


def system_has(name, header):
    """Whether the C compiler finds both without being told where."""
    compiler = os.environ.get("CC", "cc").split()
    program = f"#include <{header}>\nint main(void) {{ return 0; }}\n"
    done = subprocess.run([*compiler, "-x", "c", "-", f"-l{name}", "-o", os.devnull], input=program,
                          capture_output=True, text=True, check=False)
    return done.returncode == 0


def link_all(pattern, folder):
    """Links in @folder to all that matches @pattern, where the name is free."""
    for path in glob.glob(pattern):
        link = folder / os.path.basename(path)
        if not link.exists():
            link.symlink_to(path)


def overlay(root, folders, target):
    """Links in @target to headers and libraries that the toolkit in @root lacks.
    @return whether there are any."""
    needed = False
    for name, header in PARTS.items():
        complete = any((root / part / f"lib{name}.so").exists() for part in ("lib64", "lib"))
        if ((root / "include" / header).exists() and complete) or system_has(name, header):
            continue
        folder = next((folder for folder in [root, *folders]
                       if os.path.exists(f"{folder}/include/{header}")
                       and find_library(name, folder)), None)
        if folder is None:
            raise Missing(f"{header} and lib{name}.so were found neither in {root}, nor in the "
                          "system, nor among Python's packages (nvidia-*)")
        needed = True
        library = find_library(name, folder)
        for part in ("include", "lib"):
            (target / part).mkdir(parents=True, exist_ok=True)
        link_all(f"{folder}/include/*", target / "include")
        link_all(f"{os.path.dirname(library)}/*.so*", target / "lib")
        plain = target / "lib" / f"lib{name}.so"
        if not plain.exists():
            plain.symlink_to(library)
    return needed


def unpack(package, prefix):
    """What `dpkg -x` does, by what comes with every compiler."""
    data = subprocess.run(["ar", "p", package, "data.tar.xz"], capture_output=True, check=False).stdout
    if not data:
        raise Missing(f"{package} is no Debian package that can be unpacked here")
    with tarfile.open(fileobj=io.BytesIO(data)) as files:
        files.extractall(prefix)


def unpack_carried(carried, prefix):
    """All packages of @carried into @prefix, with paths as they are there.
    @return folders of libraries."""
    packages = sorted(glob.glob(f"{carried}/*.deb"))
    if not packages:
        raise Missing(f"{', '.join(NEEDED)} are not all installed, and {carried} holds no "
                      "packages: run tests/gpu/carry.sh on Debian 12 and bring what it fetched")
    shutil.rmtree(prefix, ignore_errors=True)
    prefix.mkdir(parents=True)
    for package in packages:
        unpack(package, prefix)
    libraries = [os.path.dirname(path)
                 for path in glob.glob(f"{prefix}/usr/lib/*/pkgconfig")]
    for description in glob.glob(f"{prefix}/usr/lib/*/pkgconfig/*.pc"):
        path = pathlib.Path(description).resolve()
        path.write_text(path.read_text(encoding="utf-8").replace("/usr", f"{prefix}/usr"),
                        encoding="utf-8")
    program = prefix / "pkg-config"
    program.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={":".join(libraries)} exec {prefix}/usr/bin/pkgconf "$@"\n',
                       encoding="utf-8")
    program.chmod(0o755)
    return libraries


def has_mpi():
    """Whether this machine has an MPI of its own, which then is taken."""
    return bool(shutil.which("mpirun") and shutil.which("mpicc"))


def use_mpi(environment, prefix):
    """Have Open MPI find its parts below @prefix, where it was unpacked: by a folder of links to it and to what it
    needs, and to no other libraries, since LD_LIBRARY_PATH names it."""
    for part in ("bin", "lib"):
        (prefix / "mpi" / part).mkdir(parents=True)
    (prefix / "mpi" / "bin" / "mpirun").symlink_to(prefix / "usr/bin/orterun")
    link_all(f"{prefix}/usr/bin/orted", prefix / "mpi" / "bin")
    for name in ("mpi", "open-", "pmix", "munge", "hwloc", "udev", "event"):
        link_all(f"{prefix}/usr/lib/*/lib{name}*.so.*", prefix / "mpi" / "lib")
    prepend(environment, "PATH", [prefix / "mpi" / "bin"])
    prepend(environment, "LD_LIBRARY_PATH", [prefix / "mpi" / "lib"])
    environment.update({
        "OPAL_BINDIR": f"{prefix}/mpi/bin", "OPAL_PKGDATADIR": f"{prefix}/usr/share/openmpi",
        "OPAL_PKGLIBDIR": "".join(glob.glob(f"{prefix}/usr/lib/*/openmpi/lib/openmpi3")),
        "OPAL_SYSCONFDIR": f"{prefix}/etc",
        # Not told: plugins for networks that this machine lacks, and of compression.
        "OMPI_MCA_mca_base_component_show_load_errors": "0",
        "PMIX_MCA_pcompress_base_silence_warning": "1"})


def is_installed(environment):
    """Whether pkg-config knows all that is needed."""
    program = environment.get("PKG_CONFIG") or shutil.which("pkg-config") or shutil.which("pkgconf")
    if not program:
        return False
    return subprocess.run([program, "--exists", *NEEDED], env=environment, capture_output=True,
                          check=False).returncode == 0


def prepend(environment, name, paths):
    """@paths before what @name holds."""
    old = [environment[name]] if environment.get(name) else []
    environment[name] = ":".join([*map(str, paths), *old])


def environment_for(carried, work):
    """The environment in which meson finds everything; folders of ours are made in @work.
    @return (environment, remarks on what was taken from where)."""
    environment, remarks = dict(os.environ), []
    work = pathlib.Path(work).resolve()
    prefix, folders = work / "carried", site_folders()
    root = find_toolkit(folders)
    remarks.append(f"CUDA in {root}")
    prepend(environment, "PATH", [root / "bin", os.path.dirname(sys.executable)])
    libraries = [folder for folder in (root / "lib64", root / "lib") if folder.is_dir()]
    shutil.rmtree(work / "overlay", ignore_errors=True)
    if overlay(root, folders, work / "overlay"):
        remarks.append("cuDNN or NCCL from Python's packages")
        libraries.insert(0, work / "overlay" / "lib")
        for name in ("C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"):  # as of the system: not warned of
            prepend(environment, name, [work / "overlay" / "include"])
        prepend(environment, "LIBRARY_PATH", [work / "overlay" / "lib"])
    if not is_installed(environment) or (not has_mpi() and glob.glob(f"{carried}/*.deb")):
        carried_libraries = unpack_carried(carried, prefix)
        if has_mpi():
            for path in glob.glob(f"{prefix}/usr/lib/*/pkgconfig/ompi*.pc"):
                os.remove(path)
        else:
            use_mpi(environment, prefix)
        remarks.append(f"libraries from {carried}" + ("" if has_mpi() else ", and Open MPI"))
        environment["PKG_CONFIG"] = str(prefix / "pkg-config")
        prepend(environment, "PKG_CONFIG_PATH",
                [f"{folder}/pkgconfig" for folder in carried_libraries])
        # Debian's compiler looks there by itself, and its packages count on that.
        prepend(environment, "C_INCLUDE_PATH", glob.glob(f"{prefix}/usr/include/*-linux-gnu"))
        libraries += carried_libraries
    # A path in the programs, so that LD_LIBRARY_PATH, which PyTorch heeds too, names no more than
    # Open MPI; of the kind that counts for libraries that are loaded by libraries.
    paths = " ".join(f"-Wl,-rpath,{folder}" for folder in libraries)
    environment["LDFLAGS"] = f'{environment.get("LDFLAGS", "")} -Wl,--disable-new-dtags {paths}'
    return environment, remarks


def program(name, module):
    """Words that start @name, which may be installed as a Python module alone."""
    found = shutil.which(name) or shutil.which(name, path=os.path.dirname(sys.executable))
    return [found] if found else [sys.executable, "-m", module]
