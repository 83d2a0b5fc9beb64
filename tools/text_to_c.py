#!/usr/bin/python3
"""Write a text file as a C array that ends with NUL, so that a program carries it without reading a file.

A .wasm file is written as the text that pages carry: gzip, in base64.

Usage: text_to_c.py FILE HEADER NAME

HEADER declares `extern const char NAME[];`.
"""
import base64
import gzip
import pathlib
import sys


def main(path, header, name):
    """Print the source; numbers, for a string literal may have only 4095 characters."""
    content = pathlib.Path(path).read_bytes()
    if path.endswith(".wasm"):
        content = base64.b64encode(gzip.compress(content, mtime=0))
    numbers = [f"{byte}," for byte in content]
    lines = [" ".join(numbers[i:i + 20]) for i in range(0, len(numbers), 20)]
    print(f'#include "{header}"\n\nconst char {name}[] = {{\n' + "\n".join(lines) + "\n0};")


main(*sys.argv[1:])
