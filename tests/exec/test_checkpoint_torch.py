"""Checkpoints and PyTorch read each other's models: test_checkpoint_torch.py WRITER."""
import json
import pathlib
import struct
import sys

import harness

WRITER = sys.argv.pop(1)

try:
    import torch
    import torchvision
except ImportError as missing:
    harness.skip(f"{missing}: install python3-torch and python3-torchvision")

TYPES_SIZE = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8}
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}


def load(path):
    """The tensors of a safetensors file, read as its documentation says."""
    content = bytearray(pathlib.Path(path).read_bytes())
    length, = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = (torch.frombuffer(content, dtype=TYPES[entry["dtype"]], offset=8 + length + begin,
                                 count=(end - begin) // TYPES_SIZE[entry["dtype"]])
                if end > begin else torch.empty(0, dtype=TYPES[entry["dtype"]]))
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


WORDS = {dtype: word for word, dtype in TYPES.items()}


def save(path, tensors):
    """Write a safetensors file."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        piece = bytes(tensor.contiguous().view(-1).view(torch.uint8).numpy().data) \
            if tensor.dim() else struct.pack("<q", int(tensor))
        header[name] = {"dtype": WORDS[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


class Torch(harness.Case):
    """There and back."""

    def inspect(self, path):
        """What foretrain sees in a file, by tensor."""
        return {t["name"]: t for t in harness.answer("inspect", path)["tensors"]}

    def compare(self, seen, tensors, tolerance):
        """What foretrain says of each tensor is what PyTorch says."""
        self.assertEqual(set(seen), set(tensors))
        for name, tensor in tensors.items():
            wide, say = tensor.double(), seen[name]
            self.assertEqual(say["shape"], list(tensor.shape))
            self.assertEqual(say["type"], WORDS[tensor.dtype])
            self.assertEqual((say["minimum"], say["maximum"]),
                             (wide.min().item(), wide.max().item()), name)
            self.assertAlmostEqual(say["mean"], wide.mean().item(), delta=tolerance, msg=name)

    def test_torchvision_loads_what_was_written(self):
        self.execute(0, WRITER, "resnet50", 224, 1000, self.directory, "ckpt-1", 0)
        path = f"{self.directory}/ckpt-1/model.safetensors"
        tensors = load(path)
        self.assertEqual(len(tensors), 320)
        model = torchvision.models.resnet50(weights=None)
        model.load_state_dict(tensors, strict=True)
        model.eval()
        with torch.no_grad():
            scores = model(torch.ones(1, 3, 64, 64))
        self.assertTrue(torch.isfinite(scores).all())
        self.compare(self.inspect(path), tensors, 1e-9)
        momentum = load(f"{self.directory}/ckpt-1/optim.safetensors")
        self.assertEqual(set(momentum), {name for name, _ in model.named_parameters()})

    def test_reads_what_torchvision_made_in_every_type(self):
        torch.manual_seed(1)
        state = torchvision.models.resnet18(weights=None).state_dict()
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            tensors = {name: t.to(dtype) if t.is_floating_point() else t
                       for name, t in state.items()}
            path = f"{self.directory}/{WORDS[dtype]}.safetensors"
            save(path, tensors)
            self.compare(self.inspect(path), tensors, 1e-9)
