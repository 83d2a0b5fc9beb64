#!/usr/bin/python3
"""Seconds of single kernels on one GPU, as PyTorch and its libraries compute them.

Usage: kernels.py [--seconds N] [--only GROUP,GROUP] [--tiny] FILE

Writes a table of comma-separated values: matrix products and convolutions by shape, attention by
length and way, normalisations and other passes over memory, optimizers, recurrent layers, launches,
copies.  A row's operations and bytes are the least that its result needs: each input read once, each
output written once.

Every call is timed in a CUDA graph of many calls, by the GPU's clock: the median of five replays
after two.  Calls in a row take turns among sets of tensors of twice the second-level cache, so that
they read from memory, as in training.  Numbers are random.  Backward is what forward and backward
take together, less forward; the gradient that it gets is the result itself, so that passes that need
both (ReLU, softmax) read one array.  A row that fails is reported on standard error and left out, as
are rows for which no time is left.
"""
import argparse
import csv
import statistics
import sys
import time

import torch
from torch.nn import functional as F

FIELDS = ["group", "kernel", "type", "shape", "seconds", "flop", "bytes"]
TYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16,
         "bf16": torch.bfloat16}
CACHE = 128e6  # bytes of all sets of a kernel, at least
SPAN = 8e-3  # seconds of one replay, about


class Bench:
    """Times, and writes rows."""

    def __init__(self, options, file):
        self.options, self.file = options, file
        self.gpu = torch.cuda.is_available()
        self.device = "cuda" if self.gpu else "cpu"
        self.end = time.monotonic() + options.seconds
        self.table = csv.writer(file, lineterminator="\n")
        self.table.writerow(FIELDS)

    def size(self, number):
        """Smaller where this script itself is tried."""
        return max(8, number // 64) if self.options.tiny else number

    def random(self, *shape, kind="fp32", **more):
        """Normal numbers."""
        return torch.randn(*shape, device=self.device, dtype=TYPES[kind], **more)

    def sets(self, size, make):
        """As many results of @make, of @size bytes each, as the cache does not hold."""
        return [make() for _ in range(max(1, min(32, int(-(-CACHE // size)))))]

    def seconds(self, call, sets):
        """Of one call of @call with one of @sets."""
        if not self.gpu:
            begin = time.perf_counter()
            call(*sets[0])
            return time.perf_counter() - begin
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for one in sets[:3]:
                call(*one)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for one in sets[:3]:
                call(*one)
            end.record()
            stream.synchronize()
        about = begin.elapsed_time(end) * 1e-3 / len(sets[:3])
        calls = max(1, min(200, int(SPAN / about)))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for index in range(calls):
                call(*sets[index % len(sets)])
        times = []
        for _ in range(7):
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1e-3 / calls)
        return statistics.median(times[2:])

    def row(self, group, kernel, kind, shape, flop, size, seconds):
        """Write one."""
        self.table.writerow([group, kernel, kind, shape, f"{seconds:.4g}", f"{flop:.0f}",
                             f"{size:.0f}"])
        self.file.flush()

    def try_row(self, group, kernel, kind, shape, flop, size, work):
        """One that may fail; @work gives the seconds."""
        if time.monotonic() > self.end:
            return
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = kind == "tf32"
        try:
            self.row(group, kernel, kind, shape, flop, size, work())
        except Exception as error:  # pylint: disable=broad-except  # the other rows go on
            print(f"{group} {kernel} {kind} {shape}: {type(error).__name__}: {error}"[:200],
                  file=sys.stderr)
        if self.gpu:
            torch.cuda.empty_cache()

    def forward_backward(self, group, kernel, kind, shape, flop, size, call, make):
        """Two rows, of operations and bytes of each; @make makes the inputs."""
        def differentiable():
            return [value.requires_grad_() for value in make()]

        def both(*inputs):
            result = call(*inputs)
            torch.autograd.grad(result, inputs, result.detach())
        sets, forward = self.sets(max(size[0] / 2, 1), differentiable), []

        def first():
            with torch.no_grad():
                forward.append(self.seconds(call, sets))
            return forward[0]
        self.try_row(group, kernel, kind, shape, flop[0], size[0], first)
        if forward:
            self.try_row(group, f"{kernel} backward", kind, shape, flop[1], size[1],
                         lambda: self.seconds(both, sets) - forward[0])


# ---- products ----

# Outputs and inputs of layers: BERT base and large, GPT-2 XL, Llama 7B, Llama 3 70B on 8 devices,
# vocabularies, a classifier, layers of recommenders.
LAYERS = [(768, 768), (2304, 768), (3072, 768), (768, 3072), (1024, 1024), (3072, 1024),
          (4096, 1024), (1024, 4096), (1600, 1600), (6400, 1600), (4096, 4096), (12288, 4096),
          (11008, 4096), (4096, 11008), (1280, 8192), (8192, 1024), (7168, 8192), (8192, 3584),
          (30522, 1024), (50257, 768), (32000, 4096)]
SQUARES = [512, 1024, 2048, 4096, 8192, 16384]


def product(bench, how, kind, m, n, k):
    """One product, of m x k by k x n, as it occurs in training."""
    width = {"fp8": 1, "fp16": 2, "bf16": 2}.get(kind, 4)
    size = width * (m * k + k * n) + (2 if kind == "fp8" else width) * m * n

    def make():
        if kind == "fp8":
            a, b = (bench.random(rows, k).to(torch.float8_e4m3fn) for rows in (m, n))
            one = torch.ones((), device=bench.device)
            return a, b.t(), one
        if how == "weights":  # the sum over all tokens: both with tokens as rows
            return bench.random(k, m, kind=kind).t(), bench.random(k, n, kind=kind)
        if how == "data":
            return bench.random(m, k, kind=kind), bench.random(k, n, kind=kind)
        return bench.random(m, k, kind=kind), bench.random(n, k, kind=kind).t()

    def scaled(a, b, one):
        return torch._scaled_mm(a, b, scale_a=one, scale_b=one,  # pylint: disable=protected-access
                                out_dtype=torch.bfloat16, use_fast_accum=True)
    bench.try_row("product", how, kind, f"{m}x{n}x{k}", 2 * m * n * k, size,
                  lambda: bench.seconds(scaled if kind == "fp8" else torch.matmul,
                                        bench.sets(size, make)))


def products(bench):
    """By shape."""
    size = bench.size
    for side in SQUARES:
        product(bench, "forward", "bf16", *[size(side)] * 3)
    for rows, columns in LAYERS:
        for tokens in (2048, 16384):
            product(bench, "forward", "bf16", size(tokens), size(rows), size(columns))
    for rows, columns in LAYERS:
        tokens = 8192
        product(bench, "data", "bf16", size(tokens), size(columns), size(rows))
        product(bench, "weights", "bf16", size(rows), size(columns), size(tokens))
    product(bench, "forward", "bf16", 256, 1000, 2048)
    for kind in ("fp16", "tf32", "fp32", "fp8"):
        for side in SQUARES[1:5]:
            product(bench, "forward", kind, *[size(side)] * 3)
        for rows, columns in [(768, 768), (3072, 768), (4096, 1024), (1024, 4096), (4096, 4096),
                              (11008, 4096)]:
            product(bench, "forward", kind, size(8192), size(rows), size(columns))
    for batch, m, n, k in [(256, 128, 128, 64), (512, 512, 512, 64), (512, 512, 64, 512),
                           (128, 2048, 2048, 64), (128, 2048, 64, 2048), (64, 2048, 2048, 128)]:
        area = batch * (m * k + k * n + m * n) * 2

        def make(batch=batch, m=m, n=n, k=k):
            return bench.random(batch, m, k, kind="bf16"), bench.random(batch, k, n, kind="bf16")
        bench.try_row("product", "batched", "bf16", f"{batch}x{m}x{n}x{k}", 2 * batch * m * n * k,
                      area, lambda area=area, make=make:
                      bench.seconds(torch.bmm, bench.sets(area, make)))


# ---- attention ----

def attention(bench):
    """By length and by who computes it."""
    from torch.nn.attention import SDPBackend, sdpa_kernel  # pylint: disable=import-outside-toplevel
    ways = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
    tokens = bench.size(16384)
    for heads, width, causal, names in [(16, 64, False, list(ways)),
                                        (32, 128, True, ["flash", "cudnn"])]:
        for length in [128, 384, 512, 1024, 2048, 4096, 8192]:
            for name in names:
                if name == "math" and length > 4096:
                    continue
                batch = max(1, tokens // length)
                flop = 4 * batch * heads * length * length * width / (2 if causal else 1)
                size = 2 * 4 * batch * heads * length * width

                def make(batch=batch, heads=heads, length=length, width=width):
                    return [bench.random(batch, heads, length, width, kind="bf16")
                            for _ in range(3)]

                def call(q, k, v, name=name, causal=causal):
                    with sdpa_kernel([ways[name]]):
                        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                bench.forward_backward(
                    "attention", f"{name}{' causal' if causal else ''}", "bf16",
                    f"{batch}x{heads}x{length}x{width}", (flop, 2.5 * flop), (size, 2 * size),
                    call, make)


# ---- convolutions ----

# Images, input and output channels, groups, side (or depth, height, width), kernel, stride.
CONVOLUTIONS = {
    "dense": [(256, 64, 64, 1, (56, 56), 1, 1), (256, 64, 64, 1, (56, 56), 3, 1),
              (256, 64, 256, 1, (56, 56), 1, 1), (256, 256, 64, 1, (56, 56), 1, 1),
              (256, 128, 128, 1, (56, 56), 3, 2), (256, 128, 128, 1, (28, 28), 3, 1),
              (256, 128, 512, 1, (28, 28), 1, 1), (256, 512, 128, 1, (28, 28), 1, 1),
              (256, 256, 256, 1, (14, 14), 3, 1), (256, 256, 1024, 1, (14, 14), 1, 1),
              (256, 512, 512, 1, (7, 7), 3, 1), (256, 512, 2048, 1, (7, 7), 1, 1),
              (256, 8, 64, 1, (224, 224), 7, 2), (64, 64, 64, 1, (224, 224), 3, 1),
              (64, 256, 256, 1, (56, 56), 3, 1), (64, 512, 512, 1, (28, 28), 3, 1)],
    "grouped": [(128, 128, 128, 32, (56, 56), 3, 1), (128, 512, 512, 32, (14, 14), 3, 1),
                (128, 1024, 1024, 32, (7, 7), 3, 1), (128, 224, 224, 2, (56, 56), 3, 1),
                (128, 448, 448, 4, (28, 28), 3, 1)],
    "depthwise": [(128, 32, 32, 32, (112, 112), 3, 1), (128, 144, 144, 144, (56, 56), 3, 1),
                  (128, 240, 240, 240, (28, 28), 5, 1), (128, 672, 672, 672, (14, 14), 5, 1),
                  (128, 96, 96, 96, (112, 112), 3, 2), (64, 128, 128, 128, (56, 56), 7, 1),
                  (64, 512, 512, 512, (14, 14), 7, 1)],
    "volume": [(2, 32, 32, 1, (128, 128, 128), 3, 1), (2, 128, 128, 1, (32, 32, 32), 3, 1),
               (2, 256, 256, 1, (16, 16, 16), 3, 1)],
}


def convolution(bench, name, kind, case):
    """One shape, three ways."""
    images, inputs, outputs, groups, side, kernel, stride = case
    images, dims = (2 if bench.options.tiny else images), len(side)
    layout = torch.channels_last if dims == 2 else torch.channels_last_3d
    call = F.conv2d if dims == 2 else F.conv3d
    after = [length // stride for length in side]
    pad, width = kernel // 2, 4 if kind in ("tf32", "fp32") else 2
    area = (images * (inputs * torch.Size(side).numel() + outputs * torch.Size(after).numel())
            + outputs * inputs // groups * kernel ** dims) * width
    flop = 2 * images * torch.Size(after).numel() * outputs * inputs // groups * kernel ** dims

    def make():
        x = bench.random(images, inputs, *side, kind=kind).to(memory_format=layout)
        w = bench.random(outputs, inputs // groups, *[kernel] * dims, kind=kind)
        y = bench.random(images, outputs, *after, kind=kind).to(memory_format=layout)
        return x, w.to(memory_format=layout), y

    def backward(which):
        def run(x, w, y):
            torch.ops.aten.convolution_backward(
                y, x, w, None, [stride] * dims, [pad] * dims, [1] * dims, False, [0] * dims, groups,
                [which == "data", which == "weights", False])
        return run
    shape = f"{images}x{inputs}x{'x'.join(map(str, side))} to {outputs}, {kernel} wide"
    shape += (f", {groups} groups" if groups > 1 else "") + (f", stride {stride}" if stride > 1
                                                              else "")
    sets = None
    for way, work in [("forward", lambda x, w, y: call(x, w, None, stride, pad, 1, groups)),
                      ("data", backward("data")), ("weights", backward("weights"))]:
        if time.monotonic() > bench.end:
            return
        sets = sets or bench.sets(area, make)
        bench.try_row("convolution", f"{name} {way}", kind, shape, flop, area,
                      lambda work=work: bench.seconds(work, sets))


def convolutions(bench):
    """By shape."""
    torch.backends.cudnn.benchmark = True
    for name, cases in CONVOLUTIONS.items():
        for case in cases:
            convolution(bench, name, "fp16", case)
    for case in CONVOLUTIONS["dense"][1:8:2]:
        convolution(bench, "dense", "tf32", case)


# ---- passes over memory ----

def passes(bench):
    """Normalisations, activations, losses; bytes are of the values, forward and backward."""
    for kind, width in (("bf16", 2), ("fp32", 4)):
        for rows, columns in [(16384, 768), (16384, 4096)]:
            rows, weight = bench.size(rows), bench.random(columns, kind=kind)
            size = rows * columns * width

            def make(rows=rows, columns=columns, kind=kind):
                return [bench.random(rows, columns, kind=kind)]

            def pair(rows=rows, columns=columns, kind=kind):
                return [bench.random(rows, columns, kind=kind) for _ in range(2)]
            for name, call, maker, moved in [
                    ("layer norm", lambda x, w=weight: F.layer_norm(x, w.shape, w, w), make, (2, 3)),
                    ("rms norm", lambda x, w=weight: F.rms_norm(x, w.shape, w), make, (2, 3)),
                    ("softmax", lambda x: F.softmax(x, -1), make, (2, 2)),
                    ("gelu", F.gelu, make, (2, 3)), ("silu", F.silu, make, (2, 3)),
                    ("dropout", lambda x: F.dropout(x, 0.1), make, (2.5, 2.5)),
                    ("multiply", torch.mul, pair, (3, 5))]:
                bench.forward_backward("pass", name, kind, f"{rows}x{columns}", (0, 0),
                                       (moved[0] * size, moved[1] * size), call, maker)
            bench.try_row("pass", "add", kind, f"{rows}x{columns}", 0, 3 * size,
                          lambda size=size, pair=pair: bench.seconds(torch.add,
                                                                     bench.sets(size, pair)))
    kind, images = "fp16", 4 if bench.options.tiny else 256
    for channels, side in [(64, 112), (256, 56), (2048, 7)]:
        size, weight = images * channels * side * side * 2, bench.random(channels)

        def make(channels=channels, side=side):
            x = bench.random(images, channels, side, side, kind="fp16")
            return [x.to(memory_format=torch.channels_last)]
        for name, call, moved in [
                ("batch norm", lambda x, w=weight: F.batch_norm(x, None, None, w, w, True), (3, 5)),
                ("relu", F.relu, (2, 2)), ("average", lambda x: x.mean((2, 3)), (1, 1)),
                ("max pool", lambda x: F.max_pool2d(x, 3, 2, 1), (1.75, 1.75))]:
            bench.forward_backward("pass", name, kind, f"{images}x{channels}x{side}x{side}",
                                   (0, 0), (moved[0] * size, moved[1] * size), call, make)
    for rows, columns in [(8192, 30522), (4096, 128256)]:
        rows = bench.size(rows)
        labels = torch.randint(0, columns, (rows,), device=bench.device)
        bench.forward_backward(
            "pass", "cross entropy", "fp32", f"{rows}x{columns}", (0, 0),
            (4 * rows * columns, 8 * rows * columns),
            lambda x, labels=labels: F.cross_entropy(x, labels),
            lambda rows=rows, columns=columns: [bench.random(rows, columns)])
    for rows, columns in [(30522, 1024), (1000000, 128)]:
        where = torch.randint(0, rows, (16384,), device=bench.device)
        bench.forward_backward(
            "pass", "embedding", "fp32", f"16384 of {rows}x{columns}", (0, 0),
            (8 * 16384 * columns, 4 * (16384 + rows) * columns),
            lambda w, where=where: F.embedding(where, w),
            lambda rows=rows, columns=columns: [bench.random(rows, columns)])


# ---- optimizers, recurrent layers ----

def optimizers(bench):
    """Seconds of a step; bytes: weights, gradients and states in fp32, read and written."""
    lists = {"resnet-like": [2359296] * 5 + [1048576] * 8 + [65536] * 40 + [512] * 108,
             "bert-large-like": [31254528] + [4194304] * 48 + [1048576] * 96 + [1024] * 240}
    for name, sizes in lists.items():
        sizes = [bench.size(size) for size in sizes]
        total = sum(sizes)
        for what, words, make in [
                ("sgd", 5, lambda p, **more: torch.optim.SGD(p, lr=1e-3, momentum=0.9, **more)),
                ("adamw", 7, lambda p, **more: torch.optim.AdamW(p, lr=1e-3, **more))]:
            for way in ("fused", "foreach"):
                def work(sizes=sizes, make=make, way=way):
                    parameters = [bench.random(size).requires_grad_() for size in sizes]
                    for parameter in parameters:
                        parameter.grad = torch.randn_like(parameter)
                    optimizer = make(parameters, **{way: True})
                    optimizer.step()
                    times = []
                    for _ in range(7):
                        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                        begin.record()
                        optimizer.step()
                        end.record()
                        torch.cuda.synchronize()
                        times.append(begin.elapsed_time(end) * 1e-3)
                    return statistics.median(times)
                bench.try_row("optimizer", f"{what} {way}", "fp32",
                              f"{name}: {total} in {len(sizes)} tensors", 0, 4 * words * total, work)


def recurrent(bench):
    """LSTM layers of cuDNN: steps in a row."""
    for length, batch, width, layers in [(50, 128, 1024, 2), (200, 64, 1024, 1), (100, 256, 512, 1)]:
        layer = torch.nn.LSTM(width, width, layers).to(bench.device, torch.float16)
        flop = 2 * 8 * width * width * layers * length * batch

        def both(x, layer=layer):
            y, _ = layer(x)
            y.backward(y.detach())
        for name, call, times in [("lstm", lambda x, layer=layer: layer(x)[0], 1),
                                  ("lstm forward and backward", both, 3)]:
            bench.try_row("recurrent", name, "fp16", f"{length}x{batch}x{width}, {layers} layers",
                          times * flop, 0, lambda call=call, length=length, batch=batch, width=width:
                          bench.seconds(call, [(bench.random(length, batch, width, kind="fp16",
                                                             requires_grad=True),)]))


# ---- launches and copies ----

def launches(bench):
    """Seconds between kernels that do nearly nothing: as the host issues them, and in a graph."""
    small = bench.random(16, 16)
    weight = bench.random(16, 16, requires_grad=True)

    def host(call, count=1000):
        def work():
            call()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(count):
                call()
            torch.cuda.synchronize()
            return (time.perf_counter() - begin) / count
        return work

    def mixed():
        with torch.autocast(bench.device, dtype=torch.float16):
            F.linear(small, weight)
    for name, call in [("add", lambda: small.add_(1)), ("product", lambda: small @ small),
                       ("linear under autocast, cast of two", mixed),
                       ("linear and its gradients", lambda: F.linear(small, weight).sum().backward())]:
        bench.try_row("launch", f"host: {name}", "fp32", "16x16", 0, 0, host(call))
    bench.try_row("launch", "graph: add", "fp32", "16x16", 0, 0,
                  lambda: bench.seconds(lambda x: x.add_(1), [(small,)]))


def copies(bench):
    """On the device by size, and from and to the host."""
    for size in [2 ** power for power in range(16, 33, 2)]:
        size = bench.size(size)
        bench.try_row("copy", "device to device", "bytes", str(size), 0, 2 * size,
                      lambda size=size: bench.seconds(
                          lambda a, b: b.copy_(a), bench.sets(2 * size, lambda: [
                              torch.randint(0, 255, (size,), device=bench.device,
                                            dtype=torch.uint8) for _ in range(2)])))
    size = bench.size(2 ** 28)
    for name, pinned in (("pinned", True), ("pageable", False)):
        for way in ("to device", "to host"):
            def work(pinned=pinned, way=way):
                host = torch.ones(size, dtype=torch.uint8, pin_memory=pinned)
                there = torch.ones(size, dtype=torch.uint8, device=bench.device)
                a, b = (host, there) if way == "to device" else (there, host)
                times = []
                for _ in range(5):
                    torch.cuda.synchronize()
                    begin = time.perf_counter()
                    b.copy_(a)
                    torch.cuda.synchronize()
                    times.append(time.perf_counter() - begin)
                return statistics.median(times)
            bench.try_row("copy", f"{name}, {way}", "bytes", str(size), 0, size, work)


GROUPS = {"products": products, "attention": attention, "launches": launches, "passes": passes,
          "convolutions": convolutions, "optimizers": optimizers, "copies": copies,
          "recurrent": recurrent}


def main():
    """All groups, or those asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file", help="the table to write")
    parser.add_argument("--seconds", type=float, default=300, help="when to stop (300)")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(GROUPS),
                        help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    with open(options.file, "w", encoding="utf-8") as file:
        bench = Bench(options, file)
        for name in options.only:
            begin = time.monotonic()
            try:
                GROUPS[name](bench)
            except Exception as error:  # pylint: disable=broad-except  # the other groups go on
                print(f"{name}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
            print(f"{name}: {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
