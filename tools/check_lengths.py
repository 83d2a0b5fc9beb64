#!/usr/bin/python3
"""Functions and files stay short enough to hold in one's head; prints the figures.

A function's length is the lines between its braces.  clang-format puts the braces of functions,
and of nothing else, alone at the start of a line.
"""
import project

FUNCTION_LIMIT, FILE_LIMIT = 80, 1000
CODE = ("*.c", "*.h", "*.cpp", "*.hpp", "*.cu", "*.cuh")


def functions(lines):
    """Yield (line number, length) of each function body."""
    start = None
    for number, line in enumerate(lines, 1):
        if line.rstrip() == "{":
            start = number
        elif line.startswith("}") and start:
            yield start, number - start - 1
            start = None


def quantile(ordered, fraction):
    """The value below which the fraction of the ordered values lies."""
    return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]


def report(title, values):
    """Print the distribution of some lengths."""
    ordered = sorted(values) or [0]
    print(f"{title}: {len(values)}, lines median {quantile(ordered, 0.5)}, "
          f"p90 {quantile(ordered, 0.9)}, max {ordered[-1]}")


def main():
    """Measure every C file; files of other languages only as files."""
    faults, product, tests, sizes = [], [], [], []
    for path in project.files(*CODE, "*.py", "*.sh", "meson.build"):
        lines = path.read_text(encoding="utf-8").splitlines()
        sizes.append(len(lines))
        if len(lines) > FILE_LIMIT:
            faults.append(f"{project.place(path)}: {len(lines)} lines, limit {FILE_LIMIT}")
        if "*" + path.suffix not in CODE:
            continue
        for number, length in functions(lines):
            (tests if "tests/" in project.place(path) else product).append(length)
            if length > FUNCTION_LIMIT:
                faults.append(f"{project.place(path, number)}: function of {length} lines, "
                              f"limit {FUNCTION_LIMIT}")
    report("functions", product)
    report("functions of tests", tests)
    report("files", sizes)
    project.finish(faults, f"{len(sizes)} files")


if __name__ == "__main__":
    main()
