#!/usr/bin/python3
"""The schemas accept what the program accepts, and refuse what it refuses."""
import functools
import json
import re
import tempfile
import unittest

import support
from support import ROOT, answer, run

try:
    import jsonschema
    import yaml
except ImportError as missing:
    jsonschema = None
    REASON = f"{missing.name} (package python3-{missing.name}) is not installed"


def schema(kind):
    """What `schema KIND` prints."""
    return json.loads(run("schema", kind).stdout)


class Schema(support.Case):
    """For editors."""

    def setUp(self):
        super().setUp()
        if not jsonschema:
            self.skipTest(REASON)

    def test_every_schema_is_one(self):
        for kind in ("scenario", "platform", "device", "software", "price", "network", "result", "validation",
                     "dry-run", "explain", "schedule", "collective", "import", "compare", "convergence",
                     "sweep", "plan"):
            jsonschema.Draft202012Validator.check_schema(schema(kind))

    def test_every_experiment_conforms(self):
        jobs = sorted((ROOT / "experiments").glob("*/*.yaml"))
        self.assertTrue(jobs)
        for job in jobs:
            jsonschema.validate(yaml.safe_load(job.read_text(encoding="utf-8")), schema("scenario"))

    def test_faults_do_not_conform(self):
        for right, wrong in (("nodes: 4", "nodez: 4"), ("nodes: 4", "nodes: four"),
                             ("torus2d", "torus3d"), ("version: 1", "")):
            job = yaml.safe_load(support.JOB.replace(right, wrong, 1))
            with self.assertRaises(jsonschema.ValidationError, msg=wrong):
                jsonschema.validate(job, schema("scenario"))

    def test_a_word_of_digits_is_a_number_to_yaml(self):
        for value, right in (("8", True), ("'8'", True), ("all", True), ("17", False), ("0", False)):
            job = yaml.safe_load(support.JOB.replace(
                "torus2d, grid: {columns: 4, rows: 4}", f"ring, channels: {value}"))
            self.assertEqual(jsonschema.Draft202012Validator(schema("scenario")).is_valid(job), right)

    def test_links_have_a_type_and_numbers_a_unit(self):
        text = (ROOT / "platforms" / "abci.yaml").read_text(encoding="utf-8")
        accepts = jsonschema.Draft202012Validator(schema("platform")).is_valid
        for part, key, right, wrong in ((("transport",), "payload", ("fp32", "fp16", "bf16"), "fp17"),
                                        (("network", "nic"), "bandwidth", ("100 Gb/s",), "100")):
            platform = yaml.safe_load(text)
            place = functools.reduce(dict.get, part, platform)
            for value in (*right, wrong):
                place[key] = value
                self.assertEqual(accepts(platform), value in right, value)

    def test_a_schedule_says_what_its_text_does(self):
        for words in ([], ["--phase=1"], ["--baseline"], ["--set=allreduce={algorithm: tree, chunk: 1 MB}"],
                      ["--set=input={workers: 4, rate: 500 images/s}"]):
            result = answer("show", "schedule", self.job, *words)
            text = run("show", "schedule", self.job, *words).stdout
            self.assertIn(f"schedule {result['schedule_hash']}: {len(result['steps'])} steps", text)
            for step, line in zip(result["steps"], text.splitlines()[1:]):
                after = [f"{dep['step']}" + (f"@-{dep['iterations_ago']}" if dep["iterations_ago"] else "")
                         for dep in step["after"]]
                self.assertTrue(line.startswith(f"{step['id']:4}  {step['lane']:10}  {step['kind']:10}  "
                                                f"{step['name']:40}"), line)
                self.assertIn(f" {step['bytes']} B", line)
                self.assertEqual(line.partition(" <- ")[2], ", ".join(after))


class Manual(unittest.TestCase):
    """The same tables as text for the manual pages."""

    def test_every_key_of_the_schema_is_in_the_manual(self):
        manual = run("schema", "scenario", "--keys").stdout
        for word in ("cluster.nodes", "training.phases", "allreduce.bucket"):
            self.assertIn(word, manual)

    def test_every_command_is_in_the_manual(self):
        page = (ROOT / "docs/man/foretrain.1.scd").read_text(encoding="utf-8")
        for command in re.findall(r"^  ([\w-]+) +\S", run("--help").stdout, re.M):
            if command == "calibrate" and not support.has_gsl():
                continue  # and has no parts
            told = run(command, "--help").stdout
            parts = re.findall(r"^  ([\w-]+) +\S", told, re.M) if f"{command} COMMAND ..." in told else [""]
            for name in (f"{command} {part}".strip() for part in parts):
                self.assertIn(f"@literal {name} --help\n", page)

    def test_payload_is_in_the_manual(self):
        self.assertRegex(run("schema", "platform", "--keys").stdout,
                         r"(?m)^transport\.payload\n    the type in which .* \(fp32 \| fp16 \| bf16\)$")

    def test_keys_list_their_words_and_name_a_unit(self):
        platform, device = (run("schema", kind, "--keys").stdout for kind in ("platform", "device"))
        for key, kind in (("kind", "cluster | torus | ring; required"), ("nccl.intra", "nvlink | pci"),
                          ("network.nic.bandwidth", "number, alone or with its source, such as 25 GB/s"),
                          ("node.contention", "number, alone or with its source, such as 90 %")):
            self.assertRegex(platform, rf"(?m)^{re.escape(key)}\n    .* \({re.escape(kind)}\)$")
        self.assertRegex(device, r"(?m)^fusion\n    .* \(none \| pointwise \| ")
        self.assertRegex(device, r"(?m)^classes\[\]\.op\w*\n    .* \(\w+[\w-]* \| ")

    def test_the_example_and_the_units_of_the_page_are_accepted(self):
        page = (support.ROOT / "docs/man/foretrain-platform.5.scd").read_text(encoding="utf-8")
        example = page.split("# EXAMPLE")[1].split("```")[1]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(example)
            file.flush()
            shown = run("show", "platform", file.name)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn("0.500, about 1/2 of full bisection", shown.stdout)
            rows = re.findall(r":- (.*)", page.split("# UNITS")[1].split("# EXAMPLE")[0])
            keys = ("device.memory", "platform.network.nic.bandwidth", "platform.transport.inside",
                    "device.peak.fp32")
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as job:
                job.write(support.JOB.replace("platform: abci, nodes: 4, devices_per_node: 4",
                                              f"platform: {file.name}, nodes: 8"))
                job.flush()
                for key, row in zip(keys, rows):
                    for unit in re.findall(r"[^ ,:]+(?=[ ,]|$)", row.replace("of 1024", "")
                                           .replace("bits", "")):
                        done = run("check", job.name, f"--set={key}=1e9 {unit}")
                        self.assertNotIn("not a unit", done.stderr, unit)

    def test_an_unknown_schema_is_refused(self):
        self.assertEqual(run("schema", "scenarios").returncode, 64)
