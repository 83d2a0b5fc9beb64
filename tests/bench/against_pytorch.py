#!/usr/bin/python3
"""How long a training step of a network takes on the fast CPU device, and in PyTorch.

Usage: against_pytorch.py [--json] [--network resnet50|resnext50_32x4d|mobilenet_v2|gpt2] [--image N] [--batch N]
                          [--steps N] [--threads N,N] [--precision fp32,bf16] [--check RATIO] [DEVICE_STEP]

A step is forward, loss, backward and update on the same shapes, with weights of the same kind: of pictures SGD with
momentum; of GPT-2's tokens AdamW with clipping, without dropout, and --image is the length of a sequence.  Ours and
PyTorch's (pictures: default layout, channels_last) take turns within one run, so that other work on the machine burdens
all alike; medians are compared, PyTorch's better layout counts.  bf16 is of products on both sides: PyTorch's by
autocast.  Beside the time of a step stands that of all its processors, which other work lengthens less.
The default is a batch of 8 pictures or 4 sequences of 256 tokens; on one thread with fewer than 16 images PyTorch has
1x1 convolutions done by BLAS, as all products of fp32: "BLAS" names its file.  `sgemm` is the rate of oneDNN's matrix
product of 2048 x 2048 on the same threads, `fraction` the step's share of that (2 FLOP per multiply-add, 3 passes).
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

# Threads that wait sleep, on both sides: else processors' time grows with other work on the machine.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
try:
    import torch
    import torchvision
except ImportError as missing:
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])  # Debian's has it
    print(f"needs PyTorch and torchvision (python3-torch, python3-torchvision): {missing}")
    sys.exit(77)

WORDS, WIDTH, HEADS, BLOCKS = 50257, 768, 12, 12  # of GPT-2 (Radford et al. 2019)
RATE = 0.01, 1e-4  # of SGD, of AdamW
# On one image of 224 x 224, forward: torchvision's _ops; of one token: a multiply-add for each weight of a product.
MULTIPLY_ADDS = {"resnet50": 4.089e9, "resnext50_32x4d": 4.23e9, "mobilenet_v2": 0.301e9,
                 "gpt2": BLOCKS * 12 * WIDTH ** 2 + WORDS * WIDTH}


class Ours:
    """device_step, waiting for words."""

    def __init__(self, options, precision, threads):
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [options.program, "cpu", options.network, str(options.image), str(options.batch), str(threads),
             f"compute={precision}", *(["dropout=false", f"rate={RATE[1]}"] if options.network == "gpt2" else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, word="step"):
        """Of one "step" or "sgemm": by the clock, and of processors."""
        begin = self.busy()
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline()), self.busy() - begin

    def busy(self):
        """Seconds of processors so far, in user mode and the kernel."""
        words = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        """End it."""
        self.process.stdin.close()
        self.process.wait()


class Block(torch.nn.Module):
    """Of GPT-2: attention, one product for queries, keys and values, and a feed-forward network."""

    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.all, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, later):  # pylint: disable=missing-function-docstring
        count, length, _ = x.shape
        q, k, v = (part.view(count, length, HEADS, -1).transpose(1, 2)
                   for part in self.all(self.norms[0](x)).split(WIDTH, 2))
        scores = (q @ k.transpose(2, 3) * (WIDTH // HEADS) ** -0.5).masked_fill(later, float("-inf"))
        x = x + self.out((scores.softmax(3) @ v).transpose(1, 2).reshape(x.shape))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))


class Gpt2(torch.nn.Module):
    """The scores of next words; those of all positions lie behind each other."""

    def __init__(self, length):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(length, WIDTH)
        self.blocks, self.norm = torch.nn.ModuleList(Block() for _ in range(BLOCKS)), torch.nn.LayerNorm(WIDTH)
        self.later = torch.ones(length, length, dtype=bool).triu(1)

    def forward(self, tokens):  # pylint: disable=missing-function-docstring
        x = self.words(tokens) + self.places.weight
        for block in self.blocks:
            x = block(x, self.later)
        return torch.nn.functional.linear(self.norm(x), self.words.weight).flatten(0, 1)


class Theirs:
    """PyTorch's, the network torchvision's or GPT-2."""

    def __init__(self, options, precision, layout):
        self.narrow = precision == "bf16"
        if options.network == "gpt2":
            self.network = Gpt2(options.image)
            tokens = torch.randint(0, WORDS, (options.batch, options.image + 1))
            self.images, self.labels = tokens[:, :-1], tokens[:, 1:].flatten()
            self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=RATE[1], betas=(0.9, 0.95),
                                               weight_decay=1e-4)
            self.criterion, self.clip = torch.nn.CrossEntropyLoss(), 1
            return
        self.network = getattr(torchvision.models, options.network)().to(memory_format=layout)
        self.images = torch.randn(options.batch, 3, options.image, options.image).to(memory_format=layout)
        self.labels = torch.randint(0, 1000, (options.batch,))
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=RATE[0], momentum=0.9,
                                         weight_decay=1e-4)
        self.criterion, self.clip = torch.nn.CrossEntropyLoss(label_smoothing=0.1), None

    def seconds(self):
        """Of one step: by the clock, and of processors."""
        begin, busy = time.perf_counter(), time.process_time()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.narrow):
            scores = self.network(self.images)
        self.criterion(scores.float(), self.labels).backward()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        self.optimizer.step()
        return time.perf_counter() - begin, time.process_time() - busy


def measure(options, threads, precision):
    """The figures for one number of threads."""
    torch.set_num_threads(threads)
    ours = Ours(options, precision, threads)
    layouts = {"default": torch.contiguous_format}
    if options.network != "gpt2":
        layouts["channels_last"] = torch.channels_last
    theirs = {name: Theirs(options, precision, layout) for name, layout in layouts.items()}
    times = {name: [] for name in ("ours", "sgemm", *theirs)}
    for turn in range(options.steps + 1):
        taken = {"ours": ours.seconds(), "sgemm": ours.seconds("sgemm")}
        taken.update((name, theirs[name].seconds()) for name in theirs)
        for name, seconds in taken.items():
            if turn > 0:  # the first makes primitives and touches memory
                times[name].append(seconds)
    ours.close()
    median, busy = ({name: statistics.median(value[i] for value in values) for name, values in times.items()}
                    for i in (0, 1))
    pytorch, their_busy = (min(of[name] for name in theirs) for of in (median, busy))
    rate = 2 * 2048 ** 3 / median["sgemm"]
    size = options.image if options.network == "gpt2" else (options.image / 224) ** 2
    flops = 6 * MULTIPLY_ADDS[options.network] * size * options.batch
    return {"ours_s": median["ours"], "pytorch_s": pytorch, "ratio": median["ours"] / pytorch,
            **{f"pytorch_{name}_s": median[name] for name in theirs},
            "busy_s": busy["ours"], "pytorch_busy_s": their_busy, "busy_ratio": busy["ours"] / their_busy,
            "sgemm_gflops": rate / 1e9, "fraction": flops / median["ours"] / rate}


def blas():
    """The file of PyTorch's, as it is loaded."""
    maps = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8")
    return ", ".join(sorted(set(re.findall(r"/\S*(?:blas|mkl)\S*", maps)))) or "within PyTorch"


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--network", choices=MULTIPLY_ADDS, default="resnet50")
    parser.add_argument("--image", type=int, help="pixels (224), or tokens (256)")
    parser.add_argument("--batch", type=int, help="images (8), or sequences (4)")
    parser.add_argument("--steps", type=int, default=5, help="steps of each (5)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (1,2)")
    parser.add_argument("--precision", default="fp32", help="of products: fp32,bf16 (fp32)")
    parser.add_argument("--check", type=float, help="exit status 1 when a ratio is above")
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("program", nargs="?", help="build/tests/exec/device_step (default)",
                        default=str(root / "build" / "tests" / "exec" / "device_step"))
    options = parser.parse_args()
    tokens = options.network == "gpt2"
    options.image = options.image or (256 if tokens else 224)
    options.batch = options.batch or (4 if tokens else 8)
    result = {f"threads{n} {precision}": measure(options, int(n), precision)
              for n in options.threads.split(",") for precision in options.precision.split(",")}
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print(f"PyTorch {torch.__version__}, BLAS {blas()}")
    for name, figures in ({} if options.json else result).items():
        print(f"{name}: ours {figures['ours_s']:.3f} s, PyTorch {figures['pytorch_s']:.3f} s, "
              f"ratio {figures['ratio']:.3f}; of processors {figures['busy_s']:.2f} s, "
              f"{figures['pytorch_busy_s']:.2f} s, ratio {figures['busy_ratio']:.3f}; "
              f"{figures['fraction']:.0%} of sgemm's {figures['sgemm_gflops']:.0f} GFLOP/s")
    worst = max(figures["ratio"] for figures in result.values())
    return int(options.check is not None and worst > options.check)


if __name__ == "__main__":
    sys.exit(main())
