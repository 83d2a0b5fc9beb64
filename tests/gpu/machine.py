"""What this machine is: its GPU by nvidia-smi, and versions for the record."""
import datetime
import json
import os
import platform
import re
import shutil
import subprocess

CLOCKS = ("clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem", "power.draw", "power.limit",
          "temperature.gpu", "persistence_mode")


class NoGpu(Exception):
    """Why there is none to use."""


def output(words, limit=20):
    """What a command prints, or ""."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def query(*fields):
    """{field: what nvidia-smi says of it now} for the first GPU; {} without one."""
    line = output(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader", "--id=0"])
    values = [value.strip() for value in line.split(",")]
    return dict(zip(fields, values)) if len(values) == len(fields) else {}


def gpu():
    """Name, compute capability ("90") and driver of the first GPU, and whether it admits several processes at a
    time."""
    found = query("name", "compute_cap", "driver_version", "compute_mode")
    if not found:
        raise NoGpu("nvidia-smi finds no NVIDIA GPU")
    return {"name": found["name"], "capability": found["compute_cap"].replace(".", ""),
            "driver": found["driver_version"], "shared": found["compute_mode"] == "Default"}


def torch_versions(python):
    """Of PyTorch and what it was built with, asked in a process of its own."""
    text = output([python, "-c", "import json, torch; c = torch.backends.cudnn; "
                   "print(json.dumps({'torch': torch.__version__, 'torch_cuda': "
                   "torch.version.cuda, 'torch_cudnn': c.version() if c.is_available() else None, "
                   "'torch_nccl': '.'.join(map(str, torch.cuda.nccl.version())) "
                   "if torch.cuda.is_available() else None}))"], limit=90)
    return json.loads(text) if text else {}


def header_version(folders, header, names):
    """Numbers that a header defines under @names, joined by points; None where it is not found."""
    for folder in folders:
        try:
            with open(os.path.join(folder, header), encoding="utf-8") as file:
                text = file.read()
        except OSError:
            continue
        found = [re.search(rf"#define\s+{name}\s+(\d+)", text) for name in names]
        if all(found):
            return ".".join(match.group(1) for match in found)
    return None


def commit(root):
    """Of the project: what git says, or the file that stands in for it; None where neither is."""
    found = output(["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"])
    return found or os.environ.get("FORETRAIN_COMMIT")


def describe(root, python):
    """The record of this machine, in machine.json."""
    nvcc = shutil.which("nvcc")
    version = re.search(r"release (\S+), V(\S+)", output([nvcc, "--version"]) if nvcc else "")
    cuda_include = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))),
                                "include") if nvcc else ""
    folders = [*os.environ.get("C_INCLUDE_PATH", "").split(":"), cuda_include, "/usr/include"]
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(root),
        "cuda": version.group(2) if version else None,
        "cudnn": header_version(folders, "cudnn_version.h",
                                ["CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"]),
        "nccl": header_version(folders, "nccl.h", ["NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH"]),
        "compiler": output(["cc", "--version"]).split("\n")[0],
        "python": platform.python_version(),
        **torch_versions(python),
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count(),
        "clocks_before": query(*CLOCKS),
    }
