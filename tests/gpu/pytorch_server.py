"""ResNet-50 trained by PyTorch as fast as it can, in windows that are asked for.

Usage: pytorch_server.py SOCKET [--device cuda] [--image 224] [--batches 256,512] [--network resnet50]
                         [--seconds N]

Listens at SOCKET, prints a line, then compiles one training step (forward, loss, backward, SGD with
momentum) per batch and variant: channels_last, automatic mixed precision in fp16 (static loss scale)
or bf16, by torch.compile or not; each is told with a line on standard error.  What would not be
compiled within --seconds, if it took as long as the slowest before, is left out.  From then on
nothing is done but what is asked for, so that others can be timed on the device.  On a GPU each step
becomes one CUDA graph.  Images are random and lie on the device.

Lines of words, of one connection after another, get one answer of one JSON line each, once all is compiled:

  variants              how many were compiled, how many failed
  capture BATCH         tune and capture all variants of that batch and drop those of another one
  window VARIANT STEPS  seconds of each of so many steps, by the device's clock
  rates                 what the device reaches: copies [byte/s], matrix products in fp16 [FLOP/s]

What fails is left out, and said in the answer of capture.
"""
import argparse
import contextlib
import json
import os
import socket
import statistics
import sys
import time

import torch
import torchvision

TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
LOSS_SCALE = 128.0  # fp16: static, as in the job it is compared with


class Variant:
    """One way to train on one batch size."""

    def __init__(self, name, batch, options):
        how, self.type = name.split("-")
        self.name, self.batch, self.device = name, batch, options.device
        self.on_gpu = options.device == "cuda"
        network = getattr(torchvision.models, options.network)()
        self.network = network.to(options.device, memory_format=torch.channels_last)
        self.images = torch.randn(batch, 3, options.image, options.image, device=options.device)
        self.images = self.images.to(memory_format=torch.channels_last)
        self.labels = torch.randint(0, 1000, (batch,), device=options.device)
        fused = {"fused": True} if self.on_gpu else {}
        self.scale = LOSS_SCALE if self.type == "fp16" else 1.0
        # The loss scale is taken out of the rate, which costs nothing.
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-3 / self.scale,
                                         momentum=0.9, weight_decay=1e-4, **fused)
        self.forward = torch.compile(self.loss, dynamic=False) if how == "compiled" else self.loss
        self.graph = None

    def loss(self):
        """Of one batch, scaled for the backward pass."""
        with torch.autocast(self.device, dtype=TYPES[self.type]):
            loss = torch.nn.functional.cross_entropy(self.network(self.images), self.labels,
                                                     label_smoothing=0.1)
        return loss * self.scale

    def step(self):
        """One training step."""
        self.optimizer.zero_grad(set_to_none=True)
        self.forward().backward()
        self.optimizer.step()

    def warm(self, steps):
        """Run some steps, outside the default stream as capture demands."""
        if not self.on_gpu:
            for _ in range(steps):
                self.step()
            return
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(steps):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()

    def rest(self):
        """Keep what was compiled, let go of memory."""
        self.graph = None
        self.optimizer.zero_grad(set_to_none=True)
        if self.on_gpu:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

    def capture(self, pool):
        """Let cuDNN try its algorithms on the idle device, then note a step as a graph."""
        torch.backends.cudnn.benchmark = True
        self.warm(3)
        if self.on_gpu:
            self.optimizer.zero_grad(set_to_none=True)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, pool=pool):
                self.step()
            self.graph.replay()
            torch.cuda.synchronize()

    def window(self, steps):
        """Seconds of each of @steps."""
        if not self.on_gpu:
            times = []
            for _ in range(steps):
                begin = time.perf_counter()
                self.step()
                times.append(time.perf_counter() - begin)
            return times
        events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        self.graph.replay()
        events[0].record()
        for event in events[1:]:
            self.graph.replay()
            event.record()
        torch.cuda.synchronize()
        return [a.elapsed_time(b) * 1e-3 for a, b in zip(events, events[1:])]


def median_seconds(work, repeats):
    """Of @work on the GPU."""
    times = []
    for _ in range(repeats + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times[2:])


def rates():
    """Bytes per second, read and written, of a copy of 4 GB; FLOP/s of products of 8192 x 8192, on
    random numbers."""
    if not torch.cuda.is_available():
        return {}
    source = torch.randint(0, 2 ** 31, (2 ** 30,), dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    copy = median_seconds(lambda: target.copy_(source), 10)
    size = source.numel() * 8
    del source, target
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    product = median_seconds(lambda: a @ b, 10)
    return {"bytes_per_s": size / copy, "flops": 2 * 8192 ** 3 / product}


class Server:
    """Compiles, then answers."""

    def __init__(self, options):
        self.options = options
        self.variants, self.failed = {}, {}
        self.end, self.slowest = time.perf_counter() + options.seconds, 0
        self.captured = None

    def names(self):
        """All variants, those that are ready at once first."""
        how = ["compiled"] if hasattr(torch, "compile") else []
        types = ["bf16"] if self.options.device == "cpu" else ["fp16", "bf16"]
        return [f"{way}-{kind}" for way in ["eager", *how] for kind in types]

    def make(self, batch, name):
        """Compile one variant."""
        begin = time.perf_counter()
        if begin + self.slowest > self.end:
            self.failed[batch, name] = "no time was left to compile it"
            return
        try:
            variant = Variant(name, batch, self.options)
            if name.startswith("compiled"):
                variant.warm(2)
            variant.rest()
            self.variants[batch, name] = variant
            what = "compiled"
        except Exception as error:  # pylint: disable=broad-except  # the other variants go on
            self.failed[batch, name] = f"{type(error).__name__}: {error}"[:300]
            what = "failed"
        took = time.perf_counter() - begin
        self.slowest = max(self.slowest, took)
        print(f"{what} {name} {batch} in {took:.1f} s", file=sys.stderr, flush=True)

    def capture(self, batch):
        """All variants of a batch."""
        batch = int(batch)
        for variant in self.variants.values():
            variant.rest()
        pool = torch.cuda.graph_pool_handle() if self.options.device == "cuda" else None
        ready = []
        for (size, name), variant in list(self.variants.items()):
            if size != batch:
                continue
            try:
                variant.capture(pool)
                ready.append(name)
            except Exception as error:  # pylint: disable=broad-except
                self.failed[size, name] = f"{type(error).__name__}: {error}"[:300]
        self.captured = batch
        return {"batch": batch, "variants": ready,
                "failed": {f"{name} {size}": why for (size, name), why in self.failed.items()}}

    def answer(self, words):
        """To one line."""
        if words[0] == "variants":
            return {"compiled": len(self.variants), "failed": len(self.failed)}
        if words[0] == "capture":
            return self.capture(words[1])
        if words[0] == "window":
            return {"seconds": self.variants[self.captured, words[1]].window(int(words[2]))}
        if words[0] == "rates":
            return rates()
        return {"error": f"no word is {words[0]}"}

    def serve(self):
        """Until it is ended."""
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(self.options.socket)
        listening.listen()
        print("listening", flush=True)
        os.dup2(2, 1)  # nobody reads on
        for name in self.names():
            for batch in self.options.batches:
                self.make(batch, name)
        while True:
            connection, _ = listening.accept()
            with connection, connection.makefile() as lines:
                for line in lines:
                    try:
                        reply = self.answer(line.split())
                    except Exception as error:  # pylint: disable=broad-except  # told, not lost
                        reply = {"error": f"{type(error).__name__}: {error}"[:300]}
                    with contextlib.suppress(OSError):  # nobody waits any longer
                        connection.sendall(f"{json.dumps(reply)}\n".encode())


def main():
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("socket")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--image", type=int, default=224)
    parser.add_argument("--batches", default="256,512",
                        type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--seconds", type=float, default=600)
    Server(parser.parse_args()).serve()


if __name__ == "__main__":
    main()
