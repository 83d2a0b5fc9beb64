#!/usr/bin/python3
"""Write a CSV table as a C array, so that a program carries it without reading a file.

Usage: csv_to_c.py TABLE.csv HEADER STRUCT NAME

Columns are members of STRUCT, which HEADER declares beside `extern const struct STRUCT NAME[];`.  An
empty cell stays 0, and so does the first member of a last row, which ends the array.
"""
import csv
import json
import re
import sys


def literal(cell):
    """A number, or a constant such as NORM_RMS, as it is; anything else as a C string."""
    if re.fullmatch("[A-Z]+(_[A-Z]+)+", cell):
        return cell
    try:
        float(cell)
        return cell
    except ValueError:
        return json.dumps(cell)


def main(path, header, struct, name):
    """Print the source."""
    print(f'#include "{header}"\n\nconst struct {struct} {name}[] = {{')
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            cells = ", ".join(f".{key} = {literal(cell)}" for key, cell in row.items() if cell)
            print(f"    {{{cells}}},")
    print("    {0},\n};")


main(*sys.argv[1:])
