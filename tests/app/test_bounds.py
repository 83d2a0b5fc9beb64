"""Every number that a file may hold has a range, and both its ends get an answer or a reason."""
import json
import math
import re

from support import Case, answer, run

LARGE = {"GFLOP/s": 1e9, "%": 0.01}  # the units that schemas name first and that are not SI

# What a job is predicted with, all of each table in it.
SOFTWARE = {
    "version": 1, "name": "both", "description": "a test", "nccl": 203, "groups": 4,
    "overlap": "backward", "jitter": "1 %", "startup": "1 s",
    "kinds": {"source": "a test", "residual": "5 %",
              "rates": [{"kernel": "gemm", "math": "90 %", "memory": "50 %", "spread": "20 %", "share": "50 %"}]},
    "fits": [{"device": "both", "small_batch": 1, "small_fusion": "none", "efficiency": "50 %",
              "kernel_overhead": "8 us", "efficiency_sd": "1 %", "overhead_sd": "50 %",
              "correlation": 0.5, "residual": "1 %", "rows": 3}],
    "fallback": {"small_batch": 1, "small_fusion": "none", "efficiency": "50 %",
                 "kernel_overhead": "8 us", "efficiency_sd": "1 %", "overhead_sd": "50 %",
                 "correlation": 0.5, "residual": "1 %", "rows": 3}}
DEVICE = {
    "name": "both", "description": "a test", "peak": {"fp32": "15 TFLOP/s", "fp16": "100 TFLOP/s"},
    "memory_bandwidth": "900 GB/s", "memory": "16 GB", "math_efficiency": "50 %",
    "memory_efficiency": "80 %", "kernel_overhead": "5 us", "iteration_overhead": "1 ms",
    "compute_slowdown": "10 %", "communication_slowdown": "10 %", "collective_launch": "10 us",
    "jitter": "1 %",
    "compute_capability": 70, "fusion": "none",
    "classes": [{"op": "forward", "layer": "convolution", "dtype": "fp16", "efficiency": "40 %",
                 "efficiency_sd": "1 %", "residual": "1 %", "rows": 5}],
    "measured": {"source": "a test", "threads": 1,
                 "steps": [{"op": "optimizer", "shape": "-", "dtype": "fp32", "amount": 25557032,
                            "time": "3 ms", "spread": "1 %"}]}}


def numbers(schema, path=""):
    """The path and schema of each number below, those of quantities once."""
    if "anyOf" in schema:
        for form in schema["anyOf"]:
            yield from numbers(form, path)
    elif "properties" in schema:
        if "value" in schema["properties"]:
            return
        for key, value in schema["properties"].items():
            yield from numbers(value, f"{path}.{key}" if path else key)
    elif schema.get("type") == "array":
        if "properties" in schema["items"]:
            yield from numbers(schema["items"], path + "[0]")
    elif "[0-9]" in schema.get("pattern", ""):
        yield path, schema


def table(kind):
    """All numbers of a table."""
    schema = json.loads(run("schema", kind).stdout)
    return list(numbers(schema.get("else", schema)))


def text(schema, end):
    """The end of the range as a file has it."""
    value = schema[end]
    if "integer" in schema["type"]:
        return f"{value:.0f}"
    units = re.search(r" \*\(([^()]+)\)[?]?[$]$", schema["pattern"])
    unit = units.group(1).split("|")[0] if units else ""
    return f"{value / LARGE.get(unit, 1):.17g} {unit}".strip()


def put(record, path, value):
    """A copy of @record with @value at @path."""
    copy = json.loads(json.dumps(record))
    at = copy
    keys = path.replace("[0]", ".0").split(".")
    for key, after in zip(keys, keys[1:]):
        at = at[0] if key == "0" else at.setdefault(key, [{}] if after == "0" else {})
    at[keys[-1]] = value
    return copy


def faults(value, name=""):
    """What in an answer is not finite or below 0, or null."""
    if isinstance(value, dict):
        return {f for key, item in value.items() for f in faults(item, key)}
    if isinstance(value, list):
        return {f for item in value for f in faults(item, name)}
    if value is None:
        return {f"{name} is null"}
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {f"{name} is {value}"} if number and not (0 <= value < math.inf) else set()


class Bounds(Case):
    def setUp(self):
        super().setUp()
        self.none = faults(answer("predict", self.job, "--backend", "analytic"))
        self.assertTrue(all(fault.endswith(" is null") for fault in self.none), self.none)

    def check(self, *options):
        """@return whether there was an answer."""
        done = run("predict", self.job, "--json", "--backend", "analytic", *options)
        if done.returncode:
            self.assertIn(done.returncode, (64, 65), (options, done.stderr))
            self.assertIn("error: ", done.stderr)
            return False
        self.assertEqual(faults(json.loads(done.stdout)) - self.none, set(), options)
        return True

    def ends(self, kind):
        """The path and text of both ends of each number of @kind."""
        for path, schema in table(kind):
            self.assertIn("minimum", schema, path)
            self.assertTrue(math.isfinite(schema["minimum"] + schema["maximum"]), path)
        return [(path, text(schema, end)) for path, schema in table(kind)
                for end in ("minimum", "maximum")]

    def through_options(self, kind, prefix, least):
        answered = sum(self.check("--set", f"{prefix}{path}={value}")
                       for path, value in self.ends(kind))
        print(f"{kind}: {answered} ends answered")
        self.assertGreaterEqual(answered, least)

    def through_files(self, kind, record, least, *options):
        answered = 0
        for path, value in self.ends(kind):
            self.write("both.yaml", json.dumps(put(record, path, value)))
            answered += self.check(*options)
        print(f"{kind}: {answered} ends answered")
        self.assertGreaterEqual(answered, least)

    def test_scenarios(self):
        self.through_options("scenario", "", 40)

    def test_platforms(self):
        self.through_options("platform", "platform.", 30)

    def test_devices(self):
        self.through_files("device", DEVICE, 30, "--set",
                           f"platform.device={self.directory}/both.yaml")

    def test_software(self):
        self.through_files("software", SOFTWARE, 30, "--set",
                           f"cluster.software={self.directory}/both.yaml")

    def test_nonsense_between_the_ends_is_refused(self):
        for value, where in (("training.evaluate_every=1e-300", "one step"),
                             ("training.checkpoint.every=1e-9", "one step"),
                             ("allreduce.bucket=1B", "use at least 5112 B"),
                             ("allreduce.bucket=1e-3B", "use at least 5112 B"),
                             ("training.micro_batch=1", "use parts of at least")):
            with self.subTest(value):
                more = ["--batch", "8000", "--grain", "full"] if "micro" in value else []
                self.assertIn(where, self.refused(65, "predict", self.job, "--set", value, *more))
        self.assertIn("baseline", run("show", "job", self.job, "--set=training.micro_batch=1", "--batch=8000").stdout)

    def test_an_evaluation_after_each_step_is_predicted(self):
        step = 512 / 1281167
        result = answer("predict", self.job, "--backend", "analytic", "--set",
                        f"training.evaluate_every={step}")
        self.assertEqual(faults(result) - self.none, set())
        self.assertGreater(result["evaluation_s"], 0)

    def test_iterations_beyond_memory_are_refused(self):
        said = self.refused(64, "predict", self.job, "--iterations", "1000000")
        most = re.search(r"--iterations=([0-9]+)", said)
        self.assertTrue(most, said)
        self.assertGreater(int(most.group(1)), 1000)
