#!/usr/bin/python3
"""Run notebooks and write them, with what they print and draw, as pages of HTML.

Usage: tools/notebooks.py [--to DIRECTORY] [NOTEBOOK...]    (default: build/notebooks, all)
       tools/notebooks.py --strip [NOTEBOOK...]             (remove outputs, before a commit)

$FORETRAIN is the program (default: build/foretrain).  A page needs nothing but itself; with all notebooks the class, its
glossary, formulas and solutions become pages, too, as well as slides and all that the commands of the class draw, so that the
folder can be given to whoever has no clone.
"""
import argparse
import base64
import html
import os
import pathlib
import re
import sys
import tempfile

import project
import slides

FOLDER = project.ROOT / "notebooks"
DOCS = {"index": project.ROOT / "docs" / "class.md",
        **{path.stem: path for path in sorted((project.ROOT / "docs" / "class").glob("*.md"))}}
STYLE = """:root { color-scheme: light dark }
body { max-width: 48em; margin: 2em auto; padding: 0 1em; font: 16px/1.5 sans-serif; overflow-wrap: anywhere }
pre { padding: .6em; overflow-x: auto; white-space: pre-wrap; background: rgb(128 128 128 / 7%); font-size: .85em }
pre.output { background: none; border-left: 3px solid gray }
img { max-width: 100%; background: #fff }
table { display: block; overflow-x: auto; overflow-wrap: normal; border-collapse: collapse; margin: 1em 0;
  background: linear-gradient(90deg, Canvas 60%, transparent) 0 / 1rem 102% no-repeat local,
    linear-gradient(270deg, Canvas 60%, transparent) 100% / 1rem 102% no-repeat local,
    linear-gradient(90deg, gray, transparent) 0 / .7rem 100% no-repeat, linear-gradient(270deg, gray, transparent) 100% / .7rem 100% no-repeat }
table, th, td { border: 0 }
th, td { padding: .2em .5em; text-align: right }
thead th { border-bottom: 1px solid grey }
@media (max-width: 30rem) { table { font-size: .7rem } th, td { padding: .1em .3em } }
@media print { nav { display: none } pre, img, tr { break-inside: avoid } h2 { break-after: avoid } }"""
WORDS = "td { text-align: left; vertical-align: top; overflow-wrap: anywhere }"


def read(path):
    """A notebook as committed."""
    import nbformat
    return nbformat.read(path, as_version=4)


def execute(path, cache):
    """The notebook of a file with its outputs; fonts of pictures are kept in the folder @cache.  The
    first error in a cell is raised."""
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # else its debugger warns of itself
    from nbclient import NotebookClient
    import nbformat
    notebook = read(path)
    svg = nbformat.v4.new_code_cell("%config InlineBackend.figure_formats = ['svg']")
    notebook.cells.insert(0, svg)
    with tempfile.TemporaryDirectory() as home:  # nothing of the user's is read or written
        env = {**os.environ, "HOME": home, "IPYTHONDIR": home, "JUPYTER_CONFIG_DIR": home,
               "JUPYTER_RUNTIME_DIR": home, "MPLCONFIGDIR": str(cache.resolve()), "OMP_NUM_THREADS": "1",
               "PYTHONDONTWRITEBYTECODE": "1"}
        env.pop("MPLBACKEND", None)  # the kernel chooses the one that keeps pictures
        NotebookClient(notebook, timeout=1800, kernel_name="python3",
                       resources={"metadata": {"path": str(FOLDER)}}).execute(env=env)
    notebook.cells.remove(svg)
    return notebook


def page_of_output(output, what):
    """HTML of what a cell printed or drew; @what: the heading above it."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        picture = base64.b64encode(data["image/svg+xml"].encode()).decode()
        return f'<img alt="Picture: {html.escape(what)}" src="data:image/svg+xml;base64,{picture}">\n'
    if "text/html" in data:
        return data["text/html"]
    text = output.get("text", data.get("text/plain", ""))
    return f'<pre class="output">{html.escape(text)}</pre>\n'


def link(found):
    """A link as it is among the pages; what is in the clone alone becomes its words."""
    target, words = found[1], found[2]
    path, _, place = target.partition("#")
    stem = {"class": "index"}.get(pathlib.Path(path).stem, pathlib.Path(path).stem)
    if not path or "://" in target or path.endswith(".html"):
        return found[0]
    if stem in DOCS and path.endswith(".md") or path.endswith(".ipynb"):
        return f'<a href="{stem}.html{"#" + place if place else ""}">{words}</a>'
    return f'<span title="{html.escape(target)} in a clone">{words}</span>'


def write(target, title, body, style=""):
    """A page with the way to the others."""
    names = [*DOCS, "slides_a", "slides_b", *(path.stem for path in sorted(FOLDER.glob("*.ipynb")))]
    shown = {name: "class" if name == "index" else name.replace("_", " ") for name in names}
    ways = " &#183; ".join(f'<a href="{name}.html">{shown[name]}</a>' if name != target.stem else f"<b>{shown[name]}</b>" for name in names)
    body = re.sub(r'<a href="([^"]*)">(.*?)</a>', link, body, flags=re.DOTALL)
    target.write_text(f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
                      '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
                      f"<style>{STYLE}{style}</style></head>\n<body>\n<nav>{ways}</nav>\n{body}</body></html>\n",
                      encoding="utf-8")
    print(target)


def to_html(text):
    """Of Markdown."""
    import markdown
    return markdown.markdown(text, extensions=["tables", "fenced_code", "md_in_html", "toc"]) + "\n"


def page(notebook):
    """The body of a notebook with outputs."""
    body, heading = "", ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            body += to_html(cell.source)
            heading = (re.findall("^#+ (.*)", cell.source, re.MULTILINE) or [heading])[-1]
        else:
            body += f"<pre>{html.escape(cell.source)}</pre>\n"
            body += "".join(page_of_output(output, heading) for output in cell.outputs)
    return body


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
    pictures = {}
    for path in options.notebook or sorted(FOLDER.glob("*.ipynb")):
        if options.strip:
            strip(path)
            continue
        options.to.mkdir(parents=True, exist_ok=True)
        body = page(execute(path, options.to / "fonts"))
        pictures[path.stem] = [found[::-1] for found in re.findall('(<img alt="Picture: (.*?)".*?>)', body)]
        write(options.to / f"{path.stem}.html", path.stem, body)
    if options.notebook or options.strip:
        return
    for name, path in DOCS.items():
        write(options.to / f"{name}.html", name, to_html(path.read_text(encoding="utf-8")), WORDS)
    for key, body in slides.bodies(DOCS["index"].read_text(encoding="utf-8"), pictures, options.to, to_html).items():
        write(options.to / f"slides_{key}.html", f"slides {key}", body, slides.STYLE)


if __name__ == "__main__":
    try:
        main()
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing}: packages.txt names what notebooks need")
