#!/usr/bin/python3
"""Platform and device files as people write them."""
import re
import unittest

import support
from support import ROOT, answer, run

ABCI = (ROOT / "platforms" / "abci.yaml").read_text(encoding="utf-8")
V100 = (ROOT / "platforms" / "devices" / "v100-sxm2-16gb.yaml").read_text(encoding="utf-8")


def plain(text):
    """A file in which no number has a source, and how many there are."""
    return re.subn(r"\{value: ([^,]+), source: .*\}", r"\1", text)


class PlainNumbers(support.Case):
    """A first draft gives numbers without their sources."""

    def test_they_are_assumed_and_one_warning_counts_those_of_a_file(self):
        device, of_device = plain(V100)
        self.write("gpu.yaml", device)
        text, of_platform = plain(ABCI.replace("device: v100-sxm2-16gb", "device: ./gpu.yaml"))
        job = self.write("plain.yaml", support.JOB.replace("platform: abci", "platform: " + str(
            self.write("mine.yaml", text))))
        done = run("predict", job, "--json", "-banalytic")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("warning"), 2)
        self.assertIn(f"mine.yaml: warning: {of_platform} numbers", done.stderr)
        self.assertIn(f"gpu.yaml: warning: {of_device} numbers", done.stderr)
        shown = run("show", "platform", self.directory / "mine.yaml", "--assumed").stdout
        self.assertEqual(shown.count("(none given)"), of_platform + of_device)
        said = answer("predict", job, "-banalytic")["assumptions"]
        self.assertIn("network.nic.bandwidth = 12.5 GB/s (none given)", said)

    def test_the_time_is_that_of_the_same_numbers_with_sources(self):
        text, _ = plain(ABCI)
        mine = self.write("mine.yaml", text)
        job = self.write("plain.yaml", support.JOB.replace("abci", str(mine)))
        self.assertEqual(answer("predict", job, "-banalytic")["step"],
                         answer("predict", self.job, "-banalytic")["step"])

    def test_units_are_still_needed(self):
        said = self.refused(65, "check", "--platform", self.write(
            "mine.yaml", "extends: %s\nnetwork:\n  nic:\n    bandwidth: 400\n"
            % (ROOT / "platforms" / "abci.yaml")))
        self.assertIn("mine.yaml:4:16: error: a bandwidth needs a unit", said)


class Names(support.Case):
    """What stands in the platform directory is found by name."""

    def extending(self, name):
        """A platform of one line more than the one it extends."""
        return self.write("mine.yaml", f"extends: {name}\nname: mine\n")

    def test_a_platform_extends_another_by_name_from_anywhere(self):
        for name in ("abci", "ABCI"):
            shown = run("show", "platform", self.extending(name)).stdout
            self.assertTrue(shown.startswith("mine: "), shown)
            self.assertIn("1088 nodes x 4 devices", shown)

    def test_a_device_extends_another_by_name(self):
        self.write("gpu.yaml", "extends: v100-sxm2\nname: mine\nmemory: 32 GB\n")
        self.write("mine.yaml", "extends: abci\ndevice: ./gpu.yaml\n")
        self.assertIn("device.memory = 32 GB (none given)",
                      run("show", "platform", self.directory / "mine.yaml", "--assumed").stdout)

    def test_a_file_beside_goes_before_a_name(self):
        self.write("abci", (ROOT / "platforms" / "dgx-1.yaml").read_text(encoding="utf-8"))
        self.assertIn("128 nodes", run("show", "platform", self.extending("abci")).stdout)

    def test_an_unknown_name_is_located_and_gets_those_that_are_near(self):
        said = self.refused(66, "check", "--platform", self.extending("abcj"))
        self.assertIn("mine.yaml:1:10: error: there is no platform 'abcj'", said)
        self.assertIn("did you mean 'abci'?", said)
        said = self.refused(66, "check", "--platform", self.extending("abci.yaml"))
        self.assertIn("no folder and no .yaml", said)


class Lists(support.Case):
    """What there is."""

    def test_every_name_has_a_line_with_its_description(self):
        folders = {"platforms": "platforms", "devices": "platforms/devices",
                   "software": "platforms/software"}
        for kind, folder in folders.items():
            lines = run("list", kind).stdout.splitlines()
            self.assertEqual([line.split()[0] for line in lines],
                             sorted(path.stem for path in (ROOT / folder).glob("*.yaml")))
            self.assertTrue(all(len(line.split()) > 1 for line in lines), lines)
        for kind, some in (("networks", {"resnet50_v1", "resnet20", "vgg16", "toy"}),
                           ("algorithms", {"ring", "torus2d", "nccl", "mpi"})):
            lines = run("list", kind).stdout.splitlines()
            self.assertLessEqual(some, {line.split()[0] for line in lines})
            self.assertTrue(all(len(line.split()) > 2 for line in lines), lines)
        self.assertIn("did you mean 'devices'?", self.refused(64, "list", "device"))

    def test_a_device_is_shown_with_the_source_of_each_number(self):
        text = run("show", "device", "v100-sxm2").stdout
        self.assertTrue(text.startswith("v100-sxm2-16gb: "), text)
        json = answer("show", "device", "v100-sxm2")
        self.assertEqual(len(json["numbers"]), V100.count("source:"))
        for number in json["numbers"]:
            self.assertIn(number["key"], text)
            self.assertIn(number["source"], text)

    def test_a_platform_as_json_has_all_its_numbers_in_si(self):
        json = answer("show", "platform", "abci")
        self.assertEqual(len(json["numbers"]), (ABCI + V100).count("source:"))
        nic = [n for n in json["numbers"] if n["key"] == "network.nic.bandwidth"]
        self.assertEqual(nic[0]["value"], 12.5e9)
        self.assertEqual((json["nodes"], json["devices_per_node"]), (1088, 4))


if __name__ == "__main__":
    unittest.main(verbosity=2)
