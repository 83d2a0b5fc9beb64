"""What the style checks share: the project's files, and how to complain."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def files(*patterns):
    """Files that match a pattern ("*.c"), sorted; build and hidden directories are left out."""
    found = set()
    for pattern in patterns:
        for path in ROOT.rglob(pattern):
            parts = path.relative_to(ROOT).parts
            hidden = any(p.startswith(("build", ".")) or p == "__pycache__" for p in parts[:-1])
            if path.is_file() and not hidden:
                found.add(path)
    return sorted(found)


def place(path, line=None):
    """How messages name a place: path from the root, and a line."""
    name = str(path.relative_to(ROOT))
    return f"{name}:{line}" if line else name


def finish(faults, checked):
    """Print the faults and exit with the verdict.  Checking nothing is a fault as well."""
    for fault in faults:
        print(fault)
    print(f"{checked}: {len(faults)} faults")
    sys.exit(1 if faults or checked.startswith("0 ") else 0)
