"""Slides of the class: one page for each lesson of docs/class.md, for the projector.  tools/notebooks.py calls this.

A slide has what students must see: questions, formulas, commands with what they print, pictures of the notebooks.  What the
lecturer says is folded under it.  Space and Page Down go on; no script is needed.
"""
import os
import re
import shlex
import subprocess

import project

PROGRAM = os.environ.get("FORETRAIN", str(project.ROOT / "build" / "foretrain"))
SIZES = {"text": (21, 98), "small": (28, 132)}  # lines of an output on a slide, and letters of a line
STYLE = """
html { scroll-snap-type: y proximity }
body { max-width: none; margin: 0; padding: 0; font-size: max(14px, 3.1vmin) }
section { min-height: 100vh; padding: 3vmin 6vmin; box-sizing: border-box; scroll-snap-align: start; break-after: page }
h2 { font-size: 1.5em; margin: 0 0 .6em } section img { display: block; height: 70vh; width: 100%; object-fit: contain }
section pre { font-size: min(.75em, 1.8vw); line-height: 1.25; margin: .4em 0 }
section pre:has(.language-small) { font-size: min(.58em, 1.4vw) } .notes { font-size: .6em; color: gray }
"""


def prints(line, folder):
    """What a command of the class prints, (size, lines); its files go to @folder.  Nothing of what is not ours."""
    words = shlex.split(line)
    if words[0] != "build/foretrain":
        return "text", []
    words = [re.sub("^build/", f"{folder.resolve()}/", word) for word in words[1:]]
    done = subprocess.run([PROGRAM, *words], cwd=project.ROOT, stdout=subprocess.PIPE, check=False)
    assert done.returncode in (0, 1, 75), line  # 1 and 75: verdicts of validate
    said = done.stdout.decode().replace(f"{folder.resolve()}/", "build/").splitlines()
    for size, (room, width) in SIZES.items():
        room -= 9 if ".html" in line else 0  # for the link, and a question
        fits = [one for i, one in enumerate(said) if sum(1 + len(before) // width for before in said[:i + 1]) <= room]
        if len(fits) == len(said):
            return size, said
    return size, [*fits, "..."]


FOLD = re.compile(r"<details.*?</details>\n", re.DOTALL)  # a question that unfolds


def shown(words):
    """The sentences that students read: questions, formulas, figures, and what is stressed, but nothing that unfolds."""
    flat = re.sub(r"\s*\n\s*", " ", FOLD.sub("", words).strip())
    return [one for one in re.split(r"(?<=[.?!])\s+(?=[*`]*[A-Z])", flat) if re.search(r"\?|\*\w|`[^`]*[=(][^`]*`|\d\d", one)]


def slide(title, words, commands, folder):
    """Markdown of one slide."""
    text = f"## {title}\n\n" + "".join(f"* {sentence}\n" for sentence in shown(words)) + "\n" + "\n".join(FOLD.findall(words))
    for line in commands:
        size, said = prints(line, folder)
        text += "\n".join([f"\n```{size}", f"$ {line}", *said, "```\n"])
        for page in re.findall(r"build/(\S+\.html)", line):
            text += f"\n[the page that it writes]({page})\n"
    return text


def slides(source, pictures, folder):
    """Two lists of slides, (Markdown, what is said, HTML of a picture or ""); @pictures: (heading, HTML) of each notebook by its stem."""
    lessons, used = {"a": [], "b": []}, set()
    for key, title, section in re.findall(r"^## ([AB])\d+: (.*?)\n(.*?)(?=^## |\Z)", source, re.MULTILINE | re.DOTALL):
        mine, title = lessons[key.lower()], title[0].upper() + title[1:]
        parts = re.split(r"(?:<!-- run: (.*?) -->\n)?```(sh|text)\n(.*?)```\n", section, flags=re.DOTALL)
        for i in range(0, len(parts), 4):  # words, then a command whose output stands there, a kind, and a block
            run, _, block = parts[i + 1:i + 4] or (None, "", "")
            commands = [run] if run else block.replace("\\\n", "").splitlines()
            for said, some in [(parts[i], commands[:1]), *(("", [line]) for line in commands[1:])]:
                asked, said = re.fullmatch(rf"\s*((?:{FOLD.pattern}\s*)*)(.*)", said, re.DOTALL).groups()
                if asked and i:  # of what the slide before shows
                    mine[-1] = (f"{mine[-1][0]}\n{asked}", *mine[-1][1:])
                if some or shown(said) or FOLD.search(said):
                    mine.append((slide(title, said, some, folder), FOLD.sub("", said), ""))
        for number in re.findall(r"[Nn]otebooks? (\d)", section):
            for stem in {stem for stem in pictures if stem.startswith(f"0{number}")} - used:
                mine.extend((f"## {heading}", "", picture) for heading, picture in pictures[stem])
                used.add(stem)
    return lessons


def bodies(source, pictures, folder, to_html):
    """The body of each lesson's page, by its letter."""
    def one(text, said, picture):
        notes = f"<details class=\"notes\"><summary>what is said</summary>{to_html(said)}</details>" if said.strip() else ""
        return f"<section>{to_html(text)}{picture}{notes}</section>\n"
    return {key: "".join(one(*each) for each in lesson) for key, lesson in slides(source, pictures, folder).items()}
