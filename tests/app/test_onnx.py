"""Networks that PyTorch exports: what is imported is what PyTorch itself computes.

FLOP are counted by torch, below its modules: every convolution and matrix product that runs.
FORETRAIN_TEST_ONNX=all also takes the large networks of torchvision (a minute, 1.5 GB of files).
"""
import os
import sys
import tempfile
import warnings

import support
from support import answer, good, run

if support.part("onnx") is None:
    print("foretrain-read finds no python3-onnx")
    sys.exit(77)
try:
    import torch
    import torchvision
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError as missing:
    print(f"needs PyTorch and torchvision (python3-torch, python3-torchvision): {missing}")
    sys.exit(77)

ALL = os.environ.get("FORETRAIN_TEST_ONNX") == "all"
aten = torch.ops.aten


class Counter(TorchDispatchMode):
    """Multiply-adds of what runs inside."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func == aten.convolution.default:  # transposed: args[6]
            self.count += (args[0] if args[6] else out).numel() * args[1][0].numel()
        elif func in (aten.mm.default, aten.bmm.default):
            self.count += out.numel() * args[0].shape[-1]
        elif func in (aten.addmm.default, aten.baddbmm.default):
            self.count += out.numel() * args[1].shape[-1]
        elif "scaled_dot_product" in str(func):  # fused, from PyTorch 2 on
            self.count += 2 * args[0].numel() * args[1].shape[-2]
        return out


def small_vit():
    """A vision transformer of two blocks."""
    return torchvision.models.VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=10)


class Twice(torch.nn.Module):
    """A head that shares its weight with an embedding but no bias, and a block that runs twice."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(100, 8)
        self.block = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 8), torch.nn.GELU())
        self.other = torch.nn.Linear(8, 8)
        self.other.weight = self.block[1].weight
        self.head = torch.nn.Linear(8, 100)
        self.head.weight = self.words.weight

    def forward(self, x):
        """Scores of each position."""
        return self.head(self.other(self.block(self.block(self.words(x)))))


class Convolutions(torch.nn.Module):
    """One convolution and its bias, used again, between bounds."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 3, 3, padding=1)
        self.last = torch.nn.Linear(3, 2)

    def forward(self, x):
        """Scores of an image."""
        for i in range(4):
            x = self.conv(x)
            x = (x.clamp(min=0), x.clamp(max=1), x.clamp(0, 6), x.clamp(min=-1))[i]
        return self.last(x.mean((2, 3)))


class Unet(torch.nn.Module):
    """Two levels, with group or instance norm, SiLU, a transposed convolution and a resize."""

    def __init__(self, norm):
        super().__init__()
        def pair(inputs, outputs):
            return torch.nn.Sequential(torch.nn.Conv2d(inputs, outputs, 3, padding=1), norm(outputs), torch.nn.SiLU())
        self.down, self.deep, self.last = pair(3, 8), pair(8, 16), pair(24, 8)
        self.up = torch.nn.ConvTranspose2d(16, 8, 2, 2)

    def forward(self, x):
        """A map of eight channels."""
        high = self.down(x)
        low = self.deep(torch.nn.functional.max_pool2d(high, 2))
        wide = torch.nn.functional.interpolate(low[:, :8], scale_factor=2.0)
        return self.last(torch.cat([self.up(low), high, wide], 1))


class Recurrent(torch.nn.Module):
    """Embeddings, two layers of an LSTM or GRU, scores of words."""

    def __init__(self, kind, **words):
        super().__init__()
        self.words = torch.nn.Embedding(50, 16)
        self.layers = kind(16, 32, 2, batch_first=True, **words)
        self.last = torch.nn.Linear(64 if words else 32, 50)

    def forward(self, x):
        """Scores at each position."""
        return self.last(self.layers(self.words(x))[0])


class Gpt(torch.nn.Module):
    """Causal blocks whose last layer is the embedding."""

    def __init__(self, length=24, features=32, heads=4):
        super().__init__()
        linear, norm = torch.nn.Linear, torch.nn.LayerNorm
        self.words, self.places = torch.nn.Embedding(100, features), torch.nn.Embedding(length, features)
        self.norms = torch.nn.ModuleList([norm(features) for _ in range(3)])
        self.inputs, self.output = linear(features, 3 * features), linear(features, features)
        self.wide, self.narrow = linear(features, 4 * features), linear(4 * features, features)
        self.head = linear(features, 100, bias=False)
        self.head.weight = self.words.weight
        self.heads = heads
        self.register_buffer("mask", torch.ones(length, length).tril())  # no parameter, though the file has it as one

    def forward(self, x):
        """Scores of the next words."""
        length = x.shape[1]
        y = self.words(x) + self.places(torch.arange(length))
        query, key, value = (part.reshape(1, length, self.heads, -1).transpose(1, 2)
                             for part in self.inputs(self.norms[0](y)).chunk(3, 2))
        seen = self.mask[:length, :length] != 0
        scores = torch.einsum("bhij,bhkj->bhik", query, key).masked_fill(~seen, float("-inf")).softmax(-1)
        y = y + self.output((scores @ value).transpose(1, 2).reshape(1, length, -1))
        y = y + self.narrow(torch.nn.functional.gelu(self.wide(self.norms[1](y))))
        return self.head(self.norms[2](y))


class Steps(torch.nn.Module):
    """Of two inputs: angles that multiply each position, a sine, a cell that begins with zeros, two results of one operation."""

    def __init__(self):
        super().__init__()
        self.time, self.cell, self.last = torch.nn.Linear(4, 8), torch.nn.LSTMCell(8, 8), torch.nn.Linear(4, 2)
        self.register_buffer("angles", torch.ones(3, 8))

    def forward(self, x, step):
        """Two numbers for three positions."""
        x = x * self.angles + torch.cat([x[..., 4:], x[..., :4]], -1) * self.angles
        time, state = self.time(torch.sin(step[:, None] * torch.ones(4))), [torch.zeros(1, 8)] * 2
        for place in range(3):
            state = self.cell(x[:, place] + time, state)
        return self.last(torch.mul(*state[0].topk(4)))  # values and places


class Heads(torch.nn.Module):
    """A detector of torchvision without the choice of boxes, which depends on the picture."""

    def __init__(self, detector):
        super().__init__()
        self.backbone, self.head = detector.backbone, detector.head

    def forward(self, x):
        """Scores and places at all sizes."""
        return tuple(self.head(list(self.backbone(x).values())).values())


class Windows(torch.nn.Module):
    """Of one and three dimensions, not square, with gaps, in groups."""

    def __init__(self):
        super().__init__()
        self.line = torch.nn.Conv1d(4, 8, 5, padding=2)
        self.solid = torch.nn.Conv3d(1, 4, 3, stride=(1, 2, 2), padding=1)
        self.flat = torch.nn.Conv2d(4, 4, (1, 7), padding=(0, 3), groups=2)
        self.gaps = torch.nn.Conv2d(4, 4, 3, dilation=2, padding=2)

    def forward(self, x):
        """One number."""
        return self.gaps(self.flat(self.solid(self.line(x)[None])[:, :, 0])).sum()


# ---- ONNX files by hand: https://protobuf.dev/programming-guides/encoding ----

def varint(number):
    """As protobuf writes it."""
    number &= 2**64 - 1
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def field(number, value):
    """A whole number, or text, bytes or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def attribute(name, value):
    """A number, a list of them, or a tensor."""
    if isinstance(value, list):
        return field(1, name) + b"".join(field(8, one) for one in value) + field(20, 7)
    return field(1, name) + (field(3, value) + field(20, 2) if isinstance(value, int) else
                             field(5, value) + field(20, 4))


def node(op, inputs, outputs, domain="", **attributes):
    """A node of a graph; names are words."""
    return (b"".join(field(1, word) for word in inputs.split()) + b"".join(field(2, word) for word in outputs.split()) +
            field(4, op) + b"".join(field(5, attribute(*one)) for one in attributes.items()) + field(7, domain))


def tensor(name, dims, data, kind=1):
    """Of floats, or of another kind."""
    return b"".join(field(1, dim) for dim in dims) + field(2, kind) + field(8, name) + field(9, data)


def onnx(*nodes, weights=(), shapes=(), function=b"", x=(1, 3, 8, 8)):
    """A model of input x and output y, with further inputs of @shapes."""
    def value(name, dims):
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, b"".join(field(1, field(1, d)) for d in dims))))
    graph = (b"".join(field(1, one) for one in nodes) + b"".join(field(5, one) for one in weights) +
             b"".join(field(11, value(*one)) for one in (("x", x), *shapes)) + field(12, field(1, "y")))
    return field(1, 8) + field(8, field(2, 13)) + field(7, graph) + function


def export(model, x, path, **words):
    """Write @model as an ONNX file with its batch norm and dropout."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.train(), x, str(path), opset_version=14, do_constant_folding=False,
                          training=torch.onnx.TrainingMode.PRESERVE, **words)


class Onnx(support.Case):
    """`import onnx`."""

    def imported(self, path, *words):
        """The network file of an ONNX file."""
        to = self.directory / "net.yaml"
        good("import", "onnx", path, "--to", to, *words)
        return to

    def check(self, name, model, x, idle=0, **words):
        """Parameters are equal, FLOP within 1 % of what runs, but for so many products with zeros."""
        path = self.directory / "net.onnx"
        for part in model.modules():
            if type(part).__name__ == "StochasticDepth":
                part.p = 0.0
        export(model, x, path, **words)
        counter = Counter()
        with torch.no_grad(), counter, torch.backends.mkldnn.flags(enabled=False):  # whose LSTM counts nothing
            model(*x) if isinstance(x, tuple) else model(x)
        network = answer("show", "model", self.imported(path))
        self.assertEqual(network["parameters"], sum(p.numel() for p in model.parameters()), name)
        self.assertAlmostEqual(network["flops"]["forward"] / (2 * (counter.count - idle)), 1, delta=0.01, msg=name)
        path.unlink()

    def test_parameters_and_flop_are_those_of_pytorch(self):
        models = torchvision.models
        image, small = torch.zeros(1, 3, 224, 224), torch.zeros(1, 3, 32, 32)
        self.check("vit", small_vit(), small)
        self.check("twice", Twice(), torch.zeros(1, 5, dtype=torch.long))
        self.check("convolutions", Convolutions(), small)
        self.check("mobilenet_v2", models.mobilenet_v2(), torch.zeros(1, 3, 64, 64))
        self.check("resnext50", models.resnext50_32x4d(), torch.zeros(1, 3, 64, 64))
        self.check("swin", models.SwinTransformer([4, 4], 16, [1, 2], [2, 4], [7, 7], num_classes=10),
                   torch.zeros(1, 3, 64, 64))
        if ALL:
            for name in ("vgg16", "densenet121", "vit_b_16", "swin_t", "maxvit_t", "alexnet"):
                self.check(name, getattr(models, name)(), image)
            for name in ("squeezenet1_1", "shufflenet_v2_x1_0", "mobilenet_v3_large", "mnasnet0_5", "regnet_y_400mf",
                         "efficientnet_b0", "efficientnet_v2_s", "convnext_tiny", "wide_resnet50_2", "googlenet"):
                words = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
                self.check(name, getattr(models, name)(**words), torch.zeros(1, 3, 64, 64))
            self.check("retinanet", Heads(models.detection.retinanet_resnet50_fpn(weights_backbone=None)),
                       torch.zeros(1, 3, 128, 128))

    def test_networks_of_other_kinds(self):
        tokens, image = torch.zeros(1, 24, dtype=torch.long), torch.zeros(1, 3, 32, 32)
        self.check("group norm", Unet(lambda channels: torch.nn.GroupNorm(4, channels)), image)
        self.check("instance norm", Unet(lambda channels: torch.nn.InstanceNorm2d(channels, affine=True)), image)
        self.check("lstm", Recurrent(torch.nn.LSTM, bidirectional=True), tokens)
        self.check("gru", Recurrent(torch.nn.GRU), tokens)
        self.check("gpt", Gpt(), tokens)
        self.check("windows", Windows(), torch.zeros(1, 4, 32))
        self.check("open batch", small_vit(), image, input_names=["x"], dynamic_axes={"x": {0: "batch"}})
        self.check("steps", Steps(), (torch.zeros(1, 3, 8), torch.zeros(1)), idle=8 * 32)

    def test_resnet50_is_the_built_in_one(self):
        path = self.directory / "net.onnx"
        export(torchvision.models.resnet50(), torch.zeros(1, 3, 224, 224), path)
        network = self.imported(path)
        job = self.write("onnx.yaml", support.JOB.replace("resnet50, image: 224", str(network)))
        steps = [answer("predict", name, "-banalytic")["phases"][0]["step_s"]
                 for name in (self.job, job)]
        self.assertAlmostEqual(steps[1] / steps[0], 1, delta=0.005)

    def test_an_imported_resnet_trains(self):
        path = self.directory / "net.onnx"
        export(torchvision.models.resnet18(num_classes=10), torch.zeros(1, 3, 64, 64), path)
        job = ("version: 1\nmodel: {network: %s}\ncluster: {platform: t1-torus, nodes: 1}\n"
               "training: {dataset: {source: procedural, train_images: 8}, "
               "phases: [{epochs: 1, global_batch: 4}]}\n")
        losses = []
        for network in (self.imported(path), "resnet18, image: 64, classes: 10"):
            losses.append(self.losses(self.write("t.yaml", job % network), 1))
        self.assertEqual(*losses)

    def test_what_no_device_trains_is_named(self):
        path = self.directory / "net.onnx"
        export(torchvision.models.mobilenet_v3_small(), torch.zeros(1, 3, 64, 64), path)
        job = self.write("onnx.yaml",
                         support.JOB.replace("resnet50, image: 224", str(self.imported(path))))
        done = run("train", job, "-n1", "--dry-run", "--set", "allreduce.grid=null")
        if support.has_executor():
            self.assertEqual(done.returncode, 69, done.stderr)
            self.assertRegex(done.stderr, "HardSwish' .silu. is a gate of a kind")

    def test_operations_that_are_not_known(self):
        path = self.directory / "net.onnx"
        path.write_bytes(onnx(node("Conv", "x w b", "c"), node("Det", "c", "y"),
                              weights=[tensor("w", [3, 3, 3, 3], bytes(324)), tensor("b", [3], bytes(12))]))
        self.assertIn("Is a directory", self.refused(66, "import", "onnx", self.directory))
        self.assertRegex(self.refused(65, "import", "onnx", path), "operation Det .*is not known")
        layers = answer("show", "model", self.imported(path, "--unknown=bytes"))["layers"]
        self.assertEqual([layer["kind"] for layer in layers], ["convolution", "other"])
        self.refused(73, "import", "onnx", path, "--unknown=bytes", "--to", self.write("mine.yaml", "version: 1\n"))

    def test_bounds_are_relus_where_they_are(self):
        path = self.directory / "net.onnx"
        export(Convolutions(), torch.zeros(1, 3, 32, 32), path)
        layers = self.imported(path).read_text(encoding="utf-8").splitlines()[5:]
        self.assertEqual(["relu" in line for line in layers], [True, False, False, True, False, False, False, False])
        self.assertEqual(sum("weights_of: conv," in line for line in layers), 3)

    def test_what_makes_no_sense_is_said(self):
        weights = tensor("w", [3, 3, 3, 3], bytes(324)), tensor("b", [3], bytes(12))
        def conv(**attributes):
            return onnx(node("Conv", "x w b", "y", **attributes), weights=weights)
        function = field(25, field(1, "F") + field(4, "a") + field(5, "c") +
                         field(7, node("F", "a", "c", "my")) + field(9, field(2, 13)) + field(10, "my"))
        short = tensor("s", [16], bytes(3), 7)
        for text, message in (
                (conv(group=0), "'group' must be at least 1"),
                (conv(group=-1), "'group' must"),
                (conv(group=-2**63), "'group' must"),
                (conv(pads=[-2**63] * 4), "'pads' must be at least 0"),
                (conv(dilations=[0, 0]), "'dilations' must"),
                (conv(strides=[0, 0]), "'strides' must"),
                (onnx(node("MaxPool", "x", "y", kernel_shape=[2, 2], strides=[0, 0])), "'strides' must"),
                (onnx(node("Scan", "x", "y")), "Scan .*is missing"),
                (onnx(node("F", "x", "y", "my"), function=function), "function 'F': export"),
                (onnx(node("Reshape", "x s", "y"), weights=[short]), "tensor 's' does not hold"),
                (onnx(node("Relu", "x", "a"), node("Relu", "a", "a"), node("Relu", "a", "y"), weights=weights),
                 "computes 'a', which is there"),
                (onnx(node("Conv", "x w b", "y"), shapes=(("w", [3, 3, 3, 3]), ("b", [3]))), "'w' holds the weights of Conv"),
                (onnx(node("Constant", "", "y", value=tensor("", [2], bytes(8)))), "computes nothing"),
                (onnx(node("Clip", "x", "y")), "nothing to train"),
                (onnx(node("Relu", "x", "y")), "nothing to train")):
            path = self.directory / "bad.onnx"
            path.write_bytes(text)
            self.assertRegex(self.refused(65, "import", "onnx", path), message)
        path.write_bytes(conv())
        self.assertIn("kernel: 3", good("import", "onnx", path).stdout)

    def test_scores_of_a_long_sequence(self):
        path = self.directory / "net.onnx"
        path.write_bytes(onnx(node("MatMul", "x w", "q"), node("Transpose", "q", "k", perm=[0, 1, 3, 2]), node("MatMul", "q k", "y"),
                              weights=[tensor("w", [8, 8], bytes(256))], x=(1, 40, 8192, 8)))
        network = answer("show", "model", self.imported(path))
        self.assertEqual(network["flops"]["forward"], 2 * 40 * 8192 * 8 * (8 + 8192))

    def test_equal_vectors_are_written_once(self):
        """As exporters of what was never trained do: two layers, of which the second has the first one's bias and scale."""
        path = self.directory / "net.onnx"
        path.write_bytes(onnx(node("Identity", "b", "c"), node("Identity", "g", "h"),
                              node("MatMul", "x w", "p"), node("Add", "b p", "q"), node("Mul", "q g", "r"),
                              node("MatMul", "r v", "s"), node("Add", "c s", "t"), node("Mul", "t h", "y"),
                              weights=[tensor("w", [8, 8], bytes(256)), tensor("v", [8, 8], bytes(256)),
                                       tensor("b", [8], bytes(32)), tensor("g", [8], bytes(32))], x=(1, 4, 8)))
        self.assertEqual(answer("show", "model", self.imported(path))["parameters"], 2 * (64 + 8 + 8))

    def test_shapes_that_are_computed(self):
        """As unflatten() of PyTorch 2 writes it: the last side of 6 becomes 2 x 3."""
        def whole(name, *values):
            return tensor(name, [len(values)], b"".join(value.to_bytes(8, "little", signed=True) for value in values), 7)
        text = onnx(node("Conv", "x w b", "c"), node("Shape", "c", "sides"), node("Add", "rank dim", "sum"),
                    node("Mod", "sum rank", "axis"), node("Reshape", "axis one", "end"), node("Slice", "sides zero end", "head"),
                    node("Add", "axis one", "next"), node("Slice", "sides next far", "tail"),
                    node("Concat", "head parts tail", "shape", axis=0), node("Reshape", "c shape", "r"),
                    node("Transpose", "r", "y", perm=[0, 1, 2, 4, 3]),
                    weights=[tensor("w", [3, 3, 3, 3], bytes(324)), tensor("b", [3], bytes(12)), whole("rank", 4),
                             whole("dim", -1), whole("one", 1), whole("zero", 0), whole("far", 2**63 - 1), whole("parts", 2, 3)])
        path = self.directory / "computed.onnx"
        path.write_bytes(text)
        layers = answer("show", "model", self.imported(path))["layers"]
        self.assertEqual([layer["kind"] for layer in layers], ["convolution", "permute"])

    def test_damaged_files_are_refused(self):
        good = self.directory / "good.onnx"
        export(small_vit(), torch.zeros(1, 3, 32, 32), good)
        data = good.read_bytes()
        bad = self.directory / "bad.onnx"
        for text in (b"", b"nonsense", data[:1000], data[:len(data) // 2],
                     data[:300] + bytes(40) + data[340:], b"\x08\x07" * 100):
            bad.write_bytes(text)
            done = run("import", "onnx", bad)
            self.assertIn(done.returncode, (65, 66, 70), (text[:20], done.stderr))
            self.assertEqual(done.stdout, "")
            self.assertIn("error", done.stderr)
        bad.write_bytes(b"<?xml version=\"1.0\"?>\n<topology version=\"2.0\">\n</topology>\n")  # a warning of protobuf
        self.assertIn("is not an ONNX model", self.refused(65, "import", "onnx", bad))
        self.refused(66, "import", "onnx", self.directory / "nowhere.onnx")

    def test_open_sizes_and_batches_are_refused(self):
        path = self.directory / "net.onnx"
        model = torchvision.models.resnet18()
        export(model, torch.zeros(1, 3, 64, 64), path, input_names=["x"],
               dynamic_axes={"x": {2: "height"}})
        self.assertIn("open dimension 'height'", self.refused(65, "import", "onnx", path))
        export(model, torch.zeros(2, 3, 64, 64), path)
        self.assertIn("batch of 2", self.refused(65, "import", "onnx", path))

    def test_a_build_without_it_says_so(self):
        with tempfile.TemporaryDirectory() as empty:
            self.assertIn("foretrain-read", self.refused(69, "import", "onnx", self.job, FORETRAIN_LIBEXEC=empty))
