#!/usr/bin/python3
"""Build one manual page.  usage: build.py FORETRAIN SCDOC PAGE.scd >PAGE

A line "@literal ARGUMENTS" in the page becomes what `foretrain ARGUMENTS` prints, as it stands; a
line "@insert ARGUMENTS" the same as part of the page.  So the page and the program cannot disagree.
"""
import subprocess
import sys


def expand(line, foretrain):
    """One line of the page, with what the program prints in place of a directive."""
    directive, _, arguments = line.strip().partition(" ")
    if directive not in ("@literal", "@insert"):
        return line
    output = subprocess.run([foretrain, *arguments.split()], check=True, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout
    return output if directive == "@insert" else f"```\n{output}```\n"


def main():
    """Expand the page and give it to scdoc."""
    foretrain, scdoc, page = sys.argv[1:]
    with open(page, encoding="utf-8") as lines:
        text = "".join(expand(line, foretrain) for line in lines)
    sys.exit(subprocess.run([scdoc], input=text, text=True, check=False).returncode)


if __name__ == "__main__":
    main()
