"""--device cuda where there is no GPU: exit code 69, what is missing, and the way out."""
import os

import harness

JOB = """version: 1
model: {network: resnet8, image: 32, classes: 10}
cluster: {platform: two-core, nodes: 1, devices_per_node: 1}
training:
  dataset: {source: synthetic, train_images: 64, validation_images: 16}
  phases: [{epochs: 1, batch_per_device: 16}]
"""


class WithoutGpu(harness.Case):
    """Each test starts a program as a user would."""

    def test_no_gpu_is_visible(self):
        """As on a machine without one, and in a build without CUDA."""
        expected = "was built without CUDA" if os.environ["CUDA"] == "false" else (
            "no NVIDIA driver is loaded|CUDA_VISIBLE_DEVICES= leaves no NVIDIA GPU")
        words = ["train", self.write("job.yaml", JOB), "--device", "cuda", "--steps", "1"]
        for command in ([harness.EXECUTOR, *words], [harness.PROGRAM, *words, "-n", "1"]):
            done = self.execute(69, *command, environment={"CUDA_VISIBLE_DEVICES": ""})
            self.assertRegex(done.stderr, expected)
            self.assertIn("--device cpu", done.stderr)
