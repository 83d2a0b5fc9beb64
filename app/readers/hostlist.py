"""Slurm's lists of names: "tux[0-3,12],login,rack[00-63]_blade[0-41]".

Brackets contain numbers and ranges, padded with zeros to the width of the first number.  A name with several
brackets means all combinations, in which the last bracket varies fastest; a name ends with its last bracket.
Commas or blanks separate names.  Source: Slurm, src/common/hostlist.c, _push_range_list() and
_parse_single_range(), and "node range expression" in slurm.conf(5).
"""
import itertools
import re

NAME = 255  # characters of a name, at most; source: RFC 1035, 2.3.4
RANGE = re.compile(r"([0-9]+)(?:-([0-9]*))?")
WORD = re.compile(r"[^\[\], \t]*")
BLANKS = re.compile(r"[, \t]*")


class Fault(Exception):
    """Why a list is none, and where [characters from its beginning]."""

    def __init__(self, what, at):
        super().__init__(what)
        self.what, self.at = what, at


def missing(text, at, what):
    """The fault of a bracket in which something else was expected."""
    return Fault(what if at < len(text) else "a '[' that is not closed", at)


def read_range(text, at):
    """The first, last and width of "5", "00-63", or "5-", which Slurm reads as 5, and what follows."""
    found = RANGE.match(text, at)
    if not found or found[2] == "" and text[found.end():found.end() + 1] not in (",", "]"):
        raise missing(text, found.end() if found else at, "expected a number")
    for group in (1, 2):
        if len(found[group] or "") > NAME:
            raise Fault("a name of more than 255 characters", found.start(group))
        if int(found[group] or 0) >= 1 << 64:
            raise Fault("a number beyond 64 bits", found.start(group))
    low, high = int(found[1]), int(found[2] or found[1])
    if high < low:
        raise Fault("a range that runs backwards", at)
    return (low, high, len(found[1])), found.end()


def read_bracket(text, at, limit):
    """The ranges after a '[' and what follows its ']'."""
    ranges, count, end = [], 0, at - 1
    while not ranges or text[end] == ",":
        at = end + 1
        (low, high, width), end = read_range(text, at)
        ranges.append((low, high, width))
        count += high - low + 1
        if count > limit:
            raise Fault("too many names", at)
        if text[end:end + 1] not in (",", "]"):
            raise missing(text, end, "expected ',' or ']'")
    return ranges, end + 1, count


def read_item(text, at, limit):
    """The parts of one name, texts and lists of ranges, how many names these are, and what follows."""
    start, parts, count, length, closed = at, [], 1, 0, None
    while at < len(text) and text[at] not in ", \t":
        if text[at] == "[":
            ranges, at, more = read_bracket(text, at + 1, limit)
            closed = at
            count *= more
            length += max(max(len(str(high)), width) for _, high, width in ranges)
            parts.append(ranges)
        elif text[at] == "]":
            raise Fault("a ']' without a '['", at)
        else:
            parts.append(WORD.match(text, at).group())
            length += len(parts[-1])
            at += len(parts[-1])
        if count > limit:
            raise Fault("too many names", start)
        if length > NAME:
            raise Fault("a name of more than 255 characters", start)
    if closed and closed < at:
        raise Fault("a name continues after its last bracket, which Slurm refuses", closed)
    return parts, count, at


def expand(text, limit):
    """The names of a list, at most @limit, in time proportional to their number."""
    names, at = [], BLANKS.match(text).end()
    while at < len(text):
        start = at
        parts, count, at = read_item(text, at, limit)
        if count > limit - len(names):
            raise Fault("too many names", start)
        choices = [[part] if isinstance(part, str) else
                   [f"{i:0{width}d}" for low, high, width in part for i in range(low, high + 1)] for part in parts]
        names += map("".join, itertools.product(*choices))
        at = BLANKS.match(text, at).end()
    return names
