"""Slurm's lists of names: "tux[0-3,12],login,rack[00-63]_blade[0-41]".

Brackets contain numbers and ranges, padded with zeros to the width of the first number.  A name with several
brackets means all combinations, in which the last bracket varies fastest; a name ends with its last bracket.
Commas or blanks separate names.  Source: Slurm, src/common/hostlist.c, _push_range_list() and
_parse_single_range(), and "node range expression" in slurm.conf(5).
"""
import itertools
import re

NAME = 255  # characters of a name, at most; source: RFC 1035, 2.3.4
BITS = 1 << 64
NUMBER = re.compile(r"[0-9]*")


class Fault(Exception):
    """Why a list is none, and where [characters from its beginning]."""

    def __init__(self, what, at):
        super().__init__(what)
        self.what, self.at = what, at


def read_number(text, at):
    """The digits at @at and what follows."""
    digits = NUMBER.match(text, at).group()
    if not digits:
        raise Fault("expected a number" if at < len(text) else "a '[' that is not closed", at)
    if len(digits) > NAME:
        raise Fault("a name of more than 255 characters", at)
    if int(digits) >= BITS:
        raise Fault("a number beyond 64 bits", at)
    return digits, at + len(digits)


def read_range(text, at):
    """The first, last and width of "5", "00-63", or "5-", which Slurm reads as 5, and what follows."""
    low, end = read_number(text, at)
    if text[end:end + 1] != "-":
        return (int(low), int(low), len(low)), end
    if text[end + 1:end + 2] in (",", "]"):
        return (int(low), int(low), len(low)), end + 1
    high, end = read_number(text, end + 1)
    if int(high) < int(low):
        raise Fault("a range that runs backwards", at)
    return (int(low), int(high), len(low)), end


def read_bracket(text, at, limit):
    """The ranges after a '[' and what follows its ']'."""
    ranges = []
    while True:
        one, end = read_range(text, at)
        ranges.append(one)
        if sum(high - low + 1 for low, high, _ in ranges) > limit:
            raise Fault("too many names", at)
        if text[end:end + 1] not in (",", "]"):
            raise Fault("expected ',' or ']'" if end < len(text) else "a '[' that is not closed", end)
        if text[end] == "]":
            return ranges, end + 1
        at = end + 1


def read_item(text, at, limit):
    """The parts of one name, texts and lists of ranges, and what follows."""
    start, parts, count, length, closed = at, [], 1, 0, None
    while at < len(text) and text[at] not in ", \t":
        if text[at] == "[":
            ranges, at = read_bracket(text, at + 1, limit)
            closed = at
            count *= sum(high - low + 1 for low, high, _ in ranges)
            length += max(max(len(str(high)), width) for _, high, width in ranges)
            parts.append(ranges)
            if count > limit:
                raise Fault("too many names", start)
        elif text[at] == "]":
            raise Fault("a ']' without a '['", at)
        else:
            end = re.compile(r"[^\[\], \t]*").match(text, at).end()
            parts.append(text[at:end])
            length += end - at
            at = end
        if length > NAME:
            raise Fault("a name of more than 255 characters", start)
    if closed and closed < at:
        raise Fault("a name continues after its last bracket, which Slurm refuses", closed)
    return parts, count, at


def expand(text, limit):
    """The names of a list, at most @limit, in time proportional to their number."""
    names, at = [], 0
    while True:
        at += len(text[at:]) - len(text[at:].lstrip(", \t"))
        if at >= len(text):
            return names
        start = at
        parts, count, at = read_item(text, at, limit)
        if count > limit - len(names):
            raise Fault("too many names", start)
        choices = [[part] if isinstance(part, str) else
                   [f"{i:0{width}d}" for low, high, width in part for i in range(low, high + 1)] for part in parts]
        names += map("".join, itertools.product(*choices))
