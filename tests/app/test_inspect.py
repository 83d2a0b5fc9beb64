"""foretrain inspect: what it says of whole and of damaged checkpoints."""
import json
import os
import struct

import harness
import support

WRITER = os.environ.get("WRITE_CHECKPOINT",
                        str(support.ROOT / "build" / "tests" / "exec" / "write_checkpoint"))


def write(directory, name, network="toy", keep=0):
    """Write a checkpoint of new weights."""
    done = harness.execute(WRITER, network, 32, 10, directory, name, keep)
    assert done.returncode == 0, done.stderr


class Inspect(harness.Case):
    """The command, on a directory of checkpoints."""

    def run_on(self, *words):
        """(exit code, stdout, stderr)."""
        done = harness.run("inspect", *words)
        return done.returncode, done.stdout, done.stderr

    def answer(self, *words):
        """The JSON object of an inspection without faults."""
        code, out, err = self.run_on(*words, "--json")
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)

    def test_shows_a_checkpoint_to_people(self):
        write(self.directory, "ckpt-000040")
        code, out, err = self.run_on(self.directory / "ckpt-000040")
        self.assertEqual((code, err), (0, ""))
        for part in ("network              toy\n", "position             10240\n", "top-1                50 %\n", "fc.bias", "[10]",
                     "all tensors of toy are there"):
            self.assertIn(part, out)
        self.assertEqual(out.count(" right\n"), 3, out)

    def test_a_network_from_a_file_is_shown_too(self):
        network = self.write("net.yaml", "version: 1\nname: small\ninput: 3x32x32\nlayers:\n  - {name: pool, kind: average-pool}\n"
                             "  - {name: fc, kind: linear, channels: 10, bias: true}\n")
        write(self.directory, "ckpt-000040", str(network))
        code, out, err = self.run_on(self.directory / "ckpt-000040")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("small is a network from a file", out)

    def test_takes_the_latest_of_a_run(self):
        for step in (9, 10, 11):
            write(self.directory, f"ckpt-{step}")
        (self.directory / "ckpt-11" / "state.json").unlink()
        (self.directory / ".tmp-ckpt-12").mkdir()
        result = self.answer(self.directory)
        self.assertEqual(result["path"], str(self.directory / "ckpt-10"))
        self.assertIn("ckpt-11 is passed over", result["notes"])
        self.assertIn(".tmp-ckpt-12 was not finished", result["notes"])

    def test_says_the_same_in_json(self):
        write(self.directory, "ckpt-000040")
        result = self.answer(self.directory)
        self.assertEqual(result["schema"], "foretrain/inspect/2")
        self.assertEqual(result["progress"]["step"], 40)
        self.assertEqual([f["name"] for f in result["files"]],
                         ["model.safetensors", "optim.safetensors", "state.json"])
        self.assertTrue(all(f["verdict"] == "right" for f in result["files"]))
        model = {t["name"]: t for t in result["tensors"] if t["file"] == "model.safetensors"}
        ones = [t for t in model.values() if t["name"].endswith("running_var")]
        self.assertTrue(ones)
        for tensor in ones:
            self.assertEqual((tensor["minimum"], tensor["mean"], tensor["maximum"]), (1, 1, 1))
        steps = [t for t in model.values() if t["name"].endswith("num_batches_tracked")]
        self.assertEqual({(t["type"], t["mean"]) for t in steps}, {("I64", 40)})

    def test_names_a_damaged_file_and_shows_the_others(self):
        write(self.directory, "ckpt-1")
        path = self.directory / "ckpt-1" / "optim.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 0x40
        path.write_bytes(content)
        for words in (path.parent,), (path.parent, "--json"):
            code, out, err = self.run_on(*words)
            self.assertEqual(code, 65)
            self.assertIn("optim.safetensors: damaged", err)
            self.assertIn("conv", out)
        self.assertEqual(json.loads(out)["files"][1]["verdict"], "WRONG")
        code, out, err = self.run_on(self.directory)
        self.assertEqual((code, out), (66, ""))
        self.assertIn("optim.safetensors: damaged", err)
        write(self.directory, "ckpt-0")
        self.assertEqual(self.answer(self.directory)["path"], str(self.directory / "ckpt-0"))

    def test_reads_a_file_of_another_program(self):
        header = json.dumps({"w": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}})
        path = self.directory / "other.safetensors"
        path.write_bytes(struct.pack("<Q", len(header)) + header.encode()
                         + struct.pack("<4H", 0x3f80, 0xc000, 0x7f80, 0x7fc0))
        result = self.answer(path)
        self.assertEqual(result["tensors"], [
            {"file": str(path), "name": "w", "type": "BF16", "shape": [2, 2], "minimum": -2,
             "mean": -0.5, "maximum": 1, "not_finite": 2}])
        self.assertIn("not finite", self.run_on(path)[1])

    def test_says_what_is_not_there(self):
        for path, message in ((self.directory / "none", "no such file or directory"),
                              (self.directory, "not a checkpoint")):
            code, out, err = self.run_on(path)
            self.assertEqual((code, out), (66, ""))
            self.assertIn(message, err)
        write(self.directory, "ckpt-1")
        (self.directory / "ckpt-1" / "state.json").unlink()
        code, out, err = self.run_on(self.directory)
        self.assertEqual((code, out), (66, ""))
        self.assertIn("ckpt-1/state.json: No such file", err)
        path = self.directory / "x.safetensors"
        path.write_text("hello, world: not a model")
        self.assertEqual(self.run_on(path)[0], 65)
