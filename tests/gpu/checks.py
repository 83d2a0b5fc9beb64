"""One check of the acceptance for GPUs: a test of suite gpu.

Usage: checks.py [--software] NAME [WORD...]

Prints what it runs to standard error, then its verdict and its figures as JSON, and in the last line what
the figure is.  With --software it is tiny, on the device in software, beside PyTorch on the CPU.
Programs are beside $FORETRAIN; $PYTHON, or the Python that runs this, has PyTorch.

Exit status 0, 1, or 77 with the reason in the last line.
"""
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import shutil
import signal
import statistics
import sys
import tempfile
import time

import harness
import machine
import sanitize
import throughput
from report import Failure, Outcome, Skip, last_object, run

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
BUILD = pathlib.Path(harness.PROGRAM).parent
SYNTHETIC = ROOT / "experiments" / "04_gpu" / "resnet50.yaml"
PROCEDURAL = ROOT / "experiments" / "03_learning" / "procedural.yaml"
SOFTWARE = sys.argv[1:2] == ["--software"]
GPU = {}  # what machine.gpu() finds
TORCH = "cpu" if SOFTWARE else "cuda"
PYTHON = os.environ.get("PYTHON", sys.executable)
STEP, EXECUTOR, INPUT = (BUILD / name for name in (
    ("tests/gpu/device_step_software", "tests/gpu/foretrain-exec-software", "tests/gpu/input_check_software")
    if SOFTWARE else ("tests/exec/device_step", "foretrain-exec", "tests/gpu/input_check")))
THREADS = 1 if SOFTWARE else min(4, os.cpu_count() or 1)
# (network, image) of the benchmarks, their type, and steps of a window.
SHAPE = {"network": "resnet18", "image": 32} if SOFTWARE else {"network": "resnet50", "image": 224}
KIND = "bf16" if SOFTWARE else "fp16"
STEPS = 3 if SOFTWARE else 40
WINDOW_SECONDS = 1000 if SOFTWARE else 160  # for all windows of a batch
CROPPED = 0.01  # levels of 255: sums of the filter are rounded in another order
# Four ranks against one.  As on the CPU (tests/exec/test_learning.py): what is left is the order of summation.
TOLERANCE = 2e-3
# Source: NVIDIA's NCCL user guide, environment variables; getHostHash() in NCCL 2.28.9.  In containers Open MPI's
# copies between processes fail ("Read -1, expected ..."): https://github.com/open-mpi/ompi/issues/4948
LOOPBACK = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
            "NCCL_IB_DISABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_DEBUG": "WARN",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


# ---- against PyTorch ----

def compare(what, kind, *words):
    """What compare.py prints."""
    said = last_object(run([PYTHON, FOLDER / "compare.py", what, "--type", kind, "--torch", TORCH, "--program", STEP,
                            *words]).stdout)
    if "skip" in said:
        raise Skip(said["skip"])
    return said


def gradients(kind):
    """ResNet-50, one step, in one type."""
    shape = ["--network", "resnet18", "--batch", 4] if SOFTWARE else ["--network", "resnet50", "--batch", 32]
    said = compare("gradients", kind, "--image", 64, *shape)
    ours, theirs = said["ours"], said["pytorch"]
    worst = max(2e-2, 1.5 * theirs["gradients"]["worst"]) if theirs else 2e-2
    good = (ours["gradients"]["whole"] <= 2e-2 and ours["scores"] <= 2e-2
            and ours["gradients"]["worst"] <= worst)
    figure = (f"gradient {ours['gradients']['whole']:.2g}, worst tensor "
              f"{ours['gradients']['worst']:.2g}, scores {ours['scores']:.2g}")
    if theirs:
        figure += (f" (PyTorch's {theirs['gradients']['whole']:.2g}, "
                   f"{theirs['gradients']['worst']:.2g}, {theirs['scores']:.2g})")
    return Outcome("pass" if good else "fail", figure, f"2e-2, 2e-2; tensor {worst:.2g}", said)


def small():
    """resnet20 against fp64."""
    said = compare("gradients", KIND, "--network", "resnet20", "--image", 32, "--batch", 4 if SOFTWARE else 64,
                   "--classes", 10)
    apart = said["ours"]["gradients"]["whole"]
    return Outcome("pass" if apart <= 1e-2 else "fail", f"gradient {apart:.2g} from fp64", "<= 1e-2", said)


def losses():
    """Many steps from the same weights on the same images."""
    shape = (["--network", "resnet8", "--image", 16, "--batch", 8, "--steps", 6, "--classes", 10]
             if SOFTWARE else ["--network", "resnet50", "--image", 64, "--batch", 32, "--steps", 50])
    first = None
    for seed in (0, 1):
        said = compare("losses", KIND, "--batches", 8, "--shift", 0, "--rate", 0.02, "--scale", 128, "--seed", seed,
                       *shape)
        figure = f"{said['distance']:.2g} from PyTorch's runs over {said['steps']} steps"
        if first:
            figure += (f"; once repeated, with other weights and images: at first "
                       f"{first['distance']:.2g}, more than {first['spread']:.2g}")
            said["first"] = first
        if said["distance"] <= said["spread"]:
            break
        first = first or said
    return Outcome("pass" if said["distance"] <= said["spread"] else "fail", figure,
                   f"<= their spread {said['spread']:.2g}", said)


# ---- training ----

def train(*words, ranks=0, **environment):
    """What a run of the job of 03_learning prints."""
    return last_object(run(harness.on_ranks(ranks, EXECUTOR, "train", PROCEDURAL, "--device", "cuda", "--quiet",
                                            "--json", "--threads", THREADS, *words), **environment).stdout)


def learning():
    """From start to end."""
    said = train()
    top1 = said["top1"] or 0.0
    return Outcome("pass" if top1 >= 0.97 else "fail",
                   f"top-1 {top1:.1%} after {said['steps']} steps, loss {said['loss_last']:.3f}", ">= 97 %",
                   {"top1": top1, "loss": said["loss_last"], "seconds": said["seconds"]})


def ranks():
    """Four ranks on one GPU, on a grid of 2 x 2 over loopback sockets, against one.

    NCCL refuses two ranks on one GPU of one machine, so foretrain-exec gives each a NCCL_HOSTID of its own, and
    they talk as if from machine to machine.  That shows that rows, columns and blocks are right; it says nothing
    of speed.
    """
    if not shutil.which("mpirun"):
        raise Skip("mpirun (package openmpi-bin) is not installed")
    steps = 3 if SOFTWARE else 12
    grid = [word for setting in ("cluster.nodes=2", "cluster.devices_per_node=2",
                                 "allreduce={algorithm: torus2d, grid: {columns: 2, rows: 2}}")
            for word in ("--set", setting)]
    alone, together = ([step["loss"] for step in train("--steps", steps, *words, ranks=count, **LOOPBACK)["step"]]
                       for count, words in ((1, []), (4, grid)))
    apart = max(abs(a / b - 1) for a, b in zip(together, alone))
    good = len(together) == len(alone) == steps and apart <= TOLERANCE
    return Outcome("pass" if good else "fail", f"losses of {len(together)} steps on 2x2 within {apart:.2g}",
                   f"<= {TOLERANCE}", {"one": alone, "four": together})


# ---- input ----

def pictures():
    """Pictures that the device crops, against the CPU's, and how many it takes in without training."""
    if not INPUT.exists():
        raise Skip("libjpeg was missing when this was built")
    words = [16, 8, 32, 1, 0.2] if SOFTWARE else [1024, 256, 224, os.cpu_count() or 1, 5]
    return judge_pictures(last_object(run([INPUT, *words]).stdout))


def judge_pictures(said):
    """The verdict on what input_check printed."""
    good = all(way["labels"] and way["worst"] <= CROPPED for way in said["ways"])
    figure = ", ".join(f"{way['name']} {way['images_per_s']:.0f} images/s, "
                       f"{way['mean']:.2g} levels from the CPU's" for way in said["ways"])
    return Outcome("pass" if good else "fail", figure, f"{CROPPED} levels at worst", said)


# ---- speed ----

def ours():
    """Our trainer."""
    return throughput.Ours(EXECUTOR, SYNTHETIC, THREADS, 2 if SOFTWARE else throughput.WARM)


def schedule(batch, merged):
    """The steps of an iteration, as text."""
    return throughput.schedule(harness.PROGRAM, SYNTHETIC, batch, merged, **SHAPE)


def plans(batch, kind=KIND, image=SHAPE["image"]):
    """Finding the fastest engine of every convolution, which a file keeps."""
    begin, trainer = time.monotonic(), ours()
    said = trainer.train(batch, kind, 3, **{**SHAPE, "image": image})
    figure = (f"{time.monotonic() - begin:.0f} s to find plans, memory and graphs included; "
              f"loss {said['loss_last']:.3f}")
    if trainer.faulty:
        figure += f"; engines are wrong or refused in {trainer.faulty} searches: see the log"
    return Outcome("measured", figure)


def speed(batch, kind=None):
    """Ours against PyTorch's best on one batch size, or in another type alone."""
    batch, trainer = int(batch), ours()
    if kind:
        rate = throughput.rate(batch, [trainer.window(batch, kind, STEPS, **SHAPE) for _ in range(throughput.WINDOWS)])
        return Outcome("measured", f"{rate['images_per_s']:.0f} images/s", "", rate)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ending:
        path = os.environ.get("FORETRAIN_PYTORCH")
        if not path:
            path = f"{folder}/socket"
            server = throughput.serve(PYTHON, path, f"{folder}/log", "--device", TORCH, "--batches", batch, "--network",
                                      SHAPE["network"], "--image", SHAPE["image"], "--seconds", 200)
            ending.callback(server.kill)
            server.stdout.readline()
        theirs, rates = throughput.PyTorch(path), {}
        with contextlib.suppress(Failure):  # capture says it
            theirs.ask("variants", 180)
            rates = theirs.ask("rates", 30)
        mine, best, said = throughput.interleave(trainer, theirs, batch, STEPS, KIND, WINDOW_SECONDS,
                                                 1 if SOFTWARE else throughput.WINDOWS, **SHAPE)
    limits = {merged: throughput.kernel_limit(schedule(batch, merged), **rates)
              for merged in throughput.MERGED if rates}
    if rates and trainer.moved:
        limits["the plans chosen"] = throughput.kernel_limit(
            schedule(batch, "convolutions with batch norm"), **rates, moved=trainer.moved)
    outcome = throughput.judge(batch, mine, best, rates, limits, GPU.get("name"))
    outcome.data["failed"] = said["failed"]
    return outcome


def tuned(batch):
    """Windows of ours with --tune and without, in turns."""
    batch, windows = int(batch), ([], [])
    for _ in range(2):
        for more, taken in zip(([], ["--tune"]), windows):
            taken.append(ours().window(batch, KIND, STEPS, *more, **SHAPE))
    plain, rate = (throughput.rate(batch, taken) for taken in windows)
    gain = rate["images_per_s"] / plain["images_per_s"]
    return Outcome("measured", f"{rate['images_per_s']:.0f} images/s, {gain:.3f} times as fast as without --tune", "",
                   {"tuned": rate, "plain": plain})


def layers(batch):
    """Where the time of a step goes."""
    rates = {}
    with contextlib.suppress(Failure, KeyError):  # no limits are known without it
        rates = throughput.PyTorch(os.environ["FORETRAIN_PYTORCH"]).ask("rates", 30)
    return throughput.layers(ours(), int(batch), KIND, schedule(batch, "plain convolutions"), rates, **SHAPE)


def predicted(which=None):
    """Step times from a device file, calibrated with other batches."""
    wanted, used = throughput.PREDICTED[which]
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/device.yaml"
        platform = throughput.calibrate(harness.PROGRAM, KIND, file, f"{SHAPE['network']}@{SHAPE['image']}", used,
                                        THREADS)
        if "OUT" in os.environ:
            shutil.copy(file, os.environ["OUT"])
        return throughput.judge_predictions(
            {batch: throughput.predict(harness.PROGRAM, SYNTHETIC, platform, batch, KIND, **SHAPE) for batch in wanted},
            {batch: statistics.median(ours().window(batch, KIND, STEPS, **SHAPE)) for batch in wanted})


CHECKS = {"plans": plans, "gradients": gradients, "losses": losses, "small": small, "learning": learning,
          "ranks": ranks, "throughput": speed, "layers": layers, "tuned": tuned, "input": pictures,
          "predicted": predicted,
          **{tool: functools.partial(sanitize.train, tool, EXECUTOR, PROCEDURAL, ROOT) for tool in sanitize.OPTIONS}}


def main():
    """Check and print."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # of meson, out of time: what the command printed is worth logging
    name, *words = sys.argv[1 + SOFTWARE:]
    try:
        if not SOFTWARE:
            GPU.update(machine.gpu())
        outcome = CHECKS[name](*words)
    except (Skip, machine.NoGpu) as reason:
        harness.skip(reason)
    except Failure as failure:
        outcome = Outcome("fail", str(failure))
    print(json.dumps(dataclasses.asdict(outcome)))
    print(f"{outcome.verdict}: {outcome.figure}" + (f" ({outcome.limit})" if outcome.limit else ""))
    sys.exit(outcome.verdict == "fail")


if __name__ == "__main__":
    main()
