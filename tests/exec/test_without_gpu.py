#!/usr/bin/python3
"""--device cuda where there is no GPU: exit code 69, what is missing, and the way out."""
import os
import subprocess
import sys
import tempfile
import unittest

FORETRAIN, EXEC = os.environ["FORETRAIN"], sys.argv.pop(1)
JOB = """version: 1
model: {network: resnet8, image: 32, classes: 10}
cluster: {platform: two-core, nodes: 1, devices_per_node: 1}
training:
  dataset: {source: synthetic, train_images: 64, validation_images: 16}
  phases: [{epochs: 1, batch_per_device: 16}]
"""


class WithoutGpu(unittest.TestCase):
    """Each test starts a program as a user would."""

    def setUp(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
            file.write(JOB)
        self.addCleanup(os.remove, file.name)
        self.words = ["train", file.name, "--device", "cuda", "--steps", "1"]

    def test_no_gpu_is_visible(self):
        """As on a machine without one, and in a build without CUDA."""
        expected = "was built without CUDA" if os.environ["CUDA"] == "false" else (
            "no NVIDIA driver is loaded|CUDA_VISIBLE_DEVICES= leaves no NVIDIA GPU")
        for command in ([EXEC, *self.words], [FORETRAIN, *self.words, "-n", "1"]):
            done = subprocess.run(command, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, text=True,
                                  capture_output=True, timeout=1000, check=False)
            self.assertEqual(done.returncode, 69, done.stderr)
            self.assertRegex(done.stderr, expected)
            self.assertIn("--device cpu", done.stderr)


if __name__ == "__main__":
    unittest.main()
