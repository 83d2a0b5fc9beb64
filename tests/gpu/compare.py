"""What a device computes against PyTorch, from the same weights on the same images.

Usage: compare.py gradients|losses --program DEVICE_STEP [--device cuda] [--torch cuda]
                  [--network NAME] [--image N] [--batch N] [--type fp16|bf16|fp32] ...

gradients: one training step.  The reference is PyTorch in fp64; beside ours stands how far PyTorch
itself is from it with automatic mixed precision of the same type.
losses: many steps.  PyTorch runs several times, with the images of each batch in another order,
which changes nothing but the rounding: how far those runs come apart is the spread.

Prints one JSON object; acceptance.py judges it.
"""
import argparse
import contextlib
import copy
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import torchvision
except ImportError as missing:
    print(json.dumps({"skip": f"needs PyTorch, torchvision and numpy: {missing}"}))
    sys.exit(0)

TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class SmallResNet(torch.nn.Module):
    """The residual networks for CIFAR-10, with projections: models/resnet.c."""

    def __init__(self, blocks, classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        for stage in range(3):
            setattr(self, f"layer{stage + 1}", self.stage(stage, blocks))
        self.fc = torch.nn.Linear(64, classes)

    @staticmethod
    def stage(number, blocks):
        """Blocks of 16 << @number channels."""
        block, layers = torchvision.models.resnet.BasicBlock, []
        for index in range(blocks):
            stride = 2 if number > 0 and index == 0 else 1
            width = 16 << number
            before = width // 2 if stride == 2 else width
            down = None
            if stride == 2:
                down = torch.nn.Sequential(torch.nn.Conv2d(before, width, 1, stride, bias=False),
                                           torch.nn.BatchNorm2d(width))
            layers.append(block(before, width, stride, down))
        return torch.nn.Sequential(*layers)

    def forward(self, images):
        """Scores."""
        x = torch.relu(self.bn1(self.conv1(images)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


class Block(torch.nn.Module):
    """Of a vision transformer; queries, keys and values have weights of their own."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = torch.nn.LayerNorm(width)
        self.query, self.key, self.value, self.output = (torch.nn.Linear(width, width) for _ in range(4))
        self.after = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        """The same shape."""
        y = self.norm(x)
        query, key, value = (part(y).unflatten(2, (self.heads, -1)).transpose(1, 2)
                             for part in (self.query, self.key, self.value))
        weights = (query @ key.transpose(2, 3) / query.shape[3] ** 0.5).softmax(3)
        x = x + self.output((weights @ value).transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.after(x))))


class Vit(torch.nn.Module):
    """ViT-B/16 of pictures of 64 pixels (Dosovitskiy et al. 2021)."""

    def __init__(self, classes, layers, width=768):
        super().__init__()
        self.patches = torch.nn.Conv2d(3, width, 16, 16)
        self.token = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(1, width)),
                                             torch.nn.Parameter(torch.zeros(17, width))])
        self.blocks = torch.nn.Sequential(*(Block(width, 12) for _ in range(layers or 12)))
        self.norm, self.classes = torch.nn.LayerNorm(width), torch.nn.Linear(width, classes)

    def forward(self, images):
        """Scores."""
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token[0].expand(len(x), 1, -1), x), 1) + self.token[1]
        return self.classes(self.norm(self.blocks(x))[:, 0])


class Scale(torch.nn.Module):
    """ConvNeXt's factors of channels, as a layer behind those of its block."""

    def __init__(self, block):
        super().__init__()
        self.factor = block.layer_scale
        del block.layer_scale
        block.layer_scale = 1

    def forward(self, x):
        """The same shape."""
        return self.factor * x


def without_chance(network):
    """Nothing is dropped, and norms are as in ResNets and by default."""
    for module in list(network.modules()):
        if hasattr(module, "layer_scale"):
            module.block.append(Scale(module))
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5
        if isinstance(module, (torch.nn.Dropout, torchvision.ops.StochasticDepth)):
            module.p = 0
        elif isinstance(module, torch.nn.BatchNorm2d):
            module.eps, module.momentum = 1e-5, 0.1
    return network


def build(network, classes, layers):
    """The network called as ours is: "resnet50", "resnet8", ..."""
    if network == "vit_b_16":
        return Vit(classes, layers)
    if not network.startswith("resnet"):
        return without_chance(getattr(torchvision.models, network)(num_classes=classes))
    depth = int(network.replace("resnet", ""))
    if depth in (8, 20, 32, 44, 56, 110):
        return SmallResNet((depth - 2) // 6, classes)
    return getattr(torchvision.models, network)(num_classes=classes)


class Ours:
    """What device_step did, read back."""

    def __init__(self, options, directory):
        keys = [f"compute={options.type}", f"gradients={options.gradients or options.type}",
                f"scale={options.scale}", f"classes={options.classes}", f"rate={options.rate}",
                f"shift={options.shift}", f"batches={options.batches}", f"steps={options.steps}",
                f"layers={options.layers}"]
        words = [options.program, options.device, options.network, options.image, options.batch,
                 options.threads, directory, options.seed, *keys]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise SystemExit(f"device_step: exit {done.returncode}: {done.stderr.strip()}")
        self.losses = [float(line) for line in done.stdout.split()]
        self.directory, self.options = pathlib.Path(directory), options
        self.network = build(options.network, options.classes, options.layers)
        shape = (options.batches, options.batch, options.image, options.image, 3)
        self.images = self.floats("images").reshape(shape).permute(0, 1, 4, 2, 3)
        labels = numpy.fromfile(self.directory / "labels", dtype=numpy.int32)
        self.labels = torch.from_numpy(labels.astype(numpy.int64)).reshape(shape[:2])
        self.scores = self.floats("scores").reshape(options.batch, options.classes)
        with torch.no_grad():
            for parameter, value in zip(self.network.parameters(), self.tensors("parameters")):
                parameter.copy_(value)
        self.gradients, self.statistics = self.tensors("gradients"), self.floats("statistics")

    def floats(self, name):
        """A raw file as a tensor."""
        return torch.from_numpy(numpy.fromfile(self.directory / name, dtype=numpy.float32))

    def tensors(self, name):
        """The parameters in a raw file."""
        sizes = [parameter.numel() for parameter in self.network.parameters()]
        return [part.reshape(parameter.shape) for part, parameter in
                zip(self.floats(name).split(sizes), self.network.parameters())]


def mixed(options, type_name):
    """PyTorch's automatic mixed precision; nothing for fp32 and fp64."""
    if type_name not in ("fp16", "bf16"):
        return contextlib.nullcontext()
    return torch.autocast(options.torch, dtype=TYPES[type_name])


def can_mix(options):
    """Whether PyTorch has that precision on its device."""
    if options.type != "fp16" or options.torch != "cpu":
        return True
    return int(torch.__version__.split(".")[0]) >= 2


def copy_of(ours, options, dtype=torch.float32):
    """PyTorch's network with our weights."""
    return copy.deepcopy(ours.network).to(options.torch, dtype)


def criterion(scores, labels):
    """Cross-entropy as device_run has it."""
    return torch.nn.functional.cross_entropy(scores.float() if scores.dtype != torch.float64
                                             else scores, labels, label_smoothing=0.1)


def their_step(ours, options, type_name):
    """(scores in inference, loss, gradients, running statistics) of PyTorch in a type, as fp64 in
    host memory."""
    exact = type_name == "fp64"
    dtype = torch.float64 if exact else torch.float32
    network = copy_of(ours, options, dtype)
    images = ours.images[0].to(options.torch, dtype)
    labels = ours.labels[0].to(options.torch)
    scale = options.scale if type_name == "fp16" else 1
    network.eval()
    with torch.no_grad(), mixed(options, type_name):
        scores = network(images).double().cpu()
    network.train()
    with mixed(options, type_name):  # a new one: it keeps weights that it has converted
        loss = criterion(network(images), labels)
    (loss * scale).backward()
    # torchvision lists a block's projection last, as the flat array does.
    statistics = [values.double().cpu() for name, values in network.named_buffers()
                  if name.endswith(("running_mean", "running_var"))]
    return scores, float(loss), [parameter.grad.double().cpu() / scale
                                 for parameter in network.parameters()], torch.cat(statistics or [torch.zeros(0)])


def distance(mine, reference, names):
    """How far gradients are apart: of all as one vector, and of the worst tensor.  Of one that is a millionth of the whole
    most is rounding.  Of one that is zero (a shift that the next batch norm undoes, a key's bias) all is: of six networks'
    in fp32, images of 64 x 64, PyTorch's own are 0.1 to 5.6 billionths of the whole and ours 0.03 to 3.0.  So a limit of
    1e-3 lets them have ten billionths, twice PyTorch's worst."""
    whole = torch.cat([part.flatten() for part in reference]).norm()
    apart = torch.cat([(a.double() - b).flatten() for a, b in zip(mine, reference)]).norm()
    zero = 1e-12 * whole  # in fp64: these are below 1e-17 of it
    worst = max((float((a.double() - b).norm() / (b.norm() + (1e-5 if b.norm() < zero else 1e-6) * whole)), name)
                for a, b, name in zip(mine, reference, names))
    return {"whole": float(apart / whole), "worst": worst[0], "worst_name": worst[1]}


def compare_gradients(options):
    """One step."""
    with tempfile.TemporaryDirectory() as directory:
        ours = Ours(options, directory)
    names = [name for name, _ in ours.network.named_parameters()]
    scores, loss, gradients, _ = their_step(ours, options, "fp64")

    def judged(scores_, loss_, gradients_):
        return {"gradients": distance(gradients_, gradients, names),
                "scores": float((scores_.double() - scores).norm() / scores.norm()),
                "loss": abs(loss_ - loss)}
    return {"network": options.network, "type": options.type, "image": options.image,
            "batch": options.batch, "reference_loss": loss,
            "ours": judged(ours.scores, ours.losses[0], ours.gradients),
            "pytorch": judged(*their_step(ours, options, options.type)[:3])
            if can_mix(options) else None}


def their_losses(ours, options, order_seed):
    """Losses of PyTorch's training, the images of each batch in the order of a seed."""
    network = copy_of(ours, options).to(memory_format=torch.channels_last)
    network.train()
    optimizer = torch.optim.SGD(network.parameters(), lr=options.rate, momentum=0.9)
    generator = torch.Generator().manual_seed(order_seed)
    scale, losses = options.scale if options.type == "fp16" else 1, []
    for step in range(options.steps):
        order = torch.randperm(options.batch, generator=generator)
        images = ours.images[step % options.batches][order].to(
            options.torch, memory_format=torch.channels_last)
        labels = ours.labels[step % options.batches][order].to(options.torch)
        optimizer.zero_grad()
        with mixed(options, options.type):
            loss = criterion(network(images), labels)
        (loss * scale).backward()
        for parameter in network.parameters():
            parameter.grad /= scale
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).double().cpu()


def apart(one, other):
    """Root of the mean squared difference of two runs' losses."""
    return float((one - other).square().mean().sqrt())


def compare_losses(options):
    """Many steps: the (lower) median distance of ours to PyTorch's runs, and the largest between
    two of those.  With six runs, a seventh of PyTorch would be further than that in 2 to 5 of 100 cases
    (simulated for runs that differ in 1 to 40 independent directions)."""
    with tempfile.TemporaryDirectory() as directory:
        ours = Ours(options, directory)
    theirs = [their_losses(ours, options, seed) for seed in range(options.runs)]
    mine = torch.tensor(ours.losses, dtype=torch.float64)
    to_theirs = sorted(apart(mine, run) for run in theirs)
    between = [apart(a, b) for a, b in itertools.combinations(theirs, 2)]
    return {"network": options.network, "type": options.type, "image": options.image,
            "batch": options.batch, "steps": options.steps,
            "distance": to_theirs[(len(to_theirs) - 1) // 2], "distances": to_theirs,
            "spread": max(between), "between": sorted(between),
            "ours": ours.losses, "pytorch": [run.tolist() for run in theirs]}


def read_options(words=None):
    """The command line, or @words."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("gradients", "losses"))
    parser.add_argument("--program", required=True, help="device_step")
    parser.add_argument("--device", default="cuda", help="of ours")
    parser.add_argument("--torch", default="cuda", help="of PyTorch")
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--type", default="fp16", choices=tuple(TYPES))
    parser.add_argument("--gradients", choices=tuple(TYPES), help="type of (as --type)")
    for name, default, kind in (("image", 64, int), ("layers", 0, int), ("batch", 16, int), ("classes", 1000, int),
                                ("threads", 2, int), ("seed", 0, int), ("batches", 1, int),
                                ("steps", 1, int), ("runs", 6, int), ("scale", 1024, float),
                                ("rate", 0.01, float), ("shift", 2, float)):
        parser.add_argument(f"--{name}", type=kind, default=default)
    return parser.parse_args(words)


def main():
    """Compare and print."""
    options = read_options()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    compare = compare_gradients if options.what == "gradients" else compare_losses
    print(json.dumps(compare(options)))


if __name__ == "__main__":
    main()
