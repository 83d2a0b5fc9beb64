#!/usr/bin/python3
"""Run notebooks and write them, with what they print and draw, as pages of HTML.

Usage: tools/notebooks.py [--to DIRECTORY] [NOTEBOOK...]    (default: build/notebooks, all)
       tools/notebooks.py --strip [NOTEBOOK...]             (remove outputs, before a commit)

$FORETRAIN is the program (default: build/foretrain).  A page needs nothing but itself.
"""
import argparse
import html
import os
import pathlib
import sys
import tempfile

import project

FOLDER = project.ROOT / "notebooks"
STYLE = """body { max-width: 48em; margin: 2em auto; padding: 0 1em; font: 16px/1.5 sans-serif }
pre { padding: .6em; overflow-x: auto; background: #f3f3f3; font-size: .85em }
@media print { pre { white-space: pre-wrap } }
pre.output { background: none; border-left: 3px solid #bbb }
img { max-width: 100% }
table { border-collapse: collapse; margin: 1em 0 } th, td { padding: .2em .8em; text-align: right }
th { border-bottom: 1px solid grey }"""


def read(path):
    """A notebook as committed."""
    import nbformat
    return nbformat.read(path, as_version=4)


def execute(path, cache):
    """The notebook of a file with its outputs; fonts of pictures are kept in the folder @cache.  The
    first error in a cell is raised."""
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # else its debugger warns of itself
    from nbclient import NotebookClient
    notebook = read(path)
    with tempfile.TemporaryDirectory() as home:  # nothing of the user's is read or written
        env = {**os.environ, "HOME": home, "IPYTHONDIR": home, "JUPYTER_CONFIG_DIR": home,
               "JUPYTER_RUNTIME_DIR": home, "MPLCONFIGDIR": str(cache.resolve()), "OMP_NUM_THREADS": "1",
               "PYTHONDONTWRITEBYTECODE": "1"}
        env.pop("MPLBACKEND", None)  # the kernel chooses the one that keeps pictures
        NotebookClient(notebook, timeout=1800, kernel_name="python3",
                       resources={"metadata": {"path": str(FOLDER)}}).execute(env=env)
    return notebook


def page_of_output(output):
    """HTML of what a cell printed or drew."""
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="picture" src="data:image/png;base64,{data["image/png"].strip()}">\n'
    if "text/html" in data:
        return data["text/html"]
    text = output.get("text", data.get("text/plain", ""))
    return f'<pre class="output">{html.escape(text)}</pre>\n'


def page(title, notebook):
    """A notebook with outputs as one page."""
    import markdown
    body = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            body += markdown.markdown(cell.source, extensions=["tables", "fenced_code"]) + "\n"
        else:
            body += f"<pre>{html.escape(cell.source)}</pre>\n"
            body += "".join(map(page_of_output, cell.outputs))
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
            f"<style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n")


def strip(path):
    """Remove outputs and numbers of cells from a file."""
    import nbformat
    notebook = read(path)
    for number, cell in enumerate(notebook.cells, 1):
        cell["id"] = f"cell-{number}"
        cell["metadata"] = {}
        if cell.cell_type == "code":
            cell["outputs"], cell["execution_count"] = [], None
    notebook["metadata"] = {"kernelspec": {"name": "python3", "display_name": "Python 3",
                                           "language": "python"}}
    notebook["nbformat_minor"] = 5
    nbformat.write(notebook, path)


def main():
    """Write the pages, or strip."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=pathlib.Path, default=project.ROOT / "build" / "notebooks")
    parser.add_argument("--strip", action="store_true", help="remove outputs instead")
    parser.add_argument("notebook", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    for path in options.notebook or sorted(FOLDER.glob("*.ipynb")):
        if options.strip:
            strip(path)
            continue
        options.to.mkdir(parents=True, exist_ok=True)
        target = options.to / f"{path.stem}.html"
        notebook = execute(path, options.to / "fonts")
        target.write_text(page(path.stem, notebook), encoding="utf-8")
        print(target)


if __name__ == "__main__":
    try:
        main()
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing}: packages.txt names what notebooks need")
