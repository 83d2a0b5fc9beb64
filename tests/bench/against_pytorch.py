#!/usr/bin/python3
"""How long a training step of a network of torchvision takes on the fast CPU device, and in PyTorch.

Usage: against_pytorch.py [--json] [--network resnet50|resnext50_32x4d|mobilenet_v2] [--image N] [--batch N] [--steps N] [--threads N,N]
                          [--check RATIO] [DEVICE_STEP]

A step is forward, loss, backward and SGD with momentum, fp32, on the same batch and weights of the
same kind.  Ours and PyTorch's (default layout, channels_last) take turns within one run, so that
other work on the machine burdens all alike; medians are compared, PyTorch's better layout counts.
Beside the time of a step stands that of all its processors, which other work lengthens less.
The default is a batch of 8; on one thread with fewer than 16 images PyTorch leaves 1x1 convolutions
to BLAS.  `sgemm` is the rate of oneDNN's matrix product of 2048 x 2048 on the same threads,
`fraction` the step's share of that (2 FLOP per multiply-add, 3 passes).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

try:
    import torch
    import torchvision
except ImportError as missing:
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])  # Debian's has it
    print(f"needs PyTorch and torchvision (python3-torch, python3-torchvision): {missing}")
    sys.exit(77)

# On one image of 224 x 224, forward: torchvision's _ops.
MULTIPLY_ADDS = {"resnet50": 4.089e9, "resnext50_32x4d": 4.23e9, "mobilenet_v2": 0.301e9}


class Ours:
    """device_step, waiting for words."""

    def __init__(self, program, network, image, batch, threads):
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [program, "cpu", network, str(image), str(batch), str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, word):
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


class Theirs:
    """That of torchvision."""

    def __init__(self, network, image, batch, layout):
        self.network = getattr(torchvision.models, network)().to(memory_format=layout)
        self.images = torch.randn(batch, 3, image, image).to(memory_format=layout)
        self.labels = torch.randint(0, 1000, (batch,))
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.01, momentum=0.9,
                                         weight_decay=1e-4)
        self.criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)

    def seconds(self):
        """Of one step: by the clock, and of processors."""
        begin, busy = time.perf_counter(), time.process_time()
        self.optimizer.zero_grad()
        self.criterion(self.network(self.images), self.labels).backward()
        self.optimizer.step()
        return time.perf_counter() - begin, time.process_time() - busy


def measure(options, threads):
    """The figures for one number of threads."""
    torch.set_num_threads(threads)
    ours = Ours(options.program, options.network, options.image, options.batch, threads)
    theirs = {"default": Theirs(options.network, options.image, options.batch, torch.contiguous_format),
              "channels_last": Theirs(options.network, options.image, options.batch, torch.channels_last)}
    times = {"ours": [], "sgemm": [], "default": [], "channels_last": []}
    for turn in range(options.steps + 1):
        taken = {"ours": ours.seconds("step"), "sgemm": ours.seconds("sgemm")}
        taken.update((name, theirs[name].seconds()) for name in theirs)
        for name, seconds in taken.items():
            if turn > 0:  # the first makes primitives and touches memory
                times[name].append(seconds)
    ours.close()
    median, busy = ({name: statistics.median(value[i] for value in values) for name, values in times.items()}
                    for i in (0, 1))
    pytorch, their_busy = (min(of["default"], of["channels_last"]) for of in (median, busy))
    rate = 2 * 2048 ** 3 / median["sgemm"]
    flops = 6 * MULTIPLY_ADDS[options.network] * (options.image / 224) ** 2 * options.batch
    return {"ours_s": median["ours"], "pytorch_s": pytorch, "ratio": median["ours"] / pytorch,
            "pytorch_default_s": median["default"],
            "pytorch_channels_last_s": median["channels_last"],
            "busy_s": busy["ours"], "pytorch_busy_s": their_busy, "busy_ratio": busy["ours"] / their_busy,
            "sgemm_gflops": rate / 1e9, "fraction": flops / median["ours"] / rate}


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--network", choices=MULTIPLY_ADDS, default="resnet50")
    parser.add_argument("--image", type=int, default=224, help="pixels (224)")
    parser.add_argument("--batch", type=int, default=8, help="images (8)")
    parser.add_argument("--steps", type=int, default=5, help="steps of each (5)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (1,2)")
    parser.add_argument("--check", type=float, help="exit status 1 when a ratio is above")
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("program", nargs="?", help="build/tests/exec/device_step (default)",
                        default=str(root / "build" / "tests" / "exec" / "device_step"))
    options = parser.parse_args()
    result = {f"threads{n}": measure(options, int(n)) for n in options.threads.split(",")}
    if options.json:
        print(json.dumps(result, indent=2))
    for name, figures in ({} if options.json else result).items():
        print(f"{name}: ours {figures['ours_s']:.3f} s, PyTorch {figures['pytorch_s']:.3f} s, "
              f"ratio {figures['ratio']:.3f}; of processors {figures['busy_s']:.2f} s, "
              f"{figures['pytorch_busy_s']:.2f} s, ratio {figures['busy_ratio']:.3f}; {figures['fraction']:.0%} of sgemm's "
              f"{figures['sgemm_gflops']:.0f} GFLOP/s")
    worst = max(figures["ratio"] for figures in result.values())
    return int(options.check is not None and worst > options.check)


if __name__ == "__main__":
    sys.exit(main())
