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

    def check(self, command, variables, *expected):
        """The program refuses, with these words and a way out."""
        done = subprocess.run(command, env={**os.environ, **variables}, text=True,
                              capture_output=True, timeout=1000, check=False)
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertTrue(any(words in done.stderr for words in expected), done.stderr)
        self.assertIn("--device cpu", done.stderr)

    def test_no_gpu_is_visible(self):
        """As on a machine without one, and in a build without CUDA."""
        for command in ([EXEC, *self.words], [FORETRAIN, *self.words, "-n", "1"]):
            self.check(command, {"CUDA_VISIBLE_DEVICES": ""}, "no NVIDIA driver is loaded",
                       "CUDA_VISIBLE_DEVICES= leaves no NVIDIA GPU", "was built without CUDA")


if __name__ == "__main__":
    unittest.main()
