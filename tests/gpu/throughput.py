"""Training speed, ours and PyTorch's, in windows that take turns; where our step's time goes."""
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import struct
import subprocess
import tempfile
import time

from report import Failure, Outcome, last_object, run

WINDOWS = 3  # of each variant, taking turns
# Steps of ours before a window, of which the first two are issued one by one.
WARM = 40
LEAST, AIM = 1.3, 1.8  # ours / PyTorch's
# Images/s by the driver's name of a GPU: an eighth of 63601 and of 57284.  Source: MLPerf Training
# v4.0, NVIDIA, h200_ngc24.04_mxnet and eos_ngc24.04_mxnet.
PUBLISHED = {"NVIDIA H200": 7950, "NVIDIA H100 80GB HBM3": 7160}


def serve(python, path, log, *words, environment=None):
    """Start PyTorch's server, which compiles what @words ask for.  Once it has printed a line, it listens at @path."""
    with open(log, "w", encoding="utf-8") as file:
        return subprocess.Popen([python, pathlib.Path(__file__).with_name("pytorch_server.py"), path, *map(str, words)],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, env=environment)


class PyTorch:
    """The server: it compiles for a while, then rests but when asked."""

    def __init__(self, path):
        self.path, self.socket = path, socket.socket(socket.AF_UNIX)
        self.lines = self.socket.makefile("r")

    def ask(self, words, seconds):
        """The answer to @words.  A server that takes longer is ended, so that it disturbs nobody."""
        self.socket.settimeout(max(seconds, 0.1))
        try:
            if self.path:
                self.socket.connect(self.path)
                self.path = None
            self.socket.sendall(f"{words}\n".encode())
            line = self.lines.readline()
        except TimeoutError:
            # Source: unix(7), SO_PEERCRED: who listens.
            process, _, _ = struct.unpack("3i", self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            os.kill(process, signal.SIGKILL)
            raise Failure("PyTorch did not answer in time") from None
        except OSError:
            line = ""
        if not line:
            raise Failure("PyTorch's process has ended: pytorch.txt says why")
        reply = json.loads(line)
        if "error" in reply:
            raise Failure(f"PyTorch: {reply['error']}")
        return reply


def settings(batch, kind, network="resnet50", image=224):
    """--set options of one of our variants."""
    wanted = [f"model.network={network}", f"model.image={image}",
              f"model.precision.compute={kind}", f"model.precision.gradients={kind}",
              f"training.phases=[{{epochs: 90, global_batch: {batch}}}]"]
    return [word for setting in wanted for word in ("--set", setting)]


class Ours:
    """The real program on the job of experiments/04_gpu."""

    def __init__(self, program, job, threads, warm):
        self.warm = warm
        self.moved = None  # bytes of each step, as the last run says
        self.faulty = 0  # its searches in which engines of cuDNN were wrong, or none could be used
        self.words = [program, "train", job, "--device", "cuda", "--threads", threads, "--quiet",
                      "--json"]

    def train(self, batch, kind, steps, *more, **shape):
        """What a run of so many steps says."""
        done = run([*self.words, "--steps", steps, *settings(batch, kind, **shape), *more])
        said = last_object(done.stdout)
        self.moved = said.get("step_bytes")
        self.faulty = done.stderr.count("foretrain-exec: of cuDNN's ")
        return said

    def window(self, batch, kind, steps, *more, **shape):
        """Seconds of each of @steps, after those that warm up: plans are read, graphs noted."""
        result = self.train(batch, kind, self.warm + steps, *more, **shape)
        return [step["step_s"] for step in result["step"][self.warm:]]


def rate(batch, windows):
    """Images per second: the median of the medians of windows, the range of these, their number."""
    each = sorted(batch / statistics.median(window) for window in windows)
    return {"images_per_s": statistics.median(each), "lowest": each[0], "highest": each[-1],
            "windows": len(each)}


def best_of(rates):
    """(name, rate) of the fastest."""
    name = max(rates, key=lambda key: rates[key]["images_per_s"])
    return name, rates[name]


def interleave(ours, pytorch, batch, steps, kind, seconds, windows_each=WINDOWS, **shape):
    """Windows of ours and PyTorch's, in turns, one at least, while there is time for all of a turn.
    @return (ours, PyTorch's, what capture said)."""
    end = time.monotonic() + seconds
    try:
        said = pytorch.ask(f"capture {batch}", seconds / 2)
    except Failure as failure:  # ours is worth measuring all the same
        said = {"batch": batch, "variants": [], "failed": {"all": str(failure)}}
    windows = {name: [] for name in [kind, *said["variants"]]}
    took = 0
    for _ in range(windows_each):
        begin = time.monotonic()
        if end - begin < 1.2 * took:
            break
        windows[kind].append(ours.window(batch, kind, steps, **shape))
        for name in said["variants"]:
            try:
                windows[name].append(pytorch.ask(f"window {name} {steps}", end - time.monotonic())["seconds"])
            except Failure as failure:
                said["failed"][name] = str(failure)
        took = time.monotonic() - begin
    rates = {name: rate(batch, each) for name, each in windows.items() if each}
    return {kind: rates.pop(kind)}, rates, said


def counts(lines, moved=None):
    """{id: (FLOP, bytes)} of the steps that `foretrain show schedule` counts; bytes are @moved (by
    id) if given."""
    return {int(match[1]): (int(match[2]), moved[int(match[1])] if moved else int(match[3]))
            for match in re.finditer(r"^ *(\d+) .*?(\d+) FLOP, (\d+) B", lines, re.MULTILINE)}


def kernel_limit(lines, flops, bytes_per_s, moved=None):
    """Seconds of a step if every one of its kernels ran at the rate of its bottleneck: counts(), at
    rates the device reaches."""
    return sum(max(flop / flops, size / bytes_per_s)
               for flop, size in counts(lines, moved).values())


# What is merged, by the software that merges it; counts do not depend on the platform.  Our device
# merges batch norm, ReLU and add into one kernel; what it then moves its result says.
MERGED = {"plain convolutions": ["--set", "cluster.platform=abci", "--set",
                                 "cluster.software=nnl-2018"],
          "convolutions with batch norm": []}


def schedule(program, job, batch, merged, **shape):
    """The steps of an iteration in 16 bits as text, with what MERGED names."""
    return run([program, "show", "schedule", job, *settings(batch, "fp16", **shape),
                *MERGED[merged]]).stdout


def judge(batch, ours, theirs, rates, limits, gpu=None):
    """Figures of one batch size; @limits: seconds of a step, by what is merged; @gpu: the name of the GPU."""
    our_name, our_best = best_of(ours)
    limit, least = f"ratio >= {LEAST}, aim {AIM}", PUBLISHED.get(gpu, 0)
    if least:
        limit += f"; {least} images/s on an {gpu.removeprefix('NVIDIA ')}"
    if not theirs:
        return Outcome("fail", f"{our_best['images_per_s']:.0f} images/s ({our_name}); PyTorch has "
                       "none", limit, {"batch": batch, "ours": ours, "rates": rates})
    their_name, their_best = best_of(theirs)
    ratio = our_best["images_per_s"] / their_best["images_per_s"]
    fractions = {name: our_best["images_per_s"] * seconds / batch
                 for name, seconds in limits.items()}
    figure = (f"{our_best['images_per_s']:.0f} images/s ({our_name}), PyTorch "
              f"{their_best['images_per_s']:.0f} ({their_name}), ratio {ratio:.2f}")
    if ratio >= LEAST:
        figure += f", aim {'reached' if ratio >= AIM else 'missed'}"
    for name, fraction in fractions.items():
        figure += f", {fraction:.0%} of the limit of {name}"
    return Outcome("pass" if ratio >= LEAST and our_best["images_per_s"] >= least else "fail", figure, limit,
                   {"batch": batch, "ours": ours, "pytorch": theirs, "ratio": ratio, "rates": rates,
                    "limits_images_per_s": {name: batch / seconds
                                            for name, seconds in limits.items()},
                    "fractions_of_limits": fractions})


# ---- where the time goes ----

def compute_events(trace):
    """(name, step id, seconds) of each traced step of the compute lane, iteration by iteration."""
    return [(event["name"], event["args"]["step id"], event["dur"] * 1e-6)
            for event in trace["traceEvents"]
            if event.get("ph") == "X" and event.get("tid") == 0 and event.get("pid") == 0
            and "step id" in event.get("args", {})]


def layer_rows(trace, lines, flops, bytes_per_s, moved=None):
    """Per step of the schedule: name, seconds (median of the traced iterations), seconds at the
    kernels' limit."""
    seconds = {}
    for name, step, took in compute_events(trace):
        seconds.setdefault((step, name), []).append(took)
    counted, rows = counts(lines, moved), []
    for (step, name), took in sorted(seconds.items()):
        flop, size = counted.get(step, (0, 0))
        limit = max(flop / flops, size / bytes_per_s) if flops else None
        rows.append({"step": step, "name": name, "seconds": statistics.median(took),
                     "limit_s": limit})
    return rows


def grouped(rows):
    """Seconds by what is done: "convolution forward", "batch norm backward-data", ..."""
    groups = {}
    for row in rows:
        layer, _, pass_name = row["name"].rpartition(" ")
        kind = ("batch norm" if "bn" in layer or layer.endswith("downsample.1") else
                "convolution" if "conv" in layer or layer.endswith("downsample.0") else layer)
        key = f"{kind} {pass_name}".strip()
        group = groups.setdefault(key, {"seconds": 0.0, "limit_s": 0.0})
        group["seconds"] += row["seconds"]
        group["limit_s"] += row["limit_s"] or 0.0
    return groups


def layers(ours, batch, kind, lines, rates, **shape):
    """Where the time of a step goes, with steps issued one by one."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "trace.json")
        ours.train(batch, kind, 8, "--trace", path, "--traced-steps", 5, **shape)
        trace = json.loads(path.read_text(encoding="utf-8"))
    rows = layer_rows(trace, lines, rates.get("flops"), rates.get("bytes_per_s"), ours.moved)
    missing = set(counts(lines)) - {row["step"] for row in rows}
    groups = grouped(rows)
    slowest = max(groups, key=lambda name: groups[name]["seconds"])
    total = sum(row["seconds"] for row in rows)
    return Outcome("fail" if missing else "measured", f"{total * 1e3:.2f} ms one by one; most in {slowest}, "
                   f"{groups[slowest]['seconds'] / total:.0%}; {len(missing)} steps are not in the trace",
                   "", {"groups": groups, "steps": rows})


# ---- predicted against measured ----

# Batches that are predicted, and those that the device is calibrated with; each of these has plans
# to be found, if nobody asked for that batch before.
PREDICTED = {None: ([256], [96, 512]), "all": ([32, 64, 128, 256, 512], [24, 96, 384, 640])}

# A machine of one such device; of it only the device counts where one rank runs.
PLATFORM = """extends: {root}/platforms/dgx-h200.yaml
name: calibrated
description: "one device, as calibrate device measured it"
device: {device}
"""


def calibrate(program, kind, file, networks, batches, threads):
    """Measure the device, into @file.  @return a platform of it, beside."""
    run([program, "calibrate", "device", "--device", "cuda", "--precision", kind,
         "--networks", networks, "--batch", ",".join(map(str, batches)), "--threads",
         threads, "--repeats", 4, "--strict", "--budget", 500, "-o", file])
    path = os.path.join(os.path.dirname(file), "calibrated.yaml")
    with open(path, "w", encoding="utf-8") as platform:
        platform.write(PLATFORM.format(root=os.environ["FORETRAIN_DATADIR"], device=file))
    return path


def predict(program, job, platform, batch, kind, **shape):
    """The seconds of a step that predict says."""
    return last_object(run(
        [program, "predict", job, "--json", "--backend", "analytic", "--set",
         f"cluster.platform={platform}", *settings(batch, kind, **shape)]).stdout)["step_s"]


def judge_predictions(predicted, measured):
    """Both by batch."""
    rows = [{"batch": batch, "predicted_s": predicted[batch], "measured_s": measured[batch],
             "error": predicted[batch] / measured[batch] - 1} for batch in sorted(predicted)]
    worst = max(rows, key=lambda row: abs(row["error"]))
    return Outcome("pass" if abs(worst["error"]) <= 0.05 else "fail",
                   f"{worst['error']:+.1%} at batch {worst['batch']}, the worst of {len(rows)}",
                   "<= 5 %", {"rows": rows})
