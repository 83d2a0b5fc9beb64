#!/usr/bin/python3
"""What the fast CPU device computes for a whole ResNet-50 is what PyTorch computes.

Usage: test_against_pytorch.py DEVICE_STEP

Same weights, same batch: loss, scores in inference, every gradient and the running statistics after
one training step.  torchvision's names, shapes and order of parameters are relied on.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy
    import torch
    import torchvision
except ImportError as missing:
    print(f"needs PyTorch and torchvision (python3-torch, python3-torchvision): {missing}")
    sys.exit(77)

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/tests/exec/device_step"
IMAGE, BATCH, CLASSES = 64, 4, 1000


def relative(ours, theirs):
    """|ours - theirs| / |theirs|."""
    return float((ours - theirs).norm() / theirs.norm())


class Arrays:
    """What device_step wrote into a directory, and the network that belongs to it."""

    def __init__(self, network, seed, directory):
        run = subprocess.run([PROGRAM, "cpu", network, str(IMAGE), str(BATCH), "2", directory,
                              str(seed)], stdout=subprocess.PIPE, check=True)
        self.loss = float(run.stdout)
        self.directory = pathlib.Path(directory)
        self.network = getattr(torchvision.models, network)()
        self.images = self.floats("images").reshape(BATCH, IMAGE, IMAGE, 3).permute(0, 3, 1, 2)
        labels = numpy.fromfile(self.directory / "labels", dtype=numpy.int32)
        self.labels = torch.from_numpy(labels.astype(numpy.int64))
        with torch.no_grad():
            for parameter, ours in zip(self.network.parameters(), self.tensors("parameters")):
                parameter.copy_(ours)

    def floats(self, name):
        """A raw file as a tensor."""
        return torch.from_numpy(numpy.fromfile(self.directory / name, dtype=numpy.float32))

    def tensors(self, name):
        """The parameters in a raw file."""
        sizes = [parameter.numel() for parameter in self.network.parameters()]
        parts = self.floats(name).split(sizes)
        return [part.reshape(parameter.shape)
                for part, parameter in zip(parts, self.network.parameters())]


class Step:
    """One training step of both, from the same weights on the same batch; PyTorch's in fp64."""

    def __init__(self, seed):
        with tempfile.TemporaryDirectory() as directory:
            ours = Arrays("resnet50", seed, directory)
            self.scores = ours.floats("scores").reshape(BATCH, CLASSES)
            self.gradients = ours.tensors("gradients")
            self.statistics = ours.floats("statistics")
        self.loss = ours.loss
        network, images = ours.network.double(), ours.images.double()
        network.eval()
        with torch.no_grad():
            self.their_scores = network(images)
        network.train()
        loss = torch.nn.CrossEntropyLoss(label_smoothing=0.1)(network(images), ours.labels)
        loss.backward()
        self.their_loss = float(loss)
        self.named = list(network.named_parameters())
        # torchvision lists a block's projection last, as the flat array does.
        self.their_statistics = torch.cat(
            [values for name, values in network.named_buffers()
             if name.endswith(("running_mean", "running_var"))])

    def worst_gradient(self):
        """(difference relative to the gradient, name) of the tensor where it is largest; what is a
        millionth of the whole gradient is rounding: a shift that the next batch norm undoes."""
        whole = torch.cat([parameter.grad.flatten() for _, parameter in self.named]).norm()
        return max((float((ours - parameter.grad).norm() /
                          (parameter.grad.norm() + 1e-6 * whole)), name)
                   for ours, (name, parameter) in zip(self.gradients, self.named))


class AgainstPyTorch(unittest.TestCase):
    """ResNet-50 on 4 images of 64 x 64."""

    @classmethod
    def setUpClass(cls):
        cls.steps = [Step(0)]

    def test_scores_in_inference(self):
        """Untrained, running statistics let activations grow: relative to the largest score."""
        step = self.steps[0]
        difference = (step.scores - step.their_scores).abs().max() / step.their_scores.abs().max()
        print(f"largest difference of a score, relative to the largest: {float(difference):.2g}")
        self.assertLessEqual(float(difference), 1e-4)

    def test_loss(self):
        self.assertLessEqual(abs(self.steps[0].loss - self.steps[0].their_loss), 1e-4)

    def test_every_gradient(self):
        """Rounding can move a value across a ReLU's corner, where gradients jump by a percent (in
        PyTorch's own fp32 too), so up to three seeds are tried: a fault would show in all."""
        self.assertEqual(len(self.steps[0].named), 161)
        for seed in range(3):
            step = self.steps[0] if seed == 0 else Step(seed)
            worst, name = step.worst_gradient()
            print(f"largest difference of a gradient: {worst:.2g} ({name})")
            if worst <= 1e-3:
                return
        self.fail("no seed within 1e-3")

    def test_running_statistics(self):
        """In each batch norm the means, then the variances."""
        step = self.steps[0]
        self.assertLessEqual(relative(step.statistics, step.their_statistics), 1e-5)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
