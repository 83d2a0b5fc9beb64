#!/usr/bin/python3
"""Fit software profiles to jobs that ran on one node.

usage: published_fit.py DIR [--to DIR] [--overwrite] [--without FAMILY] [--json]

DIR has jobs that say measured.step and measured.software, as `published.py --jobs DIR` writes them; those on several
nodes are left out.  --to writes a profile for each software, for cluster.software; --without predicts the runs of a
family of devices ("H100") instead of fitting to them.

One efficiency is fitted per device and software, and one cost per kernel for software with CUDA graphs and one for
software without: seconds = slowest * (roof / efficiency + kernels * cost) + exchange.  The logarithms of both are
fitted to the logarithm of the seconds by Gauss and Newton, with weights after Huber, so that a disturbed run does not
shift the others.  Runs of one batch size cannot separate the two: a cost stays near PRIOR unless the runs determine it.
Roof, kernels, the slowest of several devices and the exchange are foretrain's own, by libforetrain.
"""
import argparse
import collections
import dataclasses
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import numpy
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "app" / "library"))
import foretrain  # noqa: E402 pylint: disable=wrong-import-position

PROGRAM = os.environ.get("FORETRAIN") or next(
    (str(path) for path in (ROOT / "build" / "foretrain", ROOT.parents[1] / "bin" / "foretrain") if path.exists()), "foretrain")
# Cost of a kernel, without knowledge from runs [s].  Assumed: 2 to 5 us to launch a kernel or to start it from a
# graph, and about as much for its ramp-up and tail.  Then the standard deviation of its logarithm.
PRIOR, PRIOR_SD = 8e-6, 0.5
# A fit of few runs would otherwise look more certain than runs repeat.
RESIDUAL_LEAST = 0.005
ROUND_SD = 0.05  # change of an efficiency from one round of MLPerf to the next
NORMAL = 1.4826  # a standard deviation over the median of the distances
# Coefficient of variation of a device's step time.
# Source: published throughput of one against eight devices (NVIDIA DeepLearningExamples MXNet: V100 1376 and 1340
# images/s each, A100 3410 and 3334): 2.0 % longer without the all-reduce, over the expected maximum of eight normals.
JITTER = 0.014
PLENTY = '{value: 999 TB, source: "none", kind: assumed}'  # whatever ran did fit
BEGIN = "# Written by: experiments/published_fit.py"
ORDER = ["none", "pointwise", "bn-relu", "stats", "mainloop", "ideal"]  # of fusion
# Two that differ in the layout of pictures alone.
LAST, FIRST = "pytorch", "pytorch-nchw"

# NCCL: as shipped in that month's NGC container (recalled; 2.21 is in the logs of v4.0).
#
# The rest: NVIDIA's configurations in mlcommons/training_results_v0.6 ... v4.0 and those of Dell and HPE:
# MXNET_HOROVOD_NUM_GROUPS, MXNET_EXPERIMENTAL_ENABLE_CUDA_GRAPH, MXNET_ENABLE_CUDA_GRAPHS and NETWORK.
# resnet-v1b-fl merges normalize, add and ReLU; -normconv-fl (v0.6, 208 images), -dbar-fl (v0.7, V100, 208) and
# -stats-fl (A100, 408; 204 from v1.0) have statistics in the convolution.  Small batches train resnet-v1b-fl: 65 in
# v0.6; 45, 65 and 204 in v0.7; 15, 16 and 128 later.
#
# H100 trains it with 16 and 50 images, too.  Assumed: its on-chip memory (50 MB of L2, as much in the
# multiprocessors) then holds what batch norm reads twice, so that the memory traffic is that of -mainloop-fl, which
# reads everything once.
#
# PyTorch's weights stay in fp32 under autocast, and so do the gradients that DistributedDataParallel sums, in buckets
# of 25 MiB (pages of torch.amp and DistributedDataParallel).
#
# v0.5 and v0.6 start all-reduces during the backward pass, whose batch norm is a persistent kernel: little or nothing
# of them progresses before its end (groups_of() of published_mlperf.py).
#
# What overlap and launches cost NNL, whose run was on one node with 192 images, where all-reduces are short.  The
# geometric mean of two ends, with a spread that puts 90 % between them; neither is from a run on several nodes.  The
# runs of the other profiles are of whole nodes with their all-reduces, and NVIDIA's later tables and CUDA graphs
# leave no launch out.
NNL_OVERLAP = """\
compute_slowdown: {value: 10 %, spread: 84 %, source: "between 2 of 80 multiprocessors, the fewest that NCCL holds \
(Jeaugey on github.com/NVIDIA/nccl, June 2022), and 40 %, the most measured in nodes of 4 A100, H100, MI210 or MI250, \
where 18.9 % is the mean (Lee et al., arXiv 2507.03114)", kind: assumed}
communication_slowdown: {value: 5.5 %, spread: 103 %, source: "between 1 %, assumed where messages wait for a network \
card, and 30 %, as Galvatron measured inside a node (README of its overlap test)", kind: assumed}
collective_launch: {value: 11.5 us, spread: 34 %, source: "between 6.6 us, NCCL's own base latency of a ring by LL \
(src/graph/tuning.cc), and 20 us, a launch on V100 in NVIDIA's blog (Understanding the Visualization of Overhead and \
Latency in NVIDIA Nsight Systems)", kind: assumed}
"""


@dataclasses.dataclass
class Era:
    """Facts of a software that runs do not show."""
    description: str = "as calibrated"
    nccl: int = 221          # 100 * major + minor
    graph: bool = False      # CUDA graphs
    groups: int = 1          # all-reduces per step within a node
    groups_at_scale: int = 1  # and between nodes
    overlap: bool = False    # they start during the backward pass
    volta: str = "ideal"     # fusion on compute capability 70
    fusion: str = "ideal"    # highest fusion on others, if their libraries support it
    small: int = 0           # images per device up to which it merges only normalize, add and ReLU, before capability 90
    costs: str = ""          # lines of its profile on overlap
    wide: bool = False       # gradients travel in fp32, else in fp16


def ngc(month, name, year, nccl, *more):
    """Of a round of MLPerf."""
    return Era(f"MXNet of NGC {month}, MLPerf Training {name} ({year})", nccl, *more)


ERAS = {
    "mlperf-v0.5": ngc("18.11", "v0.5", 2018, 203, False, 20, 20, False, "bn-relu", "bn-relu"),
    "mlperf-v0.6": ngc("19.05", "v0.6", 2019, 204, False, 20, 16, False, "stats", "bn-relu", 128),
    "mlperf-v0.7": ngc("20.06", "v0.7", 2020, 207, True, 20, 1, False, "stats", "stats", 204),
    **{f"mlperf-v{name}": ngc(month, f"v{name}", year, nccl, True, 1, 1, False, "stats", "ideal", 128)
       for name, month, year, nccl in (("1.0", "21.05", 2021, 209), ("1.1", "21.09", 2021, 211), ("2.0", "22.04", 2022, 212),
                                       ("2.1", "22.08", 2022, 212), ("3.0", "23.04", 2023, 217), ("3.1", "23.09", 2023, 218),
                                       ("4.0", "24.04", 2024, 221))},
    LAST: Era("PyTorch with mixed precision and channels last, kernel by kernel", 221, False, 4, 4, True, "none", "none",
              wide=True),
    FIRST: Era("PyTorch with mixed precision in its default layout, channels first", 221, False, 4, 4, True, "none",
               "none", wide=True),
    "nnl-2018": Era("Sony Neural Network Libraries, mixed precision (2018)", 203, False, 13, 13, True, "bn-relu", "bn-relu",
                    costs=NNL_OVERLAP),
}


def era_of(software):
    """Its facts; of an unknown one those of none."""
    return ERAS.get(software, Era())


def refuse(text, code=65):
    """End with the message."""
    print(f"error: {text}", file=sys.stderr)
    sys.exit(code)


def run(*words, code=None):
    """What foretrain prints; its refusals are this program's."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        sys.exit(code or done.returncode)
    return done.stdout


# ---- runs ----

@dataclasses.dataclass
class Run:
    """One run, and what the fit needs of it."""
    file: str
    platform: str    # a name or a path
    device: str
    software: str
    nodes: int
    devices: int     # per node
    batch: int       # images per device
    seconds: float   # of a step
    startup: float   # beside epochs and evaluations [s]; None: not given
    doubtful: bool   # it counts only where no other of its software and device does
    roof: float = 0.0      # time of all kernels at the full roofline [s]
    kernels: float = 0.0   # how many
    slowest: float = 1.0   # time of the slowest device as a multiple of the mean
    exchange: float = 0.0  # the all-reduces within the node [s]

    def predict(self, efficiency, cost):
        """Its step [s]."""
        return self.slowest * (self.roof / efficiency + self.kernels * cost) + self.exchange


def to_seconds(text):
    """Of "163.7 ms"."""
    number, unit = re.fullmatch(r"(-?[\d.eE+-]+) *(s|ms|us|min|h)", str(text)).groups()
    return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6, "min": 60, "h": 3600}[unit]


def read_run(path):
    """A run of a job file, which foretrain checks."""
    run("check", path, "--set", "device.memory=" + PLENTY)
    job = yaml.safe_load(path.read_text(encoding="utf-8"))
    cluster, measured, phase = job["cluster"], job.get("measured", {}), job["training"]["phases"][0]
    software = measured.get("software", cluster.get("software"))
    if "step" not in measured:
        refuse(f"{path}: nothing was measured: a run says measured.step")
    if not software:
        refuse(f"{path}: which software ran? say measured.software")
    name = str(cluster["platform"])
    platform = str(path.parent / name) if name.endswith(".yaml") else name
    about = json.loads(run("show", "platform", platform, "--json"))
    devices, nodes = cluster.get("devices_per_node", about["devices_per_node"]), cluster.get("nodes", 1)
    batch = phase.get("batch_per_device") or phase["global_batch"] // (nodes * devices)
    return Run(path.name, platform, about["device"], software, nodes, devices, batch, to_seconds(measured["step"]),
               to_seconds(measured["startup"]) if "startup" in measured else None, measured.get("doubtful", False))


def read_runs(folder):
    """Those of a folder, in the order of their files."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".yaml")
    except OSError as fault:
        refuse(f"cannot read folder {folder}: {fault.strerror}", 66)
    return [read_run(path) for path in paths] or refuse(f"{folder}: there is no job in this folder")


# ---- what foretrain knows of them ----

class Model:
    """Roofs, kernels, exchanges and devices by libforetrain; each is asked for once."""

    def __init__(self, folder):
        self.folder, self.known, self.about, self.profiles = folder, {}, {}, {}

    def once(self, key, function, *words):
        """The function's value."""
        if key not in self.known:
            self.known[key] = function(*words)
        return self.known[key]

    def device(self, name):
        """Its compute capability and the fusion that its libraries support."""
        def ask():
            told = json.loads(run("show", "device", name, "--json"))
            return told["compute_capability"], told["fusion"]
        return self.once(("device", name), ask)

    def fusion(self, run_or_device, software, batch):
        """Of a software on a device with so many images."""
        era, (capability, own) = era_of(software), self.device(run_or_device)
        most = era.volta if software in ERAS and capability == 70 else min(own, era.fusion, key=ORDER.index)
        return min(most, "bn-relu", key=ORDER.index) if batch <= self.small(run_or_device, software) else most

    def small(self, device, software):
        """The images up to which it merges less; 0: never."""
        return era_of(software).small if self.device(device)[0] < 90 else 0

    def kept(self, software):
        """The lines of the profile that is there which no run tells: kinds of kernels and how PyTorch runs them."""
        def ask():
            path = pathlib.Path(os.environ.get("FORETRAIN_DATADIR", ROOT)) / "platforms" / "software" / f"{software}.yaml"
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            parts = re.findall(r"(?m)^(\w+):(.*\n(?: .*\n)*)", text)
            return {key: f"{key}:{rest}" for key, rest in parts if key in ("launch", "tf32", "loss", "kinds")}
        return self.once(("kept", software), ask)

    def profile(self, fusion, microseconds, kinds):
        """A file of software at the full roofline."""
        def write():
            path = self.folder / f"{len(self.known)}.yaml"
            assumed = 'source: "none", kind: assumed}'
            path.write_text(f"version: 1\nname: full\ndescription: full\nnccl: 221\ngroups: 1\noverlap: none\n"
                            f"jitter: {{value: 0 %, {assumed}\n{kinds}fallback:\n  fusion: {fusion}\n"
                            f"  efficiency: {{value: 100 %, {assumed}\n  kernel_overhead: {{value: {microseconds} us, "
                            f"{assumed}\n  efficiency_sd: 1 %\n  overhead_sd: 1 %\n  residual: 1 %\n  rows: 0\n", encoding="utf-8")
            return path
        return self.once(("profile", fusion, microseconds, kinds), write)

    def step(self, one, fusion, microseconds, kinds, devices=1, noise=0.0):
        """A step of ResNet-50 on the devices of a node without their exchange [s]."""
        job = ("version: 1\nmodel: {network: resnet50, precision: {compute: fp16, gradients: fp16, master: fp32}}\n"
               f"cluster: {{platform: {json.dumps(one.platform)}, nodes: 1, devices_per_node: {devices}, "
               f"software: {json.dumps(str(self.profile(fusion, microseconds, kinds)))}}}\n"
               f"training: {{dataset: imagenet, phases: [{{epochs: 1, batch_per_device: {one.batch}}}], optimizer: {{name: lars}}}}\n"
               f"allreduce: {{algorithm: {'nccl' if devices > 1 else 'ring'}, overlap: none}}\nnoise: {{compute_cv: {noise}}}\n")
        told = foretrain.predict("job.yaml", text=job, values={"platform.device": one.device, "device.memory": PLENTY})
        return told["step_s"] - told["step"]["exposed_communication_s"]

    def exchange(self, one, era):
        """Its all-reduces within the node, one after the other [s]."""
        if one.devices < 2:
            return 0.0
        gradients = (4 if era.wide else 2) * 25557032  # parameters of ResNet-50
        path = self.folder / f"nccl-{era.nccl}.yaml"
        path.write_text(self.profile("none", 0, "").read_text(encoding="utf-8").replace("nccl: 221", f"nccl: {era.nccl}"),
                        encoding="utf-8")
        told = json.loads(run("collective", "--platform", one.platform, "--nodes=1", f"--grid={one.devices}x1", "--algorithm=nccl",
                              f"--bytes={gradients // era.groups}B", "--backend=analytic", f"--software={path}", "--json"))
        return era.groups * told["rows"][0]["time_s"]

    def describe(self, one):
        """Fill what the fit needs of a run."""
        fusion, kinds = self.fusion(one.device, one.software, one.batch), self.kept(one.software).get("kinds", "")
        one.roof = self.once((one.device, fusion, one.batch, kinds), self.step, one, fusion, 0, kinds)
        one.kernels = self.once(("kernels", fusion), lambda: round(
            1e6 * (self.step(one, fusion, 1, kinds) - self.step(one, fusion, 0, kinds))))
        one.slowest = self.once(("slowest", one.devices), lambda: self.step(one, fusion, 0, kinds, one.devices, JITTER) /
                                self.step(one, fusion, 0, kinds, one.devices))
        one.exchange = self.exchange(one, era_of(one.software))


# ---- the fit ----

@dataclasses.dataclass
class Group:
    """A device as software drives it."""
    software: str
    device: str
    rows: list = dataclasses.field(default_factory=list)
    efficiency: float = 0.0
    efficiency_sd: float = 0.0
    cost: float = 0.0
    cost_sd: float = 0.0
    correlation: float = 0.0
    residual: float = 0.0


@dataclasses.dataclass
class Fit:
    """The answer."""
    folder: str
    model: Model
    groups: list     # by software, then device
    rows: list       # fitted
    checks: list     # left out by family
    excess: list     # (software, seconds) of the runs that have one
    several: int     # left out: more than one node
    doubtful: int    # left out: others of their software and device are better known
    devices: list    # names
    softwares: list
    residual: float = 0.0
    costs: tuple = ()     # without and with CUDA graphs: (cost, its deviation)
    pool: tuple = ()      # efficiency of devices without runs, and its deviation


def solve(groups):
    """Parameters, covariance and residual: logarithms of the efficiencies, then of both costs."""
    rows = [(g, one) for g, group in enumerate(groups) for one in group.rows]
    index, n = numpy.array([g for g, _ in rows]), len(groups)
    kind = numpy.array([n + era_of(one.software).graph for _, one in rows])
    roof, kernels, slowest, exchange, seconds = (numpy.array([getattr(one, name) for _, one in rows]) for name in (
        "roof", "kernels", "slowest", "exchange", "seconds"))
    for late in numpy.flatnonzero(seconds <= exchange):
        refuse(f"{rows[late][1].file} lasts {seconds[late]:g} s, but its all-reduce alone lasts {exchange[late]:g} s")
    compute = (seconds - exchange) / slowest
    explained = roof / numpy.maximum(compute - kernels * PRIOR, 0.1 * compute)
    x = numpy.log([*(statistics.median(explained[index == g]) for g in range(n)), PRIOR, PRIOR])
    count = numpy.bincount(index)
    freedom = (total := count[count > 1].sum()) / (total - (count > 1).sum()) if (count > 1).any() else 1

    def errors(x):
        predicted = slowest * (roof / numpy.exp(x[index]) + kernels * numpy.exp(x[kind])) + exchange
        return numpy.concatenate([numpy.log(predicted / seconds), x[n:] - math.log(PRIOR)]), predicted

    def jacobian(x, predicted):
        slope, row = numpy.zeros((len(rows) + 2, n + 2)), numpy.arange(len(rows))
        slope[row, index] = -slowest * roof / numpy.exp(x[index]) / predicted
        slope[row, kind] = slowest * kernels * numpy.exp(x[kind]) / predicted
        slope[[-2, -1], [n, n + 1]] = 1
        return slope

    for _ in range(12):  # Source: Huber, Robust Estimation of a Location Parameter, 1964; 1.345 for 95 % efficiency
        error = numpy.abs(errors(x)[0][:len(rows)])
        repeated = error[count[index] > 1]
        residual = max(NORMAL * (numpy.median(repeated) if len(repeated) else 0) * math.sqrt(freedom), RESIDUAL_LEAST)
        weight = numpy.sqrt(numpy.append(numpy.minimum(1, 1.345 / numpy.maximum(error / residual, 1e-9)) / residual ** 2,
                                         [PRIOR_SD ** -2] * 2))
        for _ in range(100):
            value, predicted = errors(x)
            slope = jacobian(x, predicted)
            step = numpy.linalg.lstsq(slope * weight[:, None], -value * weight, rcond=None)[0]
            x = x + step
            if numpy.abs(step).max() < 1e-12:
                break
        else:
            refuse("the fit does not converge")
    slope = jacobian(x, errors(x)[1]) * weight[:, None]
    return x, numpy.linalg.inv(slope.T @ slope), residual


def conclude(fit):
    """Fill the groups and the pool."""
    x, covariance, fit.residual = solve(fit.groups)
    sd, n = numpy.sqrt(numpy.diag(covariance)), len(fit.groups)
    fit.costs = tuple((math.exp(x[n + k]), sd[n + k]) for k in (0, 1))
    for g, group in enumerate(fit.groups):
        k = n + era_of(group.software).graph
        group.efficiency, group.cost, group.efficiency_sd, group.cost_sd = math.exp(x[g]), math.exp(x[k]), sd[g], sd[k]
        group.correlation = covariance[g, k] / (sd[g] * sd[k])
        # A few rows say little about their repeatability, so the spread of all rows is included as one more.
        squares = sum(math.log(one.predict(group.efficiency, group.cost) / one.seconds) ** 2 for one in group.rows)
        group.residual = math.sqrt((fit.residual ** 2 + squares) / len(group.rows))
    values = [math.log(group.efficiency) for group in fit.groups if group.software.startswith("mlperf-")]
    values = values or [math.log(group.efficiency) for group in fit.groups]
    middle = statistics.median(values)
    # At least a tenth, since no run of the device is known.
    fit.pool = math.exp(middle), max(NORMAL * statistics.median(abs(value - middle) for value in values), 0.1)


def make(runs, folder, without, model):
    """Fit to the runs that count."""
    alone = [one for one in runs if one.nodes == 1]
    trusted = {(one.software, one.device) for one in alone if not one.doubtful}
    usable = [one for one in alone if not (one.doubtful and (one.software, one.device) in trusted)]
    family = re.compile(re.escape(without) + r"(-|$)", re.I) if without else None
    groups, checks = {}, []
    for one in usable:
        model.describe(one)
        if family and family.match(one.device):
            checks.append(one)
        else:
            groups.setdefault((one.software, one.device), Group(one.software, one.device)).rows.append(one)
    if not groups:
        refuse(f"{folder}: no run on one node")
    if without and not checks:
        refuse(f"--without: there is no run on one node of family '{without}'", 64)
    groups = [groups[key] for key in sorted(groups)]
    fit = Fit(folder, model, groups, [one for group in groups for one in group.rows], checks,
              [(one.software, one.startup) for one in usable if one.startup is not None], len(runs) - len(alone),
              len(alone) - len(usable), sorted({one.device for one in usable}), sorted({one.software for one in usable}))
    conclude(fit)
    return fit


def startup_of(fit, software):
    """Seconds, runs and which those are: of a round of MLPerf, the median excess of its runs, else of those of its
    era (launching kernels the same way), else of all; None of other software, whose runs have another clock."""
    kin = ((lambda other: other == software, "under it"),
           (lambda other: era_of(other).graph == era_of(software).graph, "of its era"), (lambda other: True, "of all rounds"))
    for is_kin, name in kin if software.startswith("mlperf-") else ():
        values = [seconds for other, seconds in fit.excess if is_kin(other)]
        if values:
            return max(0.0, statistics.median(values)), len(values), name
    return None


# ---- profiles ----

def quoted(text):
    """A text as YAML has it."""
    if re.fullmatch(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*", text) and text != "null":
        return text
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'


def quantity(indent, key, value, source):
    """A line of a number with its source."""
    return f"{' ' * indent}{key}: {{value: {value}, source: {quoted(source)}, kind: published}}\n"


def numbers(indent, efficiency, cost, source):
    """Both numbers of one fit."""
    return (quantity(indent, "efficiency", f"{100 * efficiency:.4g} %", source) +
            quantity(indent, "kernel_overhead", f"{1e6 * cost:.4g} us", source))


def round_of(software):
    """1.1 of "mlperf-v1.1"."""
    return float(software.removeprefix("mlperf-v"))


def nearest(fit, device, software):
    """The group of a device under the software, else under MLPerf's of the nearest round if it is one of those, the
    later of two; or None."""
    own = [group for group in fit.groups if (group.device, group.software) == (device, software)]
    if own or not software.startswith("mlperf-"):
        return own[0] if own else None
    others = [group for group in fit.groups if group.device == device and group.software.startswith("mlperf-")]
    return min(reversed(others), key=lambda group: abs(round_of(group.software) - round_of(software)), default=None)


Layout = collections.namedtuple("Layout", "ratio sd devices")  # devices: that have both; 0: the ratio is not known


def find_layout(fit, software):
    """What pictures in the software's layout cost; nothing, if it is none of the two."""
    pairs = [(first, nearest(fit, first.device, LAST)) for first in fit.groups if first.software == software == FIRST]
    values = [math.log(first.efficiency / last.efficiency) for first, last in pairs if last]
    if not values:
        return Layout(1, 0, 0)
    # Assumed of one device: twice the deviation reaches to no difference.
    return Layout(math.exp(statistics.fmean(values)),
                  statistics.stdev(values) if len(values) > 1 else abs(values[0]) / 2, len(values))


def layout_source(fit, layout):
    """Where an efficiency in the other layout comes from."""
    return (f"as under {LAST}; efficiency times the ratio of {FIRST} to it on {layout.devices} "
            f"device{'s' * (layout.devices > 1)} in {fit.folder}")


def plural(count):
    """3 runs."""
    return f"{count} run{'s' * (count != 1)}"


def group_lines(fit, group, software, layout):
    """A group for the software, which is in another layout (None: in the same)."""
    own = group.software == software
    source = (f"published_fit.py: {fit.folder}, round {software}, {plural(len(group.rows))} on one node" if own else
              layout_source(fit, layout) if layout else f"as under {group.software}, the nearest in {fit.folder}")
    most, small = (fit.model.fusion(group.device, group.software, batch) for batch in (math.inf, 1))
    images = fit.model.small(group.device, group.software)
    sd = math.hypot(group.efficiency_sd, 0 if own else layout.sd if layout else ROUND_SD)
    return (f"  - device: {group.device}\n    fusion: {most}\n" +
            (f"    small_batch: {images}\n    small_fusion: {small}\n" if images else "") +
            numbers(4, group.efficiency * (layout.ratio if layout else 1), group.cost, source) +
            f"    efficiency_sd: {100 * sd:.3g} %\n    overhead_sd: {100 * group.cost_sd:.3g} %\n"
            f"    correlation: {group.correlation * group.efficiency_sd / sd:.3f}\n"
            f"    residual: {100 * group.residual:.3g} %\n    rows: {len(group.rows) if own else 0}\n")


def fallback_lines(fit, software, layout):
    """What a device without runs is given: as the devices that have some under the software, if it is none of
    MLPerf's and there are two or more, else as all of MLPerf's.  GeForce cards run above the clock of their data
    sheets: they say nothing of other devices."""
    like, era = LAST if layout.devices else software, era_of(software)
    same = [] if like.startswith("mlperf-") else [math.log(group.efficiency) for group in fit.groups
                                                   if group.software == like and not group.device.startswith("rtx-")]
    own = len(same) > 1
    source = layout_source(fit, layout) if layout.devices else (
        f"published_fit.py: {'mean of its devices' if own else 'median of all devices'} in {fit.folder}")
    cost, cost_sd = fit.costs[era.graph]
    return ("\n# Of a device without runs; as the device file says, where fusion is not given.\nfallback:\n" +
            ("  fusion: none\n" if era.fusion == "none" else "") +
            numbers(2, layout.ratio * (math.exp(statistics.fmean(same)) if own else fit.pool[0]), cost, source) +
            f"  efficiency_sd: {100 * math.hypot(fit.pool[1], layout.sd):.3g} %\n  overhead_sd: {100 * cost_sd:.3g} %\n"
            f"  residual: {100 * fit.residual:.3g} %\n  rows: 0\n")


def geforce_lines(fit, software):
    """What a GeForce card without runs is given: as those that have some under the software, if it is none of MLPerf's."""
    era = era_of(software)
    same = [math.log(group.efficiency) for group in fit.groups
            if group.software == software and group.device.startswith("rtx-") and not software.startswith("mlperf-")]
    if not same:
        return ""
    cost, cost_sd = fit.costs[era.graph]
    source = f"published_fit.py: mean of {len(same)} such card{'s' * (len(same) != 1)} in {fit.folder}"
    return (f"  - device: rtx-*\n    fusion: {era.fusion}\n" + numbers(4, math.exp(statistics.fmean(same)), cost, source) +
            f"    efficiency_sd: {100 * fit.pool[1]:.3g} %\n    overhead_sd: {100 * cost_sd:.3g} %\n"
            f"    residual: {100 * fit.residual:.3g} %\n    rows: 0\n")


def profile(fit, software):
    """The text of a file of platforms/software."""
    era, layout, startup = era_of(software), find_layout(fit, software), startup_of(fit, software)
    lines = [f"{BEGIN} {quoted(fit.folder)}\nversion: 1\nname: {quoted(software)}\n"
             f"description: {quoted(era.description)}\nnccl: {era.nccl}\n"
             f"groups: {era.groups_at_scale}\noverlap: {'backward' if era.overlap else 'none'}\n",
             "gradients: fp32\n" if era.wide else "",
             quantity(0, "jitter", f"{100 * JITTER:.3g} %", "NVIDIA DeepLearningExamples, MXNet ResNet-50: one device against "
                      "eight, V100 and A100"), era.costs]
    if startup:
        lines.append(quantity(0, "startup", f"{startup[0]:.4g} s", f"published_fit.py: {fit.folder}, median of "
                              f"{plural(startup[1])} {startup[2]} on one node: all but epochs and evaluations"))
    lines += [f"without_layout: {LAST}\n" if layout.devices else "", *fit.model.kept(software).values(),
              fallback_lines(fit, software, layout), "\nfits:\n"]
    for device in fit.devices:
        if group := nearest(fit, device, software):
            lines.append(group_lines(fit, group, software, None))
        elif layout.devices and (group := nearest(fit, device, LAST)):
            lines.append(group_lines(fit, group, software, layout))
    return "".join([*lines, geforce_lines(fit, software)])


def write_profiles(fit, folder, overwrite):
    """Every file is looked at before the first is written."""
    folder.mkdir(exist_ok=True)
    for software in fit.softwares:
        path = folder / f"{software}.yaml"
        if "/" in software:
            refuse(f"software '{software}' cannot be the name of a file")
        if path.exists() and not overwrite and not path.read_text(encoding="utf-8").startswith(BEGIN):
            refuse(f"{path} exists, and no calibration wrote it: --overwrite replaces it", 73)
    for software in fit.softwares:
        (folder / f"{software}.yaml").write_text(profile(fit, software), encoding="utf-8")


# ---- the answer ----

def print_text(fit, without, to):
    """For people."""
    row = "{:<14} {:<22} {:<9} {:>4} {:7.1f} % +- {:4.1f} {:8.2f} us +- {:4.1f}"
    print(f"{'software':<14} {'device':<22} {'fusion':<9} {'runs':>4} {'efficiency':>16} {'per kernel':>18} {'residual':>9}")
    for g in fit.groups:
        print(row.format(g.software, g.device, fit.model.fusion(g.device, g.software, math.inf), len(g.rows),
                         100 * g.efficiency, 100 * g.efficiency * g.efficiency_sd, 1e6 * g.cost, 1e6 * g.cost * g.cost_sd),
              f"{100 * g.residual:7.1f} %")
    efficiency, sd, (cost, cost_sd) = *fit.pool, fit.costs[1]
    print(row.format("any", "(a device without runs)", "", "", 100 * efficiency, 100 * efficiency * sd, 1e6 * cost,
                     1e6 * cost * cost_sd))
    print(f"\n{len(fit.rows)} runs fitted, median error {100 * median_error(fit):.1f} %"
          + (f"; {fit.several} on several nodes left out" if fit.several else "")
          + (f"; {fit.doubtful} in doubt left out" if fit.doubtful else ""))
    if fit.checks:
        print(f"\npredicted from the data sheet, without any run of {without}:")
        rows = [check_row(fit, one) for one in fit.checks]
        for one in rows:
            print("{job:<24} {software:<14} {device:<16} batch {batch_per_device:4d}  {:8.2f} ms, measured {:8.2f} ms, "
                  "{:+6.1f} %".format(1e3 * one["predicted_s"], 1e3 * one["measured_s"], 100 * one["error"], **one))
        print(f"{len(rows)} runs, median error {100 * statistics.median(abs(one['error']) for one in rows):.1f} %")
    if to:
        print(f"{len(fit.softwares)} profiles written to {to}")


def median_error(fit):
    """Of the fitted rows."""
    return statistics.median(abs(one.predict(group.efficiency, group.cost) / one.seconds - 1)
                             for group in fit.groups for one in group.rows)


def check_row(fit, one):
    """A run left out, predicted from its device's data sheet."""
    predicted = one.predict(fit.pool[0], fit.costs[era_of(one.software).graph][0])
    return {"job": one.file, "software": one.software, "device": one.device, "batch_per_device": one.batch,
            "predicted_s": predicted, "measured_s": one.seconds, "error": predicted / one.seconds - 1}


def answer(fit, to):
    """For programs."""
    return {"fits": [{"software": g.software, "device": g.device, "fusion": fit.model.fusion(g.device, g.software, math.inf),
                      "runs": len(g.rows), "efficiency": g.efficiency, "efficiency_sd": g.efficiency_sd,
                      "kernel_overhead_s": g.cost, "overhead_sd": g.cost_sd, "correlation": g.correlation,
                      "residual": g.residual} for g in fit.groups],
            "startup_s": {name: startup[0] for name in fit.softwares if (startup := startup_of(fit, name))},
            "runs": len(fit.rows), "left_out_several_nodes": fit.several, "left_out_in_doubt": fit.doubtful,
            "median_error": median_error(fit), "residual": fit.residual,
            "checks": [check_row(fit, one) for one in fit.checks], "profiles_written": len(fit.softwares) if to else 0}


def main():
    """Fit, write, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR", help="jobs that ran")
    parser.add_argument("--to", type=pathlib.Path, metavar="DIR", help="write a profile for each software")
    parser.add_argument("--overwrite", action="store_true", help="replace files that no calibration wrote, too")
    parser.add_argument("--without", metavar="FAMILY", help="predict the runs of that family instead")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fit = make(read_runs(options.folder), options.folder.resolve().name, options.without, Model(pathlib.Path(folder)))
        if options.to:
            write_profiles(fit, options.to, options.overwrite)
        if options.json:
            print(json.dumps(answer(fit, options.to), indent=1))
        else:
            print_text(fit, options.without, options.to)


if __name__ == "__main__":
    main()
