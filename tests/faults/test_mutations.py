"""What `check` accepts, `predict` answers with finite numbers or refuses with a reason: jobs, platforms
and devices whose values are replaced, added and removed by their schemas."""
import copy
import functools
import json
import math
import operator
import os
import random
import re
import resource
import unittest

import faults
import harness
import support

try:
    import yaml
except ImportError:
    yaml = None

CASES = int(os.environ.get("FORETRAIN_TEST_CASES", "4000" if faults.ALL else "240"))
LIMIT = 60  # seconds of processor time that only something that hangs takes
PLATFORMS = ("abci", "dgx-h100", "generic-fat-tree", "t1-torus", "tpu-v3-pod", "two-core")
FIXED = ("version", "name", "extends", "description", "network", "platform", "device", "kind",
         "software")  # names: others of them would not be known
UNKNOWNS = [{**known, **beside}
            for known in ({"low": 1, "high": 2}, {"one_of": [1, 2]}, {"value": 1, "spread": 0.2})
            for beside in ({}, {"kind": "assumed"}, {"source": "x"}, {"source": "x", "kind": "assumed"})]


def schema_of(kind):
    """The record that a schema describes, without the words for what nobody knows."""
    whole = json.loads(support.run("schema", kind).stdout)
    return simplify(whole.get("else", whole))


def simplify(node):
    """The first of alternatives, which is the plain one."""
    while "anyOf" in node:
        node = {**{key: value for key, value in node.items() if key != "anyOf"}, **node["anyOf"][0]}
    for key in "properties", "patternProperties":
        if key in node:
            node = {**node, key: {name: simplify(part) for name, part in node[key].items()}}
    if isinstance(node.get("items"), dict):
        node = {**node, "items": simplify(node["items"])}
    return node


def records(node, path=()):
    """The paths of the lists and mappings below, without those that are one number."""
    for name, child in node.items() if isinstance(node, dict) else enumerate(node):
        if isinstance(child, (dict, list)) and "value" not in child and "low" not in child:
            yield (*path, name)
            yield from records(child, (*path, name))


class Mutation:
    """Of documents, by a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self, node):
        """One in the range, at its ends or beyond, with a unit of its pattern."""
        low, high = node.get("minimum", 0), node.get("maximum", 1e6)
        value = self.random.choice((self.random.choice((low, high, 0, -1, 1e300)),
                                    self.random.randint(1, 64), self.random.uniform(low, high),
                                    *[math.exp(self.random.uniform(math.log(max(low, 1e-9)),
                                                                   math.log(max(high, 1e-8))))
                                      for _ in range(4)]))
        if "integer" in node["type"] and self.random.random() < 0.95 and abs(value) < 1e18:
            value = int(value)
        units = re.search(r"\? \*\(([^()]*)\)\$$", node.get("pattern", ""))
        unit = self.random.choice(units[1].split("|")) if units else ""
        return f"{value!r} {unit}" if unit else value

    def value(self, node):
        """One for this place."""
        if self.random.random() < 0.04:
            return self.random.choice((None, "x", [], {}, -3, True, "8 GB/s", 1e400, *UNKNOWNS))
        if "enum" in node or "const" in node:
            return self.random.choice(node.get("enum") or [node.get("const")])
        if "properties" in node:
            names = sorted(node["properties"])
            some = set(node.get("required", ())) | set(self.random.sample(names, min(2, len(names))))
            return {name: self.value(node["properties"][name]) for name in names if name in some}
        if "items" in node:
            return [self.value(node["items"]) for _ in range(self.random.randint(0, 3))]
        kinds = node.get("type", ())
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if "boolean" in kinds:
            return self.random.random() < 0.5
        if "pattern" in node or "integer" in kinds or "number" in kinds:
            value = self.number({**node, "type": kinds})
            if self.random.random() < 0.05:
                return {"low": value, "high": self.number({**node, "type": kinds})}
            return value
        return self.random.choice(("resnet50", "imagenet", "v100-sxm2-16gb", "abci", "x"))

    def near(self, value):
        """A number, with its unit, a few times larger or smaller."""
        factor = self.random.choice((0.01, 0.25, 0.5, 0.9, 1.1, 2, 3, 4, 8, 100))
        if isinstance(value, int):
            return int(value * factor)
        parts = re.fullmatch(r"([0-9.]+(?:[eE][-+]?[0-9]+)?)( ?[^0-9].*)?", str(value))
        return f"{float(parts[1]) * factor!r}{parts[2] or ''}" if parts else None

    def change(self, document, node):
        """Replace, add or remove one value somewhere below."""
        if not isinstance(document, (dict, list)) or not document or "enum" in node:
            near = self.near(document) if self.random.random() < 0.85 else None
            return self.value(node) if near is None else near
        if isinstance(document, list):
            place = self.random.randrange(len(document))
            document[place] = self.change(document[place], node.get("items", {}))
            return document
        known = node.get("properties", {})
        if not known:
            return self.value(node)
        names = sorted(known if self.random.random() < 0.25 else document)
        name = self.random.choice([name for name in names if name not in FIXED] or names)
        if name in document and self.random.random() < 0.03:
            del document[name]
        elif name in document and name in known and self.random.random() < 0.85:
            document[name] = self.change(document[name], known[name])
        elif name in known:
            document[name] = self.value(known[name])
        return document

    def some(self, document, node):
        """A few changes."""
        document = copy.deepcopy(document)
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            document = self.change(document, node)
        return document


def limited(words):
    """Run foretrain with little time; (exit code, answer, messages)."""
    done = harness.execute(harness.PROGRAM, *words, errors="replace",
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT)))
    return done.returncode, done.stdout, done.stderr


def numbers(value):
    """All of an answer."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, float):
        yield value


@unittest.skipUnless(yaml, "PyYAML (package python3-yaml) is not installed")
class Mutations(faults.Case):
    """Each with a number, from which it follows."""

    def setUp(self):
        super().setUp()
        self.kinds = {kind: schema_of(kind) for kind in ("scenario", "platform", "device")}
        self.scenarios = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in
                          sorted((faults.ROOT / "experiments").glob("*/*.yaml"))]
        self.scenarios = [job for job in self.scenarios if "model" in job and "cluster" in job]
        self.scenarios += 5 * [yaml.safe_load(support.JOB)]

    def load(self, folder, name):
        """A platform or device that we ship."""
        path = faults.ROOT / "platforms" / folder / f"{name}.yaml"
        return yaml.safe_load(path.read_text(encoding="utf-8"))

    def make(self, number):
        """Write the files of a case; the job's."""
        mutation = Mutation(number)
        job = copy.deepcopy(mutation.random.choice(self.scenarios))
        which = mutation.random.choice(("scenario", "scenario", "platform", "device"))
        if which == "scenario":
            job = mutation.some(job, self.kinds["scenario"])
        else:
            name = mutation.random.choice(PLATFORMS)
            platform = self.load(".", name)
            if which == "platform":
                platform = mutation.some(platform, self.kinds["platform"])
            elif isinstance(platform.get("device"), str):
                device = mutation.some(self.load("devices", platform["device"]), self.kinds["device"])
                platform["device"] = "./" + self.put("device", number, device).name
            job["cluster"] = {"platform": "./" + self.put("platform", number, platform).name,
                              "nodes": mutation.random.choice((1, 2, 4, 16))}
            job.get("allreduce", {}).pop("grid", None)
        return self.put("job", number, job)

    def put(self, name, number, document):
        """A file."""
        text = yaml.safe_dump(document, allow_unicode=True)
        return self.place.write(f"{name}-{number}.yaml", text)

    def refuses(self, code, talk):
        """Whether that is a refusal with a reason."""
        return code in (64, 65, 66, 69) and re.search(r"error: .{8}", talk) is not None

    def answers(self, answer):
        """Whether these are numbers that can be."""
        try:
            result = json.loads(answer)
        except ValueError:
            return False
        low, high = result["step_s_low"] or 0, result["step_s_high"] or 0
        return (all(map(math.isfinite, numbers(result))) and 0 < result["step_s"]
                and 0 <= low <= high and result["time_to_train_s"] >= 0)

    def try_one(self, number):
        """What came of it: "answered", "refused", "check" (refuses it)."""
        job = self.make(number)
        checked, _, talk = limited(("check", job))
        predicted, answer, said = limited(("predict", job, "--backend", "analytic", "--json"))
        what = f"seed {number}: check {checked}: {talk[-200:]!r}, predict {predicted}: {said[-400:]!r}"
        for code, text in (checked, talk), (predicted, said):
            self.expect(code == 0 or self.refuses(code, text), what)
        if predicted == 0:
            self.expect(self.answers(answer), what, "answers", answer[:600])
            self.expect(checked == 0, what, "is answered although refused")
        for path in self.place.root.glob(f"*-{number}.yaml"):
            path.unlink()
        return "check" if checked else "answered" if predicted == 0 else "refused"

    def test_an_unknown_input_in_the_place_of_a_record_is_refused(self):
        prices = yaml.safe_load((faults.ROOT / "prices" / "example-v100.yaml").read_text(encoding="utf-8"))
        for words, document in ((("check",), yaml.safe_load(support.JOB)),
                                (("check",), self.load(".", "abci")),
                                (("check",), self.load("devices", "v100-sxm2-16gb")),
                                (("check",), self.load("software", "nnl-2018")),
                                (("predict", self.place.job, "--backend=analytic", "--prices"), prices)):
            for path in records(document):
                for unknown in UNKNOWNS:
                    changed = copy.deepcopy(document)
                    functools.reduce(operator.getitem, path[:-1], changed)[path[-1]] = unknown
                    code, _, talk = limited((*words, self.put("changed", 0, changed)))
                    self.expect(self.refuses(code, talk), words, path, unknown, code, talk)
        self.assertEqual(self.failures, [])

    def test_what_is_accepted_is_answered_or_refused(self):
        begin = 1000000 * faults.SEED
        found = [self.try_one(begin + i) for i in range(CASES)]
        for word in sorted(set(found)):
            print(f"{word}: {found.count(word)}")
        self.assertGreater(found.count("answered"), CASES / 10)  # 17 % of 1000
        self.finish("changed jobs, platforms and devices", CASES, faults.SEED)
