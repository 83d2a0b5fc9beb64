"""Runs the cases of a file: python3 tests/runner.py FILE [WORD...] [CASE...]

When the file is imported, it removes the words that are for itself from sys.argv; those left name cases.
A file that sets SKIPS counts as skipped where one of its cases was.
"""
import importlib
import pathlib
import sys
import unittest

import harness


def main():
    del sys.argv[0]
    path = pathlib.Path(sys.argv[0]).resolve()
    sys.path.insert(0, str(path.parent))
    module = importlib.import_module(path.stem)
    result = unittest.main(module, argv=sys.argv, verbosity=2, exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.skipped and getattr(module, "SKIPS", False):
        harness.skip(result.skipped[0][1])


main()
