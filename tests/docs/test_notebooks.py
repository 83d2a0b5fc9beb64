"""Every notebook runs, ends without an error, draws something, and is committed without outputs."""
import importlib.util
import pathlib
import resource
import sys
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tools"))
import notebooks  # noqa: E402

harness.needs_library()
needed = ("nbclient", "nbformat", "ipykernel", "pandas", "matplotlib")
missing = [name for name in needed if not importlib.util.find_spec(name)]
if missing:
    harness.skip(f"missing in {sys.executable}: {', '.join('python3-' + name for name in missing)}")

CACHE = pathlib.Path(harness.PROGRAM).parent / "notebooks" / "fonts"


def cpu_seconds():
    """What this process and all that it waited for have used."""
    return sum(usage.ru_utime + usage.ru_stime for usage in
               map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


class Notebooks(unittest.TestCase):
    """One test for each notebook; a notebook that cannot do its work here prints why, and skips."""

    def check(self, path):
        """Run one notebook."""
        cells = [cell for cell in notebooks.read(path).cells if cell.cell_type == "code"]
        for cell in cells:
            self.assertFalse(cell.outputs or cell.execution_count,
                             f"{path.name} has outputs: tools/notebooks.py --strip")
        self.assertIn("assert ", cells[-1].source, "the last cell does not check anything")
        before = cpu_seconds()
        outputs = [output for cell in notebooks.execute(path, CACHE).cells
                   if cell.cell_type == "code" for output in cell.outputs]
        print(f"{path.name}: {cpu_seconds() - before:.1f} s of CPU", flush=True)
        lines = "".join(output.get("text", "") for output in outputs).splitlines()
        self.assertTrue(any("image/svg+xml" in output.get("data", {}) for output in outputs))
        for line in lines:
            if line.startswith("SKIPPED: "):
                self.skipTest(line)


for each in sorted(notebooks.FOLDER.glob("*.ipynb")):
    setattr(Notebooks, f"test_{each.stem}", lambda self, path=each: self.check(path))
