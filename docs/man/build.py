#!/usr/bin/python3
"""Build one manual page.  usage: build.py FORETRAIN SCDOC PAGE.scd >PAGE

A line "@literal ARGUMENTS" in the page becomes what `foretrain ARGUMENTS` prints, as it stands; a
line "@keys FILE" the keys of `foretrain schema FILE --keys`, an entry each.  So the page and the
program cannot disagree.
"""
import re
import subprocess
import sys


def expand(line, foretrain):
    """One line of the page, with what the program prints in place of a directive."""
    directive, _, arguments = line.strip().partition(" ")
    if directive not in ("@literal", "@keys"):
        return line
    words = ["schema", arguments, "--keys"] if directive == "@keys" else arguments.split()
    output = subprocess.run([foretrain, *words], check=True, text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE).stdout
    return entries(output) if directive == "@keys" else f"```\n{output}```\n"


def entries(text):
    """Keys, each with its help and its type below, as entries; scdoc begins underlined text at "_"."""
    text = re.sub(r"([_*\\#])", r"\\\1", text)
    return re.sub(r"(?m)^(\S+)\n    (.*) (\([^()]*\))$", r"*\1* \3\n\t\2.\n", text)


def main():
    """Expand the page and give it to scdoc."""
    foretrain, scdoc, page = sys.argv[1:]
    with open(page, encoding="utf-8") as lines:
        text = "".join(expand(line, foretrain) for line in lines)
    sys.exit(subprocess.run([scdoc], input=text, text=True, check=False).returncode)


if __name__ == "__main__":
    main()
