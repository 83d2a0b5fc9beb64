"""Reads pages that --report wrote, and holds them to what every page promises."""
import base64
import decimal
import hashlib
import html.parser
import json
import math
import pathlib
import re
import shutil
import unittest
import urllib.parse

import harness

NODE = shutil.which("node") or shutil.which("nodejs")
DRAWN = unittest.skipUnless(NODE, "no node: install nodejs to test pictures")
DRAW = pathlib.Path(__file__).with_name("draw.mjs")

LIMIT_BYTES, LIMIT_ELEMENTS = 1 << 20, 5000
VOID = {"meta", "link", "br", "hr", "img", "input"}
UNITS = {"%": 0.01, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "days": 86400, "B": 1, "kB": 1e3, "MB": 1e6,
         "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "B/s": 1, "kB/s": 1e3, "MB/s": 1e6,
         "GB/s": 1e9, "TB/s": 1e12, "images/s": 1, "kWh": 1, "kg": 1}
BREAKS = re.compile(r"\d (?:%|[nmu]?s|min|h|days|[kMGT]i?B(?:/s)?|B(?:/s)?|images/s)(?![\w/])")


class Page(html.parser.HTMLParser):
    """The elements of a page, as (tag, attributes), with the text of those that matter."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.faults = [], [], []
        self.text = {}  # of each element, by its index
        self.feed(text)
        self.close()
        if self.open:
            self.faults.append(f"not closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        if len({name for name, _ in attrs}) < len(attrs):
            self.faults.append(f"an attribute twice in {tag} {attrs}")
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, len(self.elements) - 1))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.faults.append(f"</{tag}> closes {self.open[-1:]}")
        else:
            self.open.pop()

    def handle_data(self, data):
        if BREAKS.search(data) and not {tag for tag, _ in self.open} & {"script", "style", "pre"}:
            self.faults.append(f"a line may break before a unit: {data}")
        for _, index in self.open:
            self.text[index] = self.text.get(index, "") + data.replace("\xa0", " ")

    def all(self, tag, **wanted):
        """(index, attributes) of each @tag with the @wanted attributes."""
        return [(i, a) for i, (t, a) in enumerate(self.elements)
                if t == tag and all(a.get(k.replace("_", "-")) == v for k, v in wanted.items())]

    def words(self, tag, **wanted):
        """The text of each."""
        return [self.text.get(i, "") for i, _ in self.all(tag, **wanted)]

    def marks(self, key):
        """Attributes of what shows the numbers called @key in pictures."""
        if not NODE:
            raise unittest.SkipTest("no node: install nodejs to test pictures")
        return [a for _, a in self.elements if a.get("data-key") == key]

    def data(self, name="data"):
        """The JSON within."""
        return json.loads(self.words("script", id=name)[0])

    def csv(self, name):
        """The text of a CSV file in a link."""
        href = dict(self.all("a", download=f"{name}.csv"))
        return urllib.parse.unquote(next(iter(href.values()))["href"].split(",", 1)[1])


def numbers(value):
    """Every number in JSON."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return {n for item in value for n in numbers(item)}
    return {float(value)} if isinstance(value, (int, float)) and not isinstance(value, bool) else set()


def says(text, value):
    """Whether "39.2 ms" is @value in SI, rounded to its last digit that is not 0; "29.1 h" may be a number of hours, too."""
    match = re.fullmatch(r"(-?[\d.]+(?:e[-+]\d+)?)(?: (\S+))?", text)
    if not match:
        return False
    number = decimal.Decimal(match[1])
    half = 10.0 ** (number if "." in match[1] else number.normalize()).as_tuple().exponent / 2
    return any(abs(float(number) - value / unit) < max(1.001 * half, 6e-4 * abs(value / unit))
               for unit in {1, UNITS.get(match[2], 1)})


def seconds(text):
    """39.2e-3 for "39.2 ms"."""
    number, unit = text.split()
    return float(number) * UNITS[unit]


def hash_of(text):
    """As a Content-Security-Policy has it."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def check_safe(test, page):
    """Nothing from outside, nothing inline that the policy does not name."""
    styles, scripts = page.words("style"), page.words("script")
    blocks = page.words("script", type="application/json")
    core = page.words("script", type="application/wasm", id="core")
    ours = [page.text[i] for i, a in page.all("script") if not a]  # the last of two loads the core, or plays rounds
    test.assertEqual((len(styles), len(ours), len(scripts) - len(blocks) - len(core)), (1, 1 + len(core or page.all("div", id="motion")), len(ours)))
    policy = dict(page.all("meta", http_equiv="Content-Security-Policy"))
    test.assertEqual([a["content"] for a in policy.values()], [
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src {hash_of(styles[0])}; script-src {' '.join(map(hash_of, ours))}" + " 'wasm-unsafe-eval'" * len(core)])
    test.assertNotRegex(styles[0], r"url\(|@import|expression")
    for tag, attributes in page.elements:
        test.assertNotIn(tag, ("link", "img", "iframe", "object", "embed", "form", "base", "use", "image", "i"))
        for name, value in attributes.items():
            test.assertFalse(name in ("style", "src", "srcset", "action") or name.startswith("on"), (tag, name))
            test.assertNotIn("//", re.sub("'sha256-[^']*'", "", value or ""), (tag, name))
            if name == "href":
                test.assertTrue(value.startswith("data:text/csv;"), value)


def check_pictures(test, page):
    """Each has words for those who do not see it, and a table behind it."""
    names = [a["id"] for _, a in page.elements if "id" in a]
    test.assertEqual(len(names), len(set(names)))
    figures = page.all("figure")
    drawn = NODE and not any("too many for a page with pictures" in text for text in page.words("p"))
    test.assertEqual(len(page.all("svg", role="img")), len(figures) if drawn else 0)
    for index, _ in figures:
        later = [t for t, _ in page.elements[index + 1:]]
        test.assertNotIn("figure", later[:later.index("table")], "a picture without a table before the next one")
    for _, picture in page.all("svg", role="img"):
        test.assertRegex(picture["aria-label"], ".; the table below has the numbers$")


def check_numbers(test, page):
    """Each number is one of the data, and is written as what it is; too much data is left out."""
    if not page.all("script", id="data"):
        test.assertIn("The numbers are too many for a page with pictures: --json prints them.", page.words("p"))
        return
    known = numbers(page.data()) | set(range(1, 1000))  # rows may be counted
    if page.all("script", id="whatif-data"):
        known |= numbers(page.data("whatif-data"))
    for index, (tag, attributes) in enumerate(page.elements):
        if "data-value" not in attributes:
            continue
        value = float(attributes["data-value"])
        test.assertIn(value, known, (tag, attributes))
        if tag == "td" and value:
            test.assertTrue(says(page.text[index], value), (page.text[index], value))
    for _, attributes in page.all("rect"):
        for value in (attributes.get("x", "0"), attributes.get("width", "0")):
            test.assertTrue(not value.endswith("%") or -1e-3 <= float(value[:-1]) <= 100.2, attributes)


def read(test, path):
    """The page at @path with its pictures, which keeps all promises."""
    text = path.read_text(encoding="utf-8")
    drawn = harness.execute(NODE, DRAW, path) if NODE and "<figure" in text else None
    test.assertFalse(drawn and drawn.stderr)
    page = Page(drawn.stdout if drawn else text)
    test.assertEqual(page.faults, [])
    test.assertLessEqual(len(text.encode()), LIMIT_BYTES)
    test.assertLessEqual(len(page.elements), LIMIT_ELEMENTS)
    check_safe(test, page)
    check_pictures(test, page)
    check_numbers(test, page)
    return page


def percent(text):
    """0.25 for "25%"."""
    return float(text.rstrip("%")) / 100


def log_place(value, first, last):
    """Where @value is between both on a logarithmic axis."""
    return math.log(value / first) / math.log(last / first)
