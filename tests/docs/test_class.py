#!/usr/bin/python3
"""Every command of docs/class.md does what the class expects: it ends well, and prints."""
import os
import pathlib
import re
import shlex
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "class.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
            for line in block.splitlines() if line.startswith("build/foretrain ")]
# The lab may be missing (69), and a busy machine disturbs it (75).
LAB = (0, 69, 75)


class Class(unittest.TestCase):
    """As typed from the root of the clone, but for what a shell would do."""

    def test_commands(self):
        self.assertGreater(len(COMMANDS), 20)
        for line in COMMANDS:
            with self.subTest(line):
                words = shlex.split(line.split(" && ")[0])
                done = subprocess.run([os.environ["FORETRAIN"], *words[1:]], cwd=ROOT, check=False,
                                      capture_output=True, text=True, timeout=1800)
                self.assertIn(done.returncode, LAB if "lab" in line else (0,), done.stderr)
                self.assertTrue(done.stdout or done.returncode or words[-1] == "true")

    def test_minutes_and_places(self):
        """Each minute of the plan is that of the heading it leads to."""
        plan = re.findall(r"^\| (\d+) \| \[.*?\]\(#(\d+)-", PAGE, re.MULTILINE)
        self.assertEqual([minute for minute, _ in plan], re.findall(r"^## (\d+):", PAGE, re.MULTILINE))
        for minute, place in plan:
            self.assertEqual(minute, place)


if __name__ == "__main__":
    unittest.main(verbosity=2)
