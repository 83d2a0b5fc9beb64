#!/usr/bin/python3
"""A GPT between a checkpoint of foretrain and Hugging Face's GPT-2, which transformers loads.

Usage: hugging_face.py to CHECKPOINT DIRECTORY
       hugging_face.py from MODEL.safetensors CHECKPOINT NEW_CHECKPOINT

`to` writes model.safetensors and config.json, for GPT2LMHeadModel.from_pretrained(DIRECTORY).  `from` writes CHECKPOINT,
which a run of the same network has left (--steps=1 is enough), with the weights of MODEL and moments of 0: train --resume
NEW_CHECKPOINT goes on from there.  A network trained elsewhere has the activation gelu_new; ours is gelu.
Sources: github.com/huggingface/transformers, modeling_gpt2.py (names; Conv1D has its weights as (in, out)), and
github.com/huggingface/safetensors, "Format".
"""
import ctypes
import json
import pathlib
import shutil
import struct
import sys

import numpy

PLAIN = {"embedding.weight": "wte.weight", "positions.weight": "wpe.weight", "norm.weight": "ln_f.weight",
         "norm.bias": "ln_f.bias"}
BLOCK = {"attention.norm": "ln_1", "ffn.norm": "ln_2", "output": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}
THIRDS = ("query", "key", "value")


def place(name):
    """Theirs of our tensor, and which third of it ours is."""
    if name == "words.weight":
        return "lm_head.weight", None
    if name in PLAIN:
        return "transformer." + PLAIN[name], None
    block, _, rest = name.partition(".")
    layer, kind = rest.rsplit(".", 1)
    if not block.startswith("layer") or layer not in BLOCK and layer not in THIRDS:
        sys.exit(f"GPT-2 has no tensor like {name}: norms before layers, gelu, trained positions and biases alone")
    theirs = "attn.c_attn" if layer in THIRDS else BLOCK[layer]
    return f"transformer.h.{block[5:]}.{theirs}.{kind}", THIRDS.index(layer) if layer in THIRDS else None


def is_across(name):
    """Whether a Conv1D has it."""
    return name.endswith(".weight") and ".c_" in name


def read(path):
    """The tensors of a file, without a prefix that some files lack."""
    content = pathlib.Path(path).read_bytes()
    length, = struct.unpack_from("<Q", content)
    found = {}
    for name, entry in json.loads(content[8:8 + length]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            found[name] = numpy.frombuffer(content[8 + length + begin:8 + length + end], "<f4").reshape(entry["shape"])
    return found


def write(path, tensors):
    """As transformers does."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.astype("<f4").tobytes())


def to(checkpoint, directory):
    """Write the directory."""
    ours, theirs = read(checkpoint / "model.safetensors"), {}
    for name, tensor in ours.items():
        where, third = place(name)
        tensor = tensor.T if is_across(where) else tensor
        theirs[where] = tensor if not third else numpy.concatenate((theirs[where], tensor), axis=-1)
    job = json.loads((checkpoint / "job.json").read_text(encoding="utf-8"))
    vocabulary, hidden = ours["embedding.weight"].shape
    directory.mkdir(parents=True, exist_ok=True)
    write(directory / "model.safetensors", theirs)
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu",
              "n_layer": sum(name.endswith(".query.weight") for name in ours), "n_head": job.get("model.heads", hidden // 64), "n_embd": hidden,
              "n_inner": ours["layer0.up.weight"].shape[0], "n_positions": len(ours["positions.weight"]),
              "vocab_size": vocabulary, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": "words.weight" not in ours}
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def back(model, checkpoint, new):
    """Write the checkpoint."""
    theirs = {name if name.startswith(("transformer.", "lm_head")) else "transformer." + name: tensor
              for name, tensor in read(model).items()}
    taken = {}
    for name, own in read(checkpoint / "model.safetensors").items():
        where, third = place(name)
        if where not in theirs:
            sys.exit(f"{model} has no tensor {where}")
        tensor = theirs[where] if third is None else numpy.split(theirs[where], 3, axis=-1)[third]
        tensor = tensor.T if is_across(where) else tensor
        tensor = tensor[:len(own)] if name == "positions.weight" else tensor
        if tensor.shape != own.shape:
            sys.exit(f"{where} has shape {theirs[where].shape}, where {checkpoint} needs {own.shape} for {name}")
        taken[name] = tensor
    shutil.copytree(checkpoint, new)
    write(new / "model.safetensors", taken)
    write(new / "optim.safetensors", {name: 0 * tensor for name, tensor in read(checkpoint / "optim.safetensors").items()})
    lines = "".join(line_of(new, line.split()[-1]) for line in (new / "MANIFEST").read_text(encoding="ascii").splitlines()[:-1])
    (new / "MANIFEST").write_text(lines + line_of(None, "MANIFEST", lines.encode()), encoding="ascii")


def line_of(directory, name, content=None):
    """A file's line of MANIFEST."""
    class Hash(ctypes.Structure):  # pylint: disable=too-few-public-methods
        """XXH128_hash_t."""
        _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]

    content = content if content is not None else (directory / name).read_bytes()
    function = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
    function.restype, function.argtypes = Hash, [ctypes.c_char_p, ctypes.c_size_t]
    found = function(content, len(content))
    return f"xxh3-128 {found.high:016x}{found.low:016x} {len(content)} {name}\n"


def main():
    """Convert."""
    words = sys.argv[1:2] + [pathlib.Path(word) for word in sys.argv[2:]]
    if words[:1] == ["to"] and len(words) == 3:
        to(*words[1:])
    elif words[:1] == ["from"] and len(words) == 4:
        back(*words[1:])
    elif words == ["--help"]:
        print(__doc__)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, KeyError, struct.error) as fault:
        sys.exit(f"error: {fault}")
