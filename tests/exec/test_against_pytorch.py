"""What the fast CPU device computes for a whole ResNet-50, and CPUs for other networks, is what PyTorch computes.

Usage: test_against_pytorch.py DEVICE_STEP [whole]; else ViT-B/16 has two blocks of its twelve, and the naive device
no ResNeXt.

Same weights, same batch: loss, scores in inference, every gradient and the running statistics after
one training step.  torchvision's names, shapes and order of parameters are relied on.
"""
import pathlib
import sys
import tempfile
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))
sys.dont_write_bytecode = True

try:
    import numpy  # pylint: disable=unused-import
    import torch
    import torchvision  # pylint: disable=unused-import
except ImportError as missing:
    harness.skip(f"needs PyTorch and torchvision (python3-torch, python3-torchvision): {missing}")

import compare  # pylint: disable=wrong-import-position

PROGRAM = sys.argv.pop(1)
WHOLE = sys.argv[1:] == ["whole"]
del sys.argv[1:]


class Step:
    """One training step of both, from the same weights on the same batch; PyTorch's in fp64, or that of @other."""

    def __init__(self, seed, network="resnet50", device="cpu", other=None, layers=0):
        options = compare.read_options([
            "gradients", "--program", PROGRAM, "--device", device, "--torch", "cpu", "--type", "fp32",
            "--network", network, "--image", "64", "--batch", "4", "--scale", "4", "--seed", str(seed),
            "--layers", str(layers)])
        with tempfile.TemporaryDirectory() as directory:
            self.ours = compare.Ours(options, directory)
        if other:
            assert torch.equal(self.ours.images, other.ours.images)
            assert all(map(torch.equal, self.ours.network.parameters(), other.ours.network.parameters()))
        self.theirs = other.theirs if other else compare.their_step(self.ours, options, "fp64")
        self.scores, self.loss, self.gradients, self.statistics = self.theirs

    def worst_gradient(self):
        """(difference relative to the gradient, name) of the tensor where it is largest."""
        names = [name for name, _ in self.ours.network.named_parameters()]
        found = compare.distance(self.ours.gradients, self.gradients, names)
        return found["worst"], found["worst_name"]


class AgainstPyTorch(unittest.TestCase):
    """ResNet-50 on 4 images of 64 x 64."""

    @classmethod
    def setUpClass(cls):
        cls.step = Step(0)

    def test_scores_in_inference(self):
        """Untrained, running statistics let activations grow: relative to the largest score."""
        difference = float((self.step.ours.scores - self.step.scores).abs().max()
                           / self.step.scores.abs().max())
        print(f"largest difference of a score, relative to the largest: {difference:.2g}")
        self.assertLessEqual(difference, 1e-4)

    def test_loss(self):
        self.assertLessEqual(abs(self.step.ours.losses[0] - self.step.loss), 1e-4)

    def test_every_gradient(self):
        """Rounding can move a value across a ReLU's corner, where gradients jump by a percent (in
        PyTorch's own fp32 too), so up to three seeds are tried: a fault would show in all."""
        self.assertEqual(len(self.step.gradients), 161)
        for seed in range(3):
            worst, name = (Step(seed) if seed else self.step).worst_gradient()
            print(f"largest difference of a gradient: {worst:.2g} ({name})")
            if worst <= 1e-3:
                return
        self.fail("no seed within 1e-3")

    def test_running_statistics(self):
        """In each batch norm the means, then the variances."""
        apart = (self.step.ours.statistics - self.step.statistics).norm()
        self.assertLessEqual(float(apart / self.step.statistics.norm()), 1e-5)


class Others(unittest.TestCase):
    """Networks that GPUs do not train yet."""

    def every_gradient(self, network, *others, layers=0):
        """On the fast device and @others."""
        for seed in range(3):  # as above
            fast = Step(seed, network, layers=layers)
            worst = []
            for step in (fast, *(Step(seed, network, device, fast) for device in others)):
                self.assertLessEqual(abs(step.ours.losses[0] - step.loss), 1e-4)
                worst.append(step.worst_gradient())
            print(f"largest differences of a gradient of {network}: {worst}")
            if max(worst)[0] <= 1e-3:
                return
        self.fail("no seed within 1e-3")

    def test_groups(self):
        self.every_gradient("resnext50_32x4d", *["cpu-naive"] if WHOLE else [])

    def test_a_group_for_each_channel_relu6_and_sums_without_relu(self):
        self.every_gradient("mobilenet_v2", "cpu-naive")

    def test_gates_and_squeezed_channels(self):
        for network in ("mobilenet_v3_small", "efficientnet_b0"):
            with self.subTest(network=network):
                self.every_gradient(network)

    def test_norms_of_channels_and_factors_of_them(self):
        self.every_gradient("convnext_tiny")

    def test_attention_to_squares_of_pictures(self):
        self.every_gradient("vit_b_16", layers=0 if WHOLE else 2)
