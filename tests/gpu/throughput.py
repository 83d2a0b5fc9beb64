"""Training speed, ours and PyTorch's, in windows that take turns; where our step's time goes."""
import json
import os
import re
import selectors
import statistics
import subprocess
import time

from report import Failure, Outcome, end_group, last_object

WINDOWS = 3  # of each variant, taking turns
AIM = 1.3    # ours / PyTorch's
# 63601 images/s on 8 H200.  Source: MLPerf Training v4.0, NVIDIA, h200_ngc24.04_mxnet.
PUBLISHED = {"NVIDIA H200": 7950}


class PyTorch:
    """The server, started long before it is needed, since it compiles for a while."""

    def __init__(self, python, folder, options, log, environment=None):
        self.captured = None  # what was said of the batch that is captured now
        with open(log, "w", encoding="utf-8") as err:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                [python, os.path.join(folder, "pytorch_server.py"), *options],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, env=environment,
                start_new_session=True)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)

    def read_line(self, seconds):
        """One line, or Failure after so many seconds."""
        line, end = b"", time.monotonic() + seconds
        while not line.endswith(b"\n"):
            if not self.selector.select(max(end - time.monotonic(), 0)):
                raise Failure("PyTorch did not answer in time")
            part = self.process.stdout.readline()
            if not part:
                raise Failure("PyTorch's process has ended: pytorch.txt says why")
            line += part
        return json.loads(line)

    def ask(self, words, seconds):
        """The answer to @words."""
        try:
            self.process.stdin.write((words + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failure("PyTorch's process has ended: pytorch.txt says why") from None
        reply = self.read_line(seconds)
        if "error" in reply:
            raise Failure(f"PyTorch: {reply['error']}")
        return reply


    def capture(self, batch, seconds):
        """Have all variants of a batch ready."""
        if not self.captured or self.captured["batch"] != batch:
            self.captured = None
            self.captured = self.ask(f"capture {batch}", seconds)
        return self.captured

    def close(self):
        """End it and what it started."""
        end_group(self.process)


def settings(batch, kind, network="resnet50", image=224):
    """--set options of one of our variants."""
    wanted = [f"model.network={network}", f"model.image={image}",
              f"model.precision.compute={kind}", f"model.precision.gradients={kind}",
              f"training.phases=[{{epochs: 90, global_batch: {batch}}}]"]
    return [word for setting in wanted for word in ("--set", setting)]


class Ours:
    """The real program on the job of experiments/04_gpu."""

    def __init__(self, runner, program, job, device, threads, warm):
        self.runner, self.warm = runner, warm
        self.words = [program, "train", job, "--device", device, "--threads", threads, "--quiet",
                      "--json"]

    def train(self, batch, kind, steps, *more, **shape):
        """What a run of so many steps says."""
        return self.runner.json([*self.words, "--steps", steps, *settings(batch, kind, **shape),
                                 *more])

    def window(self, batch, kind, steps, **shape):
        """Seconds of each of @steps, after those that warm up: plans are read, graphs noted."""
        result = self.train(batch, kind, self.warm + steps, **shape)
        return [step["step_s"] for step in result["step"][self.warm:]]


def rate(batch, windows):
    """Images per second: the median of the medians of windows, and the range of these."""
    each = sorted(batch / statistics.median(window) for window in windows)
    return {"images_per_s": statistics.median(each), "lowest": each[0], "highest": each[-1]}


def best_of(rates):
    """(name, rate) of the fastest."""
    name = max(rates, key=lambda key: rates[key]["images_per_s"])
    return name, rates[name]


def interleave(ours, pytorch, batch, steps, kinds, clock, windows_each=WINDOWS, **shape):
    """Windows of ours and PyTorch's, in turns.  @return (ours, PyTorch's, what capture said)."""
    try:
        said = pytorch.capture(batch, clock.left() / 2)
    except Failure as failure:  # ours is worth measuring all the same
        said = {"batch": batch, "variants": [], "failed": {"all": str(failure)}}
    windows = {name: [] for name in [*kinds, *said["variants"]]}
    for _ in range(windows_each):
        for kind in kinds:
            windows[kind].append(ours.window(batch, kind, steps, **shape))
        for name in said["variants"]:
            seconds = pytorch.ask(f"window {name} {steps}", clock.left())["seconds"]
            windows[name].append(seconds)
    rates = {name: rate(batch, each) for name, each in windows.items()}
    return ({kind: rates[kind] for kind in kinds},
            {name: rates[name] for name in said["variants"]}, said)


def kernel_limit(lines, flops, bytes_per_s):
    """Seconds of a step if every one of its kernels ran at the rate of its bottleneck: what
    `foretrain show schedule` counts, at rates the device reaches."""
    return sum(max(int(match[1]) / flops, int(match[2]) / bytes_per_s)
               for match in re.finditer(r"(\d+) FLOP, (\d+) B", lines))


# Counts do not depend on the platform; this one's software merges batch norm, ReLU and add into one
# kernel and leaves convolutions alone, which is the traffic of our device.
MERGED = ["--set", "cluster.platform=abci", "--set", "cluster.software=nnl-2018"]


def schedule(runner, program, job, batch, **shape):
    """The steps of an iteration in 16 bits as text."""
    return runner.run([program, "show", "schedule", job, *settings(batch, "fp16", **shape),
                       *MERGED]).stdout


def judge(batch, ours, theirs, rates, limit_s, gpu):
    """Figures of one batch size."""
    our_name, our_best = best_of(ours)
    if not theirs:
        return Outcome("fail", f"{our_best['images_per_s']:.0f} images/s ({our_name}); PyTorch has "
                       "none", f"ratio >= {AIM}", {"batch": batch, "ours": ours, "rates": rates})
    their_name, their_best = best_of(theirs)
    ratio = our_best["images_per_s"] / their_best["images_per_s"]
    data = {"batch": batch, "ours": ours, "pytorch": theirs, "ratio": ratio, "rates": rates}
    figure = (f"{our_best['images_per_s']:.0f} images/s ({our_name}), PyTorch "
              f"{their_best['images_per_s']:.0f} ({their_name}), ratio {ratio:.2f}")
    if limit_s:
        data["limit_images_per_s"] = batch / limit_s
        data["fraction_of_limit"] = our_best["images_per_s"] * limit_s / batch
        figure += f", {data['fraction_of_limit']:.0%} of the kernels' limit"
    published = PUBLISHED.get(gpu)
    if published:
        data["published_images_per_s"] = published
        figure += f", {our_best['images_per_s'] / published:.0%} of MLPerf's"
    return Outcome("pass" if ratio >= AIM else "fail", figure, f"ratio >= {AIM}", data)


# ---- where the time goes ----

def compute_events(trace):
    """(name, step id, seconds) of each traced step of the compute lane, iteration by iteration."""
    return [(event["name"], event["args"]["step id"], event["dur"] * 1e-6)
            for event in trace["traceEvents"]
            if event.get("ph") == "X" and event.get("tid") == 0 and event.get("pid") == 0
            and "step id" in event.get("args", {})]


def layer_rows(trace, lines, flops, bytes_per_s):
    """Per step of the schedule: name, seconds (median of the traced iterations), seconds at the
    kernels' limit."""
    seconds = {}
    for name, step, took in compute_events(trace):
        seconds.setdefault((step, name), []).append(took)
    counts = {int(match[1]): (int(match[2]), int(match[3])) for match in
              re.finditer(r"^ *(\d+) .*?(\d+) FLOP, (\d+) B", lines, re.MULTILINE)}
    rows = []
    for (step, name), took in sorted(seconds.items()):
        flop, moved = counts.get(step, (0, 0))
        limit = max(flop / flops, moved / bytes_per_s) if flops else None
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


def layer_table(rows):
    """As text, by what is done and by layer, the slowest first."""
    total = sum(row["seconds"] for row in rows) or 1e-30
    lines = [f"{'what':<34} {'ms':>8} {'share':>6} {'limit ms':>9}"]
    by_kind = sorted(grouped(rows).items(), key=lambda item: -item[1]["seconds"])
    for name, group in by_kind:
        lines.append(f"{name:<34} {group['seconds'] * 1e3:8.3f} {group['seconds'] / total:6.1%} "
                     f"{group['limit_s'] * 1e3:9.3f}")
    lines.append("")
    for row in sorted(rows, key=lambda row: -row["seconds"]):
        lines.append(f"{row['name']:<34} {row['seconds'] * 1e3:8.3f} "
                     f"{row['seconds'] / total:6.1%} {(row['limit_s'] or 0) * 1e3:9.3f}")
    return "\n".join(lines)


def layers(ours, batch, kind, directory, lines, rates, **shape):
    """A table of where the time of a step goes, with steps issued one by one."""
    path = os.path.join(directory, f"trace-{kind}-{batch}.json")
    ours.train(batch, kind, 8, "--trace", path, "--traced-steps", 5, **shape)
    with open(path, encoding="utf-8") as file:
        rows = layer_rows(json.load(file), lines, rates.get("flops"), rates.get("bytes_per_s"))
    if not rows:
        raise Failure("the trace has no compute steps")
    with open(os.path.join(directory, f"layers-{kind}-{batch}.txt"), "w",
              encoding="utf-8") as file:
        file.write(layer_table(rows) + "\n")
    groups = grouped(rows)
    slowest = max(groups, key=lambda name: groups[name]["seconds"])
    total = sum(row["seconds"] for row in rows)
    return Outcome("measured", f"{total * 1e3:.2f} ms one by one; most in {slowest}, "
                   f"{groups[slowest]['seconds'] / total:.0%}", "", {"groups": groups,
                                                                     "steps": rows})


# ---- predicted against measured ----

PREDICTED = [32, 64, 128, 256, 512]
CALIBRATED = [24, 96, 384, 640]  # other batches than those that are predicted

# A machine of one such device; of it only the device counts where one rank runs.
PLATFORM = """extends: {root}/platforms/dgx-h200.yaml
name: calibrated
description: "one device, as calibrate device measured it"
device: {device}
"""


def calibrate(runner, program, device, kind, directory, networks, batches, threads):
    """Measure the device.  @return a platform of it."""
    file = os.path.join(directory, "calibrated-device.yaml")
    runner.run([program, "calibrate", "device", "--device", device, "--precision", kind,
                "--networks", networks, "--batch", ",".join(map(str, batches)), "--threads",
                threads, "--repeats", 4, "-o", file])
    path = os.path.join(directory, "calibrated.yaml")
    with open(path, "w", encoding="utf-8") as platform:
        platform.write(PLATFORM.format(root=runner.environment["FORETRAIN_DATADIR"], device=file))
    return path


def predict(runner, program, job, platform, batch, kind, **shape):
    """The seconds of a step that predict says."""
    said = last_object(runner.run(
        [program, "predict", job, "--json", "--backend", "analytic", "--set",
         f"cluster.platform={platform}", *settings(batch, kind, **shape)]).stdout)
    return said["step"]["time_s"]


def judge_predictions(predicted, measured):
    """Both by batch."""
    rows = [{"batch": batch, "predicted_s": predicted[batch], "measured_s": measured[batch],
             "error": predicted[batch] / measured[batch] - 1} for batch in sorted(predicted)]
    worst = max(rows, key=lambda row: abs(row["error"]))
    return Outcome("pass" if abs(worst["error"]) <= 0.05 else "fail",
                   f"{worst['error']:+.1%} at batch {worst['batch']}, the worst of {len(rows)}",
                   "<= 5 %", {"rows": rows})
