#!/usr/bin/python3
"""Seconds of a training step of many networks on one GPU, as people write it in PyTorch.

Usage: networks.py [--seconds N] [--device NAME] [--tiny] FILE

One training step (forward, loss, backward, optimizer) of networks of torchvision and transformers,
kernel by kernel without a compiler unless a row says so, on random data that lies on the device, in
automatic mixed precision or fp32 with or without TF32.  Pictures train with SGD and momentum,
transformers with AdamW, both fused, no dropout.  Each step is timed by the GPU's clock; a row has
the median of 12 after 6, the lowest and the highest.  Rows are written as they are measured, in the
columns of experiments/07_networks/single.csv and some more.  A row that fails is reported on standard
error and left out, as are rows for which no time is left.
"""
import argparse
import csv
import gc
import statistics
import sys
import time

import torch
import torchvision
from torch.nn import functional as F

FIELDS = ["system", "nodes", "gpus_per_node", "device", "network", "batch_per_gpu", "precision",
          "sequence_length", "samples_per_second", "step_s", "lowest_s", "highest_s", "memory_bytes",
          "parameters", "remarks"]
WARM, STEPS = 6, 12
# Network, batch, side of images or length of sequences, precision, and how.
CASES = [
    ("resnet50", 256, 224, "fp16", "nhwc"), ("bert-large", 32, 512, "fp16", "sdpa"),
    ("bert-large", 32, 512, "fp16", "eager attention"), ("gpt2", 16, 1024, "bf16", "sdpa"),
    ("vit_b_16", 128, 224, "fp16", ""), ("efficientnet_b0", 256, 224, "fp16", "nhwc"),
    ("convnext_base", 128, 224, "bf16", "nhwc"), ("mobilenet_v3_large", 512, 224, "fp16", "nhwc"),
    ("resnext50_32x4d", 256, 224, "fp16", "nhwc"), ("densenet121", 256, 224, "fp16", "nhwc"),
    ("vgg16", 128, 224, "fp16", "nhwc"), ("swin_t", 128, 224, "fp16", ""),
    ("llama-1b", 4, 2048, "bf16", "sdpa"), ("gpt2-medium", 8, 1024, "bf16", "sdpa"),
    ("gpt2", 16, 1024, "bf16", "eager attention"), ("bert-base", 64, 128, "fp16", "sdpa"),
    ("resnet50", 256, 224, "fp16", "nchw"), ("resnet50", 128, 224, "tf32", "nchw"),
    ("resnet50", 128, 224, "fp32", "nchw"), ("bert-large", 16, 384, "tf32", "sdpa"),
    ("regnet_x_8gf", 128, 224, "fp16", "nhwc"), ("resnet18", 512, 224, "fp16", "nhwc"),
    ("resnet152", 128, 224, "fp16", "nhwc"), ("efficientnet_b4", 64, 380, "fp16", "nhwc"),
    ("inception_v3", 128, 299, "fp16", "nhwc"), ("wide_resnet50_2", 128, 224, "fp16", "nhwc"),
    ("mnasnet1_0", 256, 224, "fp16", "nhwc"), ("shufflenet_v2_x1_0", 512, 224, "fp16", "nhwc"),
    ("gpt2-xl", 4, 1024, "bf16", "sdpa"), ("resnet50", 32, 224, "fp16", "nhwc"),
    ("bert-large", 4, 512, "fp16", "sdpa"), ("vit_l_16", 64, 224, "bf16", ""),
    ("resnet50", 256, 224, "fp16", "nhwc, compiled"), ("gpt2", 16, 1024, "bf16", "sdpa, compiled"),
    ("bert-large", 32, 512, "bf16", "sdpa, compiled"),
    ("efficientnet_b0", 256, 224, "fp16", "nhwc, compiled"),
    ("convnext_base", 128, 224, "bf16", "nhwc, compiled"),
]
# Layers, hidden, heads, vocabulary.
TRANSFORMERS = {"bert-base": (12, 768, 12, 30522), "bert-large": (24, 1024, 16, 30522),
                "gpt2": (12, 768, 12, 50257), "gpt2-medium": (24, 1024, 16, 50257),
                "gpt2-xl": (48, 1600, 25, 50257), "llama-1b": (16, 2048, 32, 32000)}
FAST = {"fp16": torch.float16, "bf16": torch.bfloat16}


def transformer(name, length, how, tiny):
    """A network of transformers with a head that predicts tokens."""
    import transformers  # pylint: disable=import-outside-toplevel
    layers, hidden, heads, vocabulary = TRANSFORMERS[name]
    layers = 2 if tiny else layers
    way = {"attn_implementation": "eager" if "eager" in how else "sdpa"}
    if name.startswith("bert"):
        config = transformers.BertConfig(
            vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers,
            num_attention_heads=heads, intermediate_size=4 * hidden, hidden_dropout_prob=0,
            attention_probs_dropout_prob=0, max_position_embeddings=512)
        config._attn_implementation = way["attn_implementation"]  # pylint: disable=protected-access
        return transformers.BertForMaskedLM(config), vocabulary
    if name.startswith("gpt2"):
        config = transformers.GPT2Config(
            vocab_size=vocabulary, n_embd=hidden, n_layer=layers, n_head=heads, n_positions=length,
            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
        config._attn_implementation = way["attn_implementation"]  # pylint: disable=protected-access
        return transformers.GPT2LMHeadModel(config), vocabulary
    config = transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=heads, intermediate_size=5632,
        max_position_embeddings=length, tie_word_embeddings=False)
    config._attn_implementation = way["attn_implementation"]  # pylint: disable=protected-access
    return transformers.LlamaForCausalLM(config), vocabulary


def build(case, options):
    """(network, optimizer, loss function without arguments) of one case."""
    name, batch, size, _, how = case
    device = options.place
    if name in TRANSFORMERS:
        network, vocabulary = transformer(name, size, how, options.tiny)
        network = network.to(device)
        tokens = torch.randint(0, vocabulary, (batch, size), device=device)

        def loss():
            return network(input_ids=tokens, labels=tokens, **(
                {} if name.startswith("bert") else {"use_cache": False})).loss
        make = torch.optim.AdamW
        words = {"lr": 1e-4}
    else:
        more = {"aux_logits": False, "init_weights": False} if name == "inception_v3" else {}
        layout = torch.channels_last if "nhwc" in how else torch.contiguous_format
        network = getattr(torchvision.models, name)(weights=None, **more)
        network = network.to(device, memory_format=layout)
        images = torch.randn(batch, 3, size, size, device=device).to(memory_format=layout)
        labels = torch.randint(0, 1000, (batch,), device=device)

        def loss():
            return F.cross_entropy(network(images), labels)
        make = torch.optim.SGD
        words = {"lr": 1e-3, "momentum": 0.9}
    network.train()
    fused = {"fused": True} if device == "cuda" else {}
    optimizer = make(network.parameters(), **words, **fused)
    return network, optimizer, torch.compile(loss) if "compiled" in how else loss


def measure(case, options):
    """(seconds of each step, parameters)."""
    precision = case[3]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True
    network, optimizer, loss = build(case, options)
    scaler = torch.amp.GradScaler(options.place, enabled=precision == "fp16")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.place, dtype=FAST.get(precision), enabled=precision in FAST):
            value = loss()
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
    for _ in range(WARM):
        step()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    torch.cuda.synchronize()
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    return ([a.elapsed_time(b) * 1e-3 for a, b in zip(events, events[1:])],
            sum(value.numel() for value in network.parameters()))


def main():
    """All cases that time allows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file", help="the table to write")
    parser.add_argument("--seconds", type=float, default=600, help="when to stop (600)")
    parser.add_argument("--device", default="", help="its name in platforms/devices")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.place = "cuda" if torch.cuda.is_available() else "cpu"
    end = time.monotonic() + options.seconds
    with open(options.file, "w", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(FIELDS)
        for case in CASES:
            if time.monotonic() > end:
                break
            name, batch, size, precision, how = case
            begin = time.monotonic()
            try:
                torch.cuda.reset_peak_memory_stats()
                times, parameters = measure(case, options)
                median = statistics.median(times)
                table.writerow([torch.cuda.get_device_name(), 1, 1, options.device, name, batch,
                                precision, size, f"{batch / median:.6g}", f"{median:.6g}",
                                f"{min(times):.6g}", f"{max(times):.6g}",
                                torch.cuda.max_memory_allocated(), parameters,
                                f"PyTorch {torch.__version__}; {how}"])
                file.flush()
            except Exception as error:  # pylint: disable=broad-except  # the others go on
                print(f"{case}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
            print(f"{name} {batch} {precision} {how}: {time.monotonic() - begin:.1f} s",
                  file=sys.stderr, flush=True)
            gc.collect()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
