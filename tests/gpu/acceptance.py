"""Build for this machine's GPU, test on it, train on it, measure it: acceptance.sh's parts.

Usage: acceptance.sh [--out DIRECTORY] [--carried DIRECTORY] [--build DIRECTORY] [--seconds N]
                     [--only PART,PART]

Every part has its own limit of time and goes on after a failure; all together take at most
--seconds (540), and parts for which no time is left are skipped: docs/gpu.md has three calls that
hold what matters.  The table is printed at the end, DIRECTORY/acceptance.json written after each
part, log.txt there holds every command and what it said.  Plans of convolutions are kept beside the
build, and come from --carried where there are none yet.

Exit status 0: nothing failed; 1: something did; 69: nothing can be built here; 77: no GPU.
"""
import argparse
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import threading
import time

import machine
import pictures
import ranks
import sanitize
import throughput
import toolchain
from report import Clock, Failure, Outcome, Report, Runner, Skip, run_part

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(__file__).resolve().parent
SYNTHETIC = ROOT / "experiments" / "04_gpu" / "resnet50.yaml"
PROCEDURAL = ROOT / "experiments" / "03_learning" / "procedural.yaml"
# What the machine happens to have decides nothing but MPI, which the four ranks ask for.
OPTIONS = [*(f"-D{part}=disabled" for part in ("simgrid", "onednn", "docs", "hwloc")),
           *(f"-D{part}=enabled" for part in ("cuda", "gsl", "jpeg")),
           "--buildtype=release", "-Db_ndebug=false"]  # assertions are there on a real GPU, too
# Programs of CI on the real device, and their part.
TESTS = {"kernels": ["test_kernels_gpu", "test_kernels_ends_gpu", "test_kernels_weights_gpu"],
         "whole device": ["test_device_cuda_gpu", "test_device_cuda_alone_gpu",
                          "test_device_cuda_whole_gpu"]}
CONVOLUTIONS = "tests/cuda/test_conv_gpu"
TARGETS = ["foretrain", "foretrain-exec", "tests/exec/device_step", pictures.PROGRAM, CONVOLUTIONS,
           *(f"tests/gpu/{name}" for names in TESTS.values() for name in names)]
# What pinned.c says where a GPU cannot be handed the stack.
NO_STACK = "cannot pin the stack"
NO_GPU = {"name": "none", "capability": "90"}  # where this program itself is tested


class Acceptance:
    """What the parts share."""

    def __init__(self, options, environment):
        self.options, self.environment = options, environment
        self.here = threading.local()  # clock and runner of the part at work on this thread
        self.build = pathlib.Path(options.build).resolve()
        self.tiny = options.tiny
        self.kinds = ["bf16"] if options.torch == "cpu" else ["fp16", "bf16"]
        # (network, image) of the benchmarks, and their batches.
        self.shape = {"network": "resnet18", "image": 32} if self.tiny else {
            "network": "resnet50", "image": 224}
        self.batches = [4] if self.tiny else [256, 512]
        self.server = None
        self.rates = {}  # what copies and matrix products reach on this device
        self.measured = {}  # step times [s] by batch, of the fastest type

    def wants(self, name):
        """Whether a part is to be run: a named one with what belongs to it ("name: more")."""
        if name == "pytorch":
            return any(self.wants(f"throughput {batch}") for batch in self.batches)
        only = self.options.only
        return not only or name in only or name.split(":")[0] in only

    def begin(self, clock):
        """A part begins on this thread."""
        self.here.clock = clock
        self.here.runner = Runner(clock, self.options.out, self.environment)

    @property
    def clock(self):
        """Of the part."""
        return self.here.clock

    @property
    def runner(self):
        """Of the part."""
        return self.here.runner

    def program(self, name):
        """One of ours; with --software, the one whose device is in software."""
        software = {"foretrain-exec": "tests/gpu/foretrain-exec-software",
                    "tests/exec/device_step": "tests/gpu/device_step_software",
                    pictures.PROGRAM: f"{pictures.PROGRAM}_software"}
        return str(self.build / (software.get(name, name) if self.options.software else name))

    # ---- build and tests of the project's own ----

    def build_all(self):
        """Configure and compile for the device's architecture."""
        if self.options.built:
            raise Skip("built before")
        meson = toolchain.program("meson", "mesonbuild.mesonmain")
        again = ["--reconfigure"] if (self.build / "build.ninja").exists() else []
        self.runner.run([*meson, "setup", *again, self.build, ROOT, *OPTIONS,
                         f"-Dgpu_arch={self.options.capability}"])
        programs = [os.path.relpath(self.program(name), self.build) for name in TARGETS]
        self.runner.run([*toolchain.program("ninja", "ninja"), "-C", self.build, *TARGETS,
                         *sorted(set(programs) - set(TARGETS))])
        return Outcome("pass", f"for compute capability {self.options.capability}")

    def test_programs(self, names):
        """CI's test programs, on the device."""
        def part():
            passed, failed, skipped = 0, [], []
            for name in names:
                # Random networks beyond a few show no more, and each has plans to be found.
                done = self.runner.run([self.program(f"tests/gpu/{name}")], check=False,
                                       FORETRAIN_TEST_NETWORKS="3")
                lines = (done.stdout + done.stderr).strip().split("\n")
                passed += sum(line.startswith("[       OK ]") for line in lines)
                if done.returncode == 77:
                    skipped.append(lines[-1])
                elif done.returncode:
                    which = [line[12:].strip() for line in lines if line.startswith("[  FAILED  ]")]
                    failed.append(f"{name}: {which[-1] if which else lines[-1][:100]}"
                                  f" (exit {done.returncode})")
            if failed:
                raise Failure("; ".join(failed))
            if self.options.torch == "cuda" and any(NO_STACK not in why for why in skipped):
                raise Failure(skipped[0])  # there is a GPU, and they could not use it
            if skipped:
                raise Skip(skipped[0])
            return Outcome("pass", f"{passed} tests", "all pass", {"passed": passed})
        return part

    def convolutions(self):
        """Plans of cuDNN alone, of every op; the log has engine and time of each."""
        done = self.runner.run([self.program(CONVOLUTIONS)], check=False)
        last = (done.stdout + done.stderr).strip().split("\n")[-1]
        return Outcome("fail" if done.returncode else "pass", last[:160], "0 faults")

    # ---- against PyTorch ----

    def compare(self, what, *words):
        """What compare.py says."""
        said = self.runner.json([
            self.options.python, FOLDER / "compare.py", what, "--device", self.options.device,
            "--torch", self.options.torch, "--program", self.program("tests/exec/device_step"),
            *words])
        if "skip" in said:
            raise Skip(said["skip"])
        return said

    def gradients(self, kind):
        """ResNet-50, one step, in one type."""
        def part():
            shape = ["--network", "resnet18", "--image", 64, "--batch", 4] if self.tiny else [
                "--network", "resnet50", "--image", 64, "--batch", 32]
            said = self.compare("gradients", "--type", kind, *shape)
            ours, theirs = said["ours"], said["pytorch"]
            worst = max(2e-2, 1.5 * theirs["gradients"]["worst"]) if theirs else 2e-2
            good = (ours["gradients"]["whole"] <= 2e-2 and ours["scores"] <= 2e-2
                    and ours["gradients"]["worst"] <= worst)
            figure = (f"gradient {ours['gradients']['whole']:.2g}, worst tensor "
                      f"{ours['gradients']['worst']:.2g}, scores {ours['scores']:.2g}")
            if theirs:
                figure += (f" (PyTorch's {theirs['gradients']['whole']:.2g}, "
                           f"{theirs['gradients']['worst']:.2g}, {theirs['scores']:.2g})")
            return Outcome("pass" if good else "fail", figure,
                           f"2e-2, 2e-2; tensor {worst:.2g}", said)
        return part

    def small_net(self):
        """resnet20 against fp64."""
        said = self.compare("gradients", "--type", self.kinds[0], "--network", "resnet20",
                            "--image", 32, "--batch", 4 if self.tiny else 64, "--classes", 10)
        apart = said["ours"]["gradients"]["whole"]
        return Outcome("pass" if apart <= 1e-2 else "fail", f"gradient {apart:.2g} from fp64",
                       "<= 1e-2", said)

    def losses(self):
        """Many steps from the same weights on the same images."""
        shape = (["--network", "resnet8", "--image", 16, "--batch", 8, "--steps", 6, "--classes",
                  10, "--runs", 2] if self.tiny else
                 ["--network", "resnet50", "--image", 64, "--batch", 32, "--steps", 50])
        first = None
        for seed in (0, 1):
            said = self.compare("losses", "--type", self.kinds[0], "--batches", 8, "--shift", 0,
                                "--rate", 0.02, "--scale", 128, "--seed", seed, *shape)
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

    def learning(self):
        """procedural.yaml from start to end."""
        steps = ["--steps", 2] if self.tiny else []
        said = self.runner.json([self.program("foretrain-exec"), "train", PROCEDURAL, "--device",
                                 self.options.device, "--quiet", "--json", "--threads",
                                 self.options.threads, *steps])
        top1 = said["top1"] or 0.0
        return Outcome("pass" if top1 >= 0.97 else "fail",
                       f"top-1 {top1:.1%} after {said['steps']} steps, loss "
                       f"{said['loss_last']:.3f}", ">= 97 %",
                       {"top1": top1, "loss": said["loss_last"], "seconds": said["seconds"]})

    def four_ranks(self):
        """Four ranks on one GPU, on a grid of 2 x 2, against one."""
        steps = 3 if self.tiny else 12
        return ranks.compare(self.runner, self.program("foretrain-exec"), PROCEDURAL,
                             self.options.device, steps, self.options.threads)

    def sanitizer(self, tool):
        """A small net under compute-sanitizer."""
        return lambda: sanitize.run(self.runner, tool, self.program("foretrain-exec"), PROCEDURAL,
                                    self.options.device, ROOT)

    # ---- input ----

    def input(self):
        """Pictures, and how many of them the device takes in without training."""
        program = self.program(pictures.PROGRAM)
        if not os.path.exists(program):  # a build directory of the user's
            raise Skip("libjpeg was missing when this was built")
        words = [16, 8, 32, 1, 0.2] if self.tiny else [1024, 256, 224, os.cpu_count() or 1, 5]
        return pictures.judge(self.runner.json([program, *words]))

    # ---- speed ----

    def pytorch(self):
        """PyTorch's server compiles, and from then on rests but when asked: whatever is timed after
        this part has the device for itself."""
        batches = [str(batch) for batch in self.batches if self.wants(f"throughput {batch}")]
        words = ["--device", self.options.torch, "--network", self.shape["network"], "--image",
                 str(self.shape["image"]), "--batches", ",".join(batches), "--seconds",
                 str(self.clock.left() - 60)]
        self.server = throughput.PyTorch(self.options.python, str(FOLDER), words,
                                         os.path.join(self.options.out, "pytorch.txt"))
        said = self.server.wait(self.clock.left())
        self.rates = self.server.ask("rates", self.clock.left())
        return Outcome("measured", f"{said['compiled']} variants compiled, {said['failed']} failed")

    def ours(self):
        """Our trainer."""
        return throughput.Ours(self.runner, self.program("foretrain-exec"), SYNTHETIC,
                               self.options.device, self.options.threads,
                               2 if self.tiny else throughput.WARM)

    def schedule(self, batch, merged):
        """The steps of an iteration, as text."""
        return throughput.schedule(self.runner, self.program("foretrain"), SYNTHETIC, batch, merged,
                                   **self.shape)

    def plans(self, batch, kind, **shape):
        """Finding the fastest engine of every convolution, which a file keeps."""
        def part():
            begin, ours = time.monotonic(), self.ours()
            said = ours.train(batch, kind, 3, **{**self.shape, **shape})
            figure = (f"{time.monotonic() - begin:.0f} s to find plans, memory and graphs included; "
                      f"loss {said['loss_last']:.3f}")
            if ours.faulty:
                figure += f"; engines are wrong or refused in {ours.faulty} searches: log.txt"
            return Outcome("measured", figure)
        return part

    def throughput(self, batch):
        """Ours against PyTorch's best on one batch size."""
        def part():
            steps, kind = 3 if self.tiny else 40, self.kinds[0]
            trainer = self.ours()
            ours, theirs, said = throughput.interleave(
                trainer, self.server, batch, steps, [kind], self.clock,
                1 if self.tiny else throughput.WINDOWS, **self.shape)
            self.measured[batch] = batch / ours[kind]["images_per_s"]
            limits = {merged: throughput.kernel_limit(self.schedule(batch, merged), **self.rates)
                      for merged in throughput.MERGED if self.rates}
            if self.rates and trainer.moved:
                limits["the plans chosen"] = throughput.kernel_limit(
                    self.schedule(batch, "convolutions with batch norm"), **self.rates,
                    moved=trainer.moved)
            outcome = throughput.judge(batch, ours, theirs, self.rates, limits)
            outcome.data["failed"] = said["failed"]
            return outcome
        return part

    def published(self, batch):
        """The same beside what others reached on such a GPU."""
        def part():
            if batch not in self.measured:
                raise Skip("no throughput was measured")
            return throughput.judge_published(batch / self.measured[batch],
                                              self.options.gpu.get("name"))
        return part

    def throughput_alone(self, batch, kind, windows, *more):
        """Ours in another type, or with further options, beside ours without."""
        def part():
            steps = 3 if self.tiny else 40
            rate = throughput.rate(batch, [self.ours().window(batch, kind, steps, *more,
                                                              **self.shape)
                                           for _ in range(windows)])
            figure = f"{rate['images_per_s']:.0f} images/s"
            if more and batch in self.measured:
                gain = rate["images_per_s"] * self.measured[batch] / batch
                figure += f", {gain:.3f} times as fast as without {' '.join(more)}"
            return Outcome("measured", figure, "", rate)
        return part

    def layers(self):
        """Where the time of a step goes."""
        batch, kind = self.batches[0], self.kinds[0]
        return throughput.layers(self.ours(), batch, kind, f"{self.options.scratch}/trace.json",
                                 self.schedule(batch, "plain convolutions"), self.rates,
                                 **self.shape)

    def predicted(self, wanted, used):
        """Step times of @wanted batches from a device file, calibrated with those @used."""
        def part():
            kind, foretrain = self.kinds[0], self.program("foretrain")
            file = f"{self.options.scratch}/device.yaml"
            platform = throughput.calibrate(
                self.runner, foretrain, self.options.device, kind, file,
                f"{self.shape['network']}@{self.shape['image']}", used, self.options.threads)
            shutil.copy(file, self.options.out)
            predicted = {batch: throughput.predict(self.runner, foretrain, SYNTHETIC, platform,
                                                   batch, kind, **self.shape) for batch in wanted}
            for batch in wanted:
                if batch not in self.measured:
                    self.measured[batch] = statistics.median(
                        self.ours().window(batch, kind, 3 if self.tiny else 40, **self.shape))
            return throughput.judge_predictions(predicted, self.measured)
        return part

    def stages(self):
        """Stages one after the other, lanes of a stage at the same time, each a list of (name,
        limit [s], part).  What is timed runs alone; what must be right comes first.  Limits are
        for plans that are still to be found."""
        first, *others = self.kinds
        small = 4 if self.tiny else 32
        checks = [
            [("kernels", 60, self.test_programs(TESTS["kernels"])),
             ("whole device", 150, self.test_programs(TESTS["whole device"]))],
            [(f"gradients {first}", 150, self.gradients(first)), ("losses", 150, self.losses)],
            [*((f"gradients {kind}", 150, self.gradients(kind)) for kind in others),
             ("small net", 150, self.small_net)],
            [("learning", 60, self.learning), ("memcheck", 60, self.sanitizer("memcheck"))],
            [("convolutions", 120, self.convolutions)],
        ]
        timed = []
        for batch in self.batches:
            timed += [(f"plans {batch}", 180, self.plans(batch, first)),
                      (f"throughput {batch}", 180, self.throughput(batch)),
                      (f"throughput {batch}: images/s", 10, self.published(batch))]
            if batch == self.batches[0]:
                timed += [("layers", 60, self.layers),
                          (f"tuned {batch}", 90, self.throughput_alone(batch, first, 2, "--tune"))]
        timed += [("input", 60, self.input)]
        for kind in others:
            batch = self.batches[0]
            timed += [(f"plans {batch} {kind}", 120, self.plans(batch, kind)),
                      (f"throughput {batch} {kind}", 60,
                       self.throughput_alone(batch, kind, throughput.WINDOWS))]
        tiny = [4], [2, 8]
        last = [("racecheck", 60, self.sanitizer("racecheck")),
                ("predicted", 240, self.predicted(*(tiny if self.tiny else throughput.PREDICTED))),
                ("predicted all", 900, self.predicted(*throughput.PREDICTED_ALL))]
        return [[[("build", 200, self.build_all)], [("pytorch", 240, self.pytorch)]],
                [[("plans 64", 150, self.plans(small, first, image=64))]], checks,
                [[("four ranks", 90, self.four_ranks), *timed, *last]]]


def run_lane(acceptance, lane, report, clock):
    """Parts one after the other."""
    for name, limit, part in lane:
        begin = time.monotonic()
        acceptance.begin(clock.part(limit * acceptance.options.patience))
        report.add(name, run_part(part, acceptance.clock), time.monotonic() - begin)


def run(acceptance, report, clock):
    """All parts that are wanted.  After a build that failed there is nothing to run."""
    for stage in acceptance.stages():
        lanes = [[part for part in lane if acceptance.wants(part[0])] for lane in stage]
        threads = [threading.Thread(target=run_lane, args=(acceptance, lane, report, clock))
                   for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if any(name == "build" and outcome.verdict == "fail" for name, outcome, _ in report.rows):
            return


def read_options():
    """The command line, and what follows from this machine."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", default=os.environ.get("OUT"),
                        help="directory of results ($OUT, or the build directory's with "
                             "-acceptance)")
    parser.add_argument("--carried", default=str(ROOT / "carried"), help="what carry.sh fetched")
    parser.add_argument("--build", default=str(ROOT / "build-gpu"), help="build directory")
    parser.add_argument("--seconds", type=float, default=540, help="for all parts together (540)")
    parser.add_argument("--patience", type=float, default=1,
                        help="times as long as usual a part may take, on a slow machine (1)")
    parser.add_argument("--only", type=lambda text: text.split(","), help="these parts")
    parser.add_argument("--built", action="store_true", help="the build directory is up to date")
    parser.add_argument("--threads", type=int, default=min(4, os.cpu_count() or 1),
                        help="of our programs")
    # For tests of this program on machines without a GPU.
    parser.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    parser.add_argument("--torch", default="cuda", help=argparse.SUPPRESS)
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--software", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.python = sys.executable
    options.out = os.path.abspath(options.out or options.build + "-acceptance")
    return options


def accept(options):
    """Run and report.  @return the exit status."""
    clock = Clock(options.seconds)
    try:
        options.gpu = machine.gpu() if options.torch == "cuda" else NO_GPU
    except machine.NoGpu as reason:
        print(f"no GPU to use here: {reason}")
        return 77
    options.capability = options.gpu.get("capability")
    os.makedirs(options.out, exist_ok=True)
    try:
        work = options.build + "-libraries"
        environment, remarks = (toolchain.environment_of(work), []) if options.built else \
            toolchain.environment_for(options.carried, work)
    except toolchain.Missing as missing:
        print(f"acceptance: {missing}", file=sys.stderr)
        return 69
    environment["XDG_CACHE_HOME"] = toolchain.bring_plans(options.carried, work)
    environment["FORETRAIN_DATADIR"] = str(ROOT)
    acceptance = Acceptance(options, environment)
    unknown = set(options.only or []) - {name for stage in acceptance.stages() for lane in stage
                                         for name, _, _ in lane}
    if unknown:
        print(f"acceptance: no part is called {', '.join(sorted(unknown))}", file=sys.stderr)
        return 64
    report = Report(options.out, {**options.gpu, "command": sys.argv})
    describing = threading.Thread(target=lambda: report.machine.update(
        machine.describe(ROOT, options.python, environment)))
    describing.start()  # for seconds, since PyTorch is asked
    if not options.gpu.get("shared", True):
        remarks.append("this GPU admits one process at a time (nvidia-smi -q -d COMPUTE): "
                       "four ranks, PyTorch beside ours, and lanes will fail")
    report.notes += remarks
    print("".join(f"{remark}\n" for remark in remarks), end="")
    try:
        run(acceptance, report, clock)
    finally:
        if acceptance.server:
            acceptance.server.close()
        toolchain.keep_plans(work, options.out)
        describing.join()
        report.machine["clocks_after"] = machine.clocks()
        report.write()
    print(f"\n{report.table()}\n\n{report.path}")
    return int(report.failed())


def main():
    """Files that nobody needs afterwards are left in a folder that goes."""
    options = read_options()
    with tempfile.TemporaryDirectory() as options.scratch:
        return accept(options)


if __name__ == "__main__":
    sys.exit(main())
