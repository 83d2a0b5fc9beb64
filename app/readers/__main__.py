"""foretrain-read KIND NAME [RANKS NODES]: the draft of a platform or network, or steps, from the file of another
tool on standard input, as JSON; what `foretrain import` runs.  NAME is for messages.  Of ONNX, RANKS of 1
counts operations that are not known by the bytes they move.

foretrain-read --env: the versions of Python and of what readers import.

Exit codes: 0, 64 usage, 65 not such a file, 69 a package is missing, 70 a fault of a reader, 71 memory.
"""
import importlib
import json
import os
import resource
import sys
import warnings

import draft

READERS = {"hwloc": "hwloc", "ibnetdiscover": "ibnetdiscover", "log": "training_log", "nccl-tests": "nccl_tests", "nccl-topo": "nccl_topo",
           "onnx": "onnx_network", "osu": "osu", "slurm": "slurm"}
PACKAGES = ("yaml", "onnx")
SIZE_LIMIT = 128 << 20  # of a text [bytes]
ONNX_LIMIT = 2 << 30  # what protobuf reads [bytes]
CPU_LIMIT = 300  # [s]


def environment():
    """The versions of what is there."""
    found = {"python": sys.version.split(maxsplit=1)[0]}
    for name in PACKAGES:
        try:
            found[name] = importlib.import_module(name).__version__
        except ImportError:
            found[name] = None
    return found


def read(kind, name, options):
    """The document of a file on standard input."""
    limit = ONNX_LIMIT if kind == "onnx" else SIZE_LIMIT
    data = sys.stdin.buffer.read(limit + 1)
    if len(data) > limit:
        raise draft.Refused(f"larger than {limit >> 20} MiB")
    try:
        reader = importlib.import_module(READERS[kind])
    except ImportError as missing:
        raise draft.Refused(f"is read with python3-onnx: apt-get install python3-onnx ({missing})", code=69) from None
    base = draft.plain(os.path.basename(name))
    if kind == "onnx":
        return reader.document(data, base, options[0] > 0)
    made = draft.Draft(base)
    reader.read(made, data.decode("utf-8", "replace"), *options)
    return made.finish()


def main(words):
    """The program; returns its exit code."""
    if words == ["--env"]:
        print(json.dumps(environment()))
        return 0
    if len(words) not in (2, 4) or words[0] not in READERS or not all(w.isdigit() for w in words[2:]):
        print(__doc__.split("\n\n", maxsplit=1)[0], file=sys.stderr)
        return 64
    warnings.filterwarnings("error", ".*Not all data was converted")  # of protobuf
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
    options = [int(word) for word in words[2:]] or [0, 0]
    try:
        print(json.dumps(read(words[0], words[1], options)))
        return 0
    except draft.Refused as refused:
        text, code = str(refused), refused.code
    except MemoryError:
        text, code = ": no memory", 71
    except RecursionError:
        text, code = ": nested too deeply", 65
    except Exception as fault:  # whatever a reader did not foresee in a file from anywhere
        text, code = f": a fault of the reader: {type(fault).__name__}: {fault}", 70
    print(draft.plain(words[1] + text), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
