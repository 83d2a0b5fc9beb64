#!/usr/bin/python3
"""Every header says what its file is for, and every declaration in it has a comment of its own.

The comment stands before the declaration, or behind it on its line; macros without a blank line
between them share one.
Counted: functions, variables, macros, and definitions of structs, unions and enums.  Not counted:
forward declarations of what a header defines or documents, unnamed enums of documented constants,
static_assert, and X_free() and X_release() of one struct, whose names say it.
"""
import re

import project

TOKEN = re.compile(r"""
    (?P<doc>/\*\*(?!<).*?\*/)       # a documenting comment
  | (?P<comment>/\*.*?\*/|//[^\n]*) # any other comment, members' too
  | (?P<macro>^[ \t]*\#(?:[^\n\\]|\\.)*) # a preprocessor line with its continuations
  | (?P<text>"(?:[^"\\]|\\.)*")
  | (?P<space>\s+)
  | (?P<code>.)
""", re.X | re.S | re.M)


def declarations(source):
    """Yield (offset, text, documented) of every top-level declaration; bodies are left out."""
    documented, start, depth, code, macro = False, None, 0, "", False
    for token in TOKEN.finditer(source):
        kind, text = token.lastgroup, token.group()
        if macro and (kind != "macro" and text != "\n"):  # what its comment does not reach
            documented = macro = False
        if kind == "doc" and start is None:
            documented = True
        elif kind == "macro":
            if re.match(r"\s*#\s*define", text) and start is None:
                yield token.start(), text, documented
            macro = start is None
        elif kind == "space" and start is not None:
            code += " "
        elif kind in ("code", "text"):
            if start is None:
                start = token.start()
            depth += (text == "{") - (text == "}")
            if depth == 0 or (depth == 1 and text == "{"):
                code += text
            function_ends = text == "}" and depth == 0 and ")" in code
            if (text == ";" and depth == 0) or function_ends:
                behind = re.match(r"[ \t]*/\*\*<", source[token.end():])
                yield start, " ".join(code.split()), documented or bool(behind)
                documented, start, code = False, None, ""


def needs_comment(text, headers):
    """Whether a declaration must be documented; `headers` is the text of all of them."""
    forward = re.fullmatch(r"(struct|union|enum) (\w+) ?;", text)
    if forward and re.search(rf"\b{forward[1]} {forward[2]} {{|\*/\n{forward[1]} {forward[2]};",
                             headers):
        return False
    if re.fullmatch(r"void \w+_(free|release)\(struct \w+ \*\w+\) ?;", text):
        return False
    return not re.match(r"static_assert|_Static_assert|enum ?{|;$", text)


def check(path, headers):
    """(faults, declarations that need a comment, those that have one) of one header."""
    name, source = project.place(path), path.read_text(encoding="utf-8")
    faults, needed, have = [], 0, 0
    if not source.startswith("#pragma once\n"):
        faults.append(f"{name}:1: does not start with #pragma once")
    if not re.match(r"#pragma once\n\n/\*\* @file\n", source):
        faults.append(f"{name}:1: no /** @file comment after #pragma once")
    body = re.sub(r"/\*\* @file.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), source, 1, re.S)
    for offset, text, documented in declarations(body):
        if not needs_comment(text, headers):
            continue
        needed += 1
        have += documented
        if not documented:
            line = body.count("\n", 0, offset) + 1
            faults.append(f"{name}:{line}: no comment: {text[:60]}")
    return faults, needed, have


def main():
    """Check every header of the project."""
    paths = project.files("*.h", "*.hpp", "*.cuh")
    headers = "".join(path.read_text(encoding="utf-8") for path in paths)
    results = [check(path, headers) for path in paths]
    needed, have = sum(r[1] for r in results), sum(r[2] for r in results)
    print(f"{have} of {needed} declarations documented ({100 * have / max(needed, 1):.1f} %)")
    project.finish([fault for r in results for fault in r[0]], f"{len(results)} headers")


if __name__ == "__main__":
    main()
