#!/usr/bin/env python3
"""show collective --play: what a terminal shows, by a small terminal of our own."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import unittest

import support
from support import run

WORDS = ("show", "collective", "--algorithm=torus2d", "--grid=4x2")


class Screen:
    """Lines, as a terminal shows them that knows the three orders that --play gives."""

    def __init__(self, columns):
        self.columns, self.lines, self.seen = columns, [""], []

    def write(self, text):
        """Take @text, noting what was seen before lines are erased."""
        for order, plain in re.findall(r"\x1b\[(\d*[A-Z])|([^\x1b]+)", text):
            if order == "J":
                del self.lines[self.row + 1:]
                self.lines[self.row] = ""
            elif order:
                self.seen.append("\n".join(self.lines))
                self.row = len(self.lines) - 1 - int(order[:-1])
            for line in plain.replace("\r\n", "\n").replace("\r", "").splitlines(keepends=True):
                whole = self.lines[-1] + line.rstrip("\n")
                self.lines[-1:] = [whole[i:i + self.columns] for i in range(0, max(1, len(whole)), self.columns)]
                if line.endswith("\n"):
                    self.lines.append("")


class Play(support.Case):
    """On a pseudo terminal."""

    def play(self, *words, rows=40, columns=60, ends=()):
        """The exit status, what was said, and the terminal, on which Enter is pressed behind each of @ends."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        with subprocess.Popen([support.PROGRAM, *WORDS, *words], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as process:
            os.close(theirs)
            text, ends = b"", list(ends)
            while select.select([ours], [], [], 100)[0]:
                try:
                    text += os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                if ends and text.decode().replace("\r", "").endswith(ends[0]):
                    os.write(ours, b"\n")
                    del ends[0]
            os.close(ours)
            said = process.stderr.read().decode()
        screen = Screen(columns)
        screen.write(text.decode())
        return process.returncode, said, screen

    def test_each_round_is_drawn_over_the_one_before(self):
        whole = run(*WORDS, "--text").stdout
        at = [found.start() for found in re.finditer(r"^(at first|after round)", whole, re.M)] + [len(whole)]
        frames = [whole[:at[0]] + whole[begin:end] for begin, end in zip(at, at[1:])]
        self.assertEqual(len(frames), 9)  # and eight rounds

        def wrapped(text):
            return "\n".join(line[i:i + 60] for line in text.split("\n") for i in range(0, max(1, len(line)), 60))
        for words, ends in ((("--play=0.01",), ()), (("--play=0",), [frame[-80:] for frame in frames[:-1]])):
            code, said, screen = self.play(*words, ends=ends)
            self.assertEqual((code, said), (0, ""))
            shown = [*screen.seen, "\n".join(screen.lines)]
            self.assertEqual([text.strip() for text in shown], [wrapped(frame).strip() for frame in frames], words)

    def test_what_no_terminal_shows_is_refused(self):
        self.assertIn("--text prints all rounds", self.refused(64, *WORDS, "--play=1"))
        code, said, _ = self.play("--play=1", rows=5)
        self.assertEqual(code, 64)
        self.assertRegex(said, "--play needs a terminal of [0-9]+ lines, and this one has 5: make it larger, .* or use --text")
        for wrong in ("-1", "soon", "nan", "1e9"):
            self.assertIn("seconds of a round, such as 0.5", self.play(f"--play={wrong}")[1])
        self.assertIn("no effect without --text, --play or --animate", self.refused(64, *WORDS, "--platform=torus-4x4"))


if __name__ == "__main__":
    unittest.main()
