"""`calibrate device` on a machine that is made up: a program in place of foretrain-exec answers
with steps whose cost is known."""
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
import unittest

import support

WITHOUT_GSL = not support.has_gsl()

# A message takes 10 us and carries 2 GB/s in fp32, 1 GB/s in types of 16 bits.  Convolutions reach 40 and 80 GFLOP/s, batch norm moves 8 GB/s, a kernel costs 5 us.
FAKE = """#!{python} -IS
import json, os, pathlib, subprocess, sys, time
time.sleep({sleep})
calls = pathlib.Path(__file__).with_name("calls")
count = int(calls.read_text()) if calls.exists() else 0
calls.write_text(str(count + 1))
pathlib.Path(__file__).with_name("words").write_text(" ".join(sys.argv[1:]))
factors = {factors!r}
factor = factors[min(count, len(factors) - 1)]
if factor is None:
    print("no machine is like that", file=sys.stderr)
    sys.exit(69)
if sys.argv[1] == "start":  # without MPI
    del sys.argv[1:3]
if sys.argv[1] == "collective":
    words = dict(word.partition("=")[::2] for word in sys.argv[2:])
    ranks = int(words["--grid"].partition("x")[0])
    rounds, parts = 2 * (ranks - 1), ranks
    speed = 2e9 if words["--gradients"] == "fp32" else 1e9
    sizes = []
    for size in words["--bytes"].split(","):
        size = int(size.rstrip("B"))
        seconds = 1e-5 + (size / parts / speed if {exchange} else 0)
        sample = dict(time_s=rounds * seconds * ({exchange} or 1) ** count, steal=0, foreign=0,
                      retransmits=0, disturbed=0)
        sizes.append(dict(bytes=size, samples=[sample] * 8))
    print(json.dumps(dict(sizes=sizes)))
    sys.exit()
def arithmetic(batch):
    return 5e-6 + sum(i * 1000000 * batch * (1 / 80e9 + 1 / 40e9) + 2 * i * 10000 * batch / 8e9 + 25e-6
                      for i in range(1, 9))
if sys.argv[1] == "train":
    job, ranks = sys.argv[2], int(os.environ.get("RANKS", 1))
    words = dict(word[2:].partition("=")[::2] for word in sys.argv[3:])
    schedule = json.loads(subprocess.run(
        ["{foretrain}", "show", "schedule", job, "--json", "--set", "cluster.devices_per_node=%d" % ranks],
        stdout=subprocess.PIPE, check=True).stdout)
    compute = [step["id"] for step in schedule["steps"] if step["kind"] == "compute"]
    gradients = sum(step["bytes"] for step in schedule["steps"] if step["kind"] == "collective")
    batch = schedule["steps"][0]["images"]
    rounds = 2 * (ranks - 1) * (1e-5 + gradients / ranks / (2e9 if "gradients: fp32" in
                                                            pathlib.Path(job).read_text() else 1e9))
    count, now, ends, spans = int(words["traced-steps"]), 0, [], []
    for i in range(count):
        mine = [1.1 * factor * arithmetic(batch) * (1 + (-1) ** rank * 0.02 * (2 * i / (count - 1) - 1))
                for rank in range(ranks)]
        update = now + max(mine) + rounds + 200e-6
        for rank in range(ranks):
            spans += [(i, rank, compute[0], now, now + mine[rank] / 2),
                      (i, rank, compute[-2], now + mine[rank] / 2, now + mine[rank]),
                      (i, rank, compute[-1], update, update)]
        ends.append(update)
        now = update + 50e-6
    pathlib.Path(words["spans"]).write_text("\\n".join(
        ["foretrain-trace 1", "backend exec", "grain real",
         "schedule_hash %d" % int(schedule["schedule_hash"], 16), "ranks %d" % ranks,
         "entities %d" % ranks, "messages 0", "iterations %d" % count,
         *("iteration_end %.17g" % end for end in ends), "spans %d" % len(spans),
         *("%d %d %d %.17g %.17g" % span for span in spans)]) + "\\n")
    print("{{}}")
    sys.exit()
words = dict(word.lstrip("-").split("=") for word in sys.argv[2:])
def step(op, layer, shape, amount, flops, size, seconds):
    return dict(name=op, op=op, layer=layer, shape=shape, dtype="fp32", amount=amount, flops=flops,
                bytes=size, kernels=1, time_s=factor * (seconds + 5e-6), spread=0.01)
trials = []
ample = int(words["most"]) > 30000
for batch in map(int, words["batch"].split(",")[:None if ample else 1]):
    for network in words["networks"].split(","):
        steps = []
        own, longer = (network, 2) if network == "vgg11" else ("", 1)
        for i in range(1, 9):
            flops, size = i * 1000000 * batch, 10000 * batch
            steps.append(step("forward", "convolution", "conv %d" % i + own, batch, flops, size,
                              longer * flops / 80e9))
            steps.append(step("backward-filter", "convolution", "conv %d" % i + own, batch, flops, size,
                              longer * flops / 40e9))
            steps.append(step("forward", "batch-norm", "norm %d" % i, batch, 0, i * size,
                              i * size / 8e9))
            for twice in range(2):  # of one shape; one of both has nothing to add up
                steps.append(step("backward-data", "add", "add %d" % i, batch, 0, twice * i * size,
                                  twice * i * size / 8e9))
        steps.append(step("backward-data", "softmax", "nothing", batch, 0, 0, 0))
        trials.append(dict(network=network, image=32, batch=batch, wall_s=1, spread=0, waited=0, iterations=4,
                           input_s=0, between_s=3e-4 * factor, time_s=sum(s["time_s"] for s in steps), steps=steps))
print(json.dumps(dict(schema="foretrain/exec-measure/1", device="cpu", fusion="bn-relu", threads=1,
                      ranks=1, trials=trials, copies=[
                          dict(bytes=2**14, time_s=factor * 2 * 2**14 / 100e9),
                          dict(bytes=2**26, time_s=factor * 2 * 2**26 / {copied})])))
"""

# One process answers for all ranks.
MPIRUN = """#!/bin/sh
while [ "$1" != "{fake}" ]; do [ "$1" = -n ] && export RANKS="$2"; shift; done
exec "$@"
"""

PLATFORM = """\
version: 1
name: here
description: one device
kind: cluster
device: {device}
nodes: 1
node: {{devices: 1}}
transport:
  inside: {{value: 0 us, source: "one device", kind: assumed}}
  between: {{value: 0 us, source: "one device", kind: assumed}}
"""


@unittest.skipIf(WITHOUT_GSL, "built without GSL")
class Machine(support.Case):
    """The front end's part: rounds, fit, file."""

    def calibrate(self, *words, factors=(1,), copied=4e9, kind="device", driver="exit 9",
                  sleep=0, exchange=1):
        """Run it on a machine that answers round by round with its times by these factors, and
        reads and writes @copied bytes/s where it copies 64 MiB; @driver is its nvidia-smi;
        @sleep is what a round really takes [s]; each sweep of messages is @exchange times as long as
        the one before, or all messages are equally fast if that is 0."""
        folder = self.directory / "bin"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        fake = folder / "foretrain-exec"
        fake.write_text(FAKE.format(python=sys.executable, factors=list(factors), copied=copied,
                                    sleep=sleep, exchange=exchange,
                                    foretrain=support.PROGRAM),
                        encoding="utf-8")
        mpirun = folder / "mpirun"
        mpirun.write_text(MPIRUN.format(fake=fake), encoding="utf-8")
        smi = folder / "nvidia-smi"
        smi.write_text("#!/bin/sh\n" + driver + "\n", encoding="utf-8")
        for program in (fake, mpirun, smi):
            program.chmod(0o755)
        return support.run("calibrate", kind, "--batch=8,32", "--networks=resnet20", *words,
                           FORETRAIN_LIBEXEC=str(folder), PATH=f"{folder}:{os.environ['PATH']}")

    def answer(self, *words, **how):
        """The JSON of a calibration that succeeds."""
        done = self.calibrate("--json", *words, **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def predicted(self, *words):
        """The answer for the job on one device, mine.yaml."""
        platform = self.write("here.yaml", PLATFORM.format(device="./mine.yaml"))
        return support.answer(
            "predict", self.job, "--backend=analytic", f"--set=cluster.platform={platform}",
            "--set=cluster.nodes=1", "--set=cluster.devices_per_node=1",
            "--set=model.precision.compute=fp32", "--set=allreduce={overlap: none}", *words)

    def rounds(self):
        """How often the machine was asked."""
        calls = self.directory / "bin" / "calls"
        return int(calls.read_text(encoding="utf-8") or 0) if calls.exists() else 0  # "" while it is being written

    def test_the_fit_finds_what_the_machine_is(self):
        file = self.directory / "mine.yaml"
        result = self.answer("-o", file)
        self.assertEqual((result["schema"], result["written"], result["steps"]),
                         ("foretrain/machine-device/1", str(file), 66))
        self.assertAlmostEqual(result["kernel_overhead_s"] / 5e-6, 1, delta=0.02)
        text = file.read_text(encoding="utf-8")
        peak = float(re.search(r"fp32: \{value: (\S+) GFLOP/s", text)[1])
        classes = {(c["op"], c["layer"]): c for c in result["classes"]}
        self.assertNotIn(("backward-data", "softmax"), classes)
        self.assertAlmostEqual(peak * classes["forward", "convolution"]["efficiency"] / 80, 1,
                               delta=0.02)
        self.assertAlmostEqual(peak * classes["backward-filter", "convolution"]["efficiency"] / 40,
                               1, delta=0.02)
        for name in (("forward", "batch-norm"), ("backward-data", "add")):
            self.assertAlmostEqual(1e-9 * result["memory_bandwidth"] * classes[name]["efficiency"] / 8, 1, delta=0.02)
        for trial in result["trials"]:
            self.assertAlmostEqual(trial["by_classes_s"] / trial["time_s"], 1, delta=0.01)

    def test_shapes_that_were_not_measured_are_as_uncertain_as_networks_left_out(self):
        def spread(networks, *words):
            result = self.answer("-o", self.directory / "mine.yaml", "--overwrite", "--networks=" + networks)
            step = self.predicted(*words)
            return result["other_networks"], math.log(step["step_s_high"] / step["step_s_low"])
        usual, alone = spread("resnet20")
        self.assertEqual((usual, spread("resnet20,resnet8")[0]), (0.55, 0.55))  # no shape of its own
        convolution, kernels = 36e6 * (8 + 32) * (1 / 80e9 + 1 / 40e9), 32 * 5e-6
        twice = math.log((2 * convolution + kernels) / (convolution + kernels))  # too short, and too long
        apart, wide = spread("resnet20,vgg11")
        self.assertAlmostEqual(apart, math.sqrt((0.55**2 + 2 * twice**2) / 3), delta=0.005)
        # 90 % of a normal distribution, within two standard errors of 400 draws; none of the shapes was measured
        self.assertAlmostEqual(alone, 2 * 1.645 * 0.55, delta=0.2)
        self.assertAlmostEqual(wide, 2 * 1.645 * apart, delta=0.2)
        self.assertLess(spread("resnet20", "--set=device.other_networks=0")[1], 0.2)

    def test_kernels_are_shown_shape_by_shape(self):
        shapes = {(k["op"], k["shape"], k["amount"]): k for k in self.answer(kind="kernels")["shapes"]}
        self.assertEqual(len(shapes), 66)
        first = shapes["forward", "conv 1", 8]
        self.assertAlmostEqual(first["flops_per_s"] / (8e6 / (8e6 / 80e9 + 5e-6)), 1)
        self.assertAlmostEqual(first["bytes_per_s"] / (8e4 / (8e6 / 80e9 + 5e-6)), 1)
        self.assertAlmostEqual(max(k["roofline_share"] for k in shapes.values()), 1)
        self.assertRegex(self.calibrate(kind="kernels").stdout,
                         r"(?m)^ +forward +conv 1 +fp32 +8 +105 us +76.19 GFLOP/s +761.9 MB/s +95.39 %$")

    def test_memory_is_as_fast_as_the_faster_of_steps_and_copies(self):
        file = self.directory / "mine.yaml"
        for copied, source in ((4e9, "the fastest that any step moved its bytes, caches included"),
                               (20e9, "a copy of 64 MiB, read and written")):
            result = self.answer("-o", file, copied=copied)
            self.assertEqual([copy["bytes"] for copy in result["copies"]], [2**14, 2**26])
            self.assertAlmostEqual(2 * 2**26 / result["copies"][1]["time_s"] / copied, 1)
            self.assertAlmostEqual(result["memory_bandwidth"] / max(copied, 7.88e9), 1, delta=0.01)
            value, written = re.search(r'(?m)^memory_bandwidth: {value: (\S+) GB/s, source: "(.*)", '
                                       "kind: measured}$", file.read_text(encoding="utf-8")).groups()
            self.assertAlmostEqual(1e9 * float(value) / result["memory_bandwidth"], 1, places=4)
            self.assertTrue(written.startswith(source + ", measured by foretrain"), written)
            for trial in result["trials"]:  # efficiencies are relative to it
                self.assertAlmostEqual(trial["by_classes_s"] / trial["time_s"], 1, delta=0.01)
        self.assertRegex(self.calibrate(copied=20e9).stdout,
                         "the fastest step moved 7.88 GB/s, .*\n"
                         "a copy of 16 KiB reads and writes 100 GB/s, of 64 MiB 20 GB/s\n")

    def test_the_driver_names_the_gpu(self):
        file = self.directory / "mine.yaml"
        done = self.calibrate("--device=cuda", "-o", file, driver='echo "Some GPU, 1024, 9.0";'
                              'test "$*" = "--query-gpu=name,memory.total,compute_cap '
                              '--format=csv,noheader,nounits --id=0"')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(file.read_text(encoding="utf-8"), r'(?m)^description: "?Some GPU')
        for driver in ("echo nonsense", "echo hm >&2; exit 9", "kill -9 $$"):
            done = self.calibrate("--device=cuda", "-o", file, driver=driver)
            self.assertEqual((done.returncode, done.stdout), (69, ""))
            self.assertEqual(done.stderr, "error: nvidia-smi does not name the GPU; it comes with "
                             "the driver, and must be in $PATH\n")

    def test_what_is_between_iterations_is_in_the_prediction(self):
        file = self.directory / "mine.yaml"
        # the shortest of the rounds: a factor of 0.995
        self.assertAlmostEqual(self.answer("-o", file, factors=(1, 0.995))["iteration_overhead_s"],
                               2.985e-4)
        text = file.read_text(encoding="utf-8")
        self.assertRegex(text, r"(?m)^iteration_overhead: \{value: 298.5 us, source: \"from the last")
        with_it = self.predicted()["step_s"]
        file.write_text(re.sub("(?m)^iteration_overhead.*\n", "", text), encoding="utf-8")
        without = self.predicted()["step_s"]
        self.assertAlmostEqual((with_it - without) / 2.985e-4, 1, places=4)

    def test_links_are_measured_with_the_gradients_that_travel(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one core: no two ranks exchange anything")
        file = self.directory / "here.yaml"
        for words, dtype, speed in (((), "fp32", 2.0), (("--gradients=fp16",), "fp16", 1.0)):
            result = self.answer("-n", "2", "-o", file, *words, kind="cluster")
            self.assertEqual(result["gradients"], dtype)
            self.assertAlmostEqual(result["bandwidth"] / (1e9 * speed), 1, places=6)
            text = file.read_text(encoding="utf-8")
            self.assertIn(f"\ntransport:\n  payload: {dtype}\n", text)
            self.assertRegex(text, f"bandwidth: {{value: {speed:g} GB/s, source: \"rounds of a ring "
                             f"all-reduce of 2 ranks in {dtype} .* --gradients {dtype}\"")
            shown = support.run("show", "platform", file)
            self.assertIn(f"links were measured with gradients in {dtype}\n", shown.stdout)
        said = self.calibrate("-n", "2", "--gradients=bf16", kind="cluster").stdout
        self.assertIn("gradients travelled in bf16", said)
        self.assertRegex(said, r"(?m)^4 MiB +4204.3 us +4204.3 us, +[-+]0.0 %$")

    def test_what_ranks_lose_that_train_together_is_measured(self):
        """The made-up ranks compute a tenth longer, up to 2 % apart, evenly spread; an all-reduce
        takes 200 us more than its rounds, and an iteration begins 50 us after the last one."""
        file = self.directory / "here.yaml"
        result = self.answer("-n2", "--oversubscribe", "-o", file, kind="cluster")
        ranks = min(2, len(os.sched_getaffinity(0)))
        jitter = 2 ** 0.5 * 0.02 / 1.349 * (ranks > 1)
        self.assertAlmostEqual(result["contention"], 0.1, places=3)
        self.assertAlmostEqual(result["jitter"], jitter, delta=0.03 * jitter)
        self.assertAlmostEqual(1e6 * result["collective_launch_s"], 200, places=3)
        self.assertAlmostEqual(1e6 * result["iteration_overhead_s"], 50, places=3)
        device = (self.directory / "here-device.yaml").read_text(encoding="utf-8")
        for key, value in (("jitter", 100 * result["jitter"]), ("collective_launch", 200),
                           ("iteration_overhead", 50)):
            if value:
                written = re.search(rf"(?m)^{key}: {{value: (\S+) ", device)[1]
                self.assertAlmostEqual(float(written) / value, 1, places=2)
        self.assertNotIn("foretrain calibrate device -", device)
        self.assertRegex(device, '(?m)^collective_launch.*: foretrain calibrate cluster --device cpu '
                         '--networks resnet20 --batch 8,32 .* --ranks 2, quickest of ')

    def test_what_other_processes_may_have_caused_is_told(self):
        burn = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                for _ in range(os.cpu_count())]
        try:
            words = ("-n2", "--oversubscribe")
            result = self.answer(*words, kind="cluster")
            done = self.calibrate(*words, kind="cluster")
        finally:
            for process in burn:
                process.kill()
                process.wait()
        self.assertGreater(result["foreign"], 0.15)
        self.assertGreaterEqual(result["compute_spread"], result["contention"])
        self.assertGreater(result["contention"], 0.09)
        self.assertRegex(done.stdout, r"(?m)^other processes had \d+ % of the processors meanwhile")

    def test_every_number_says_where_it_is_from(self):
        file = self.directory / "mine.yaml"
        self.answer("-o", file)
        platform = self.write("here.yaml", PLATFORM.format(device="./mine.yaml"))
        shown = support.run("show", "platform", platform)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        numbers = re.findall(r"(?m)^  (measured|assumed) +(device\S+) .*", shown.stdout)
        self.assertGreaterEqual(len(numbers), 9)
        for line in shown.stdout.splitlines():
            if re.match("  measured +device", line) and "physical memory" not in line:
                self.assertRegex(line, "measured by foretrain calibrate on .*, 20..-..-..: "
                                 "foretrain calibrate device --device cpu --networks resnet20 "
                                 "--batch 8,32 --threads 1")

    def test_of_the_rounds_the_quickest_counts(self):
        quiet = self.answer()
        noisy = self.answer(factors=(1.5, 1.0, 1.2, 1.01), copied=4e9)
        self.assertAlmostEqual(2 * 2**26 / noisy["copies"][1]["time_s"] / 4e9, 1)
        self.assertEqual(self.rounds(), 4)
        self.assertEqual(quiet["trials"], noisy["trials"])
        self.assertAlmostEqual(noisy["apart"], 0.01)

    NEVER = [1.2 ** -i for i in range(20)]  # the two fastest rounds are always 20 % apart

    def test_rounds_that_never_agree_are_refused_if_that_is_wanted(self):
        file = self.directory / "mine.yaml"
        done = self.calibrate("-o", file, "--strict", factors=self.NEVER)
        self.assertEqual((done.returncode, done.stdout), (75, ""))
        self.assertIn("disturbed", done.stderr)
        self.assertFalse(file.exists())
        self.assertEqual(self.rounds(), 8)

    def test_rounds_that_never_agree_make_a_wide_interval(self):
        file = self.directory / "mine.yaml"
        width = {}
        for factors, spread in (([1, 1], 0), (self.NEVER, 0.2)):
            self.assertAlmostEqual(self.answer("-o", file, factors=factors)["spread"], spread)
            self.assertEqual(f"spread: {100 * spread:.3g} %" in file.read_text(encoding="utf-8"), spread > 0)
            low, high = support.likely(self.predicted("--set=device.other_networks=0"), "step_s")
            width[spread] = math.log(high / low)
        self.assertGreater(width[0.2], 3 * width[0])

    def test_a_round_that_would_end_too_late_does_not_begin(self):
        for more, rounds, said in (([], 2, "2 rounds"), (["--budget=1"], 1, "no spread known")):
            done = self.calibrate("--budget=2", *more, factors=self.NEVER, sleep=0.7)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLessEqual(self.rounds(), rounds)
            self.assertIn(said if self.rounds() == rounds else "no spread known", done.stdout)
        self.assertEqual(self.answer("--budget=1", factors=self.NEVER, sleep=0.7)["spread"], 0.3)
        done = self.calibrate("--budget=1", "--strict", factors=self.NEVER, sleep=0.7)
        self.assertEqual(done.returncode, 75)
        self.assertIn("--budget", done.stderr)

    def test_batches_for_which_there_is_no_time_are_left_out_and_named(self):
        for kind in (["device"], ["cluster", "-n2", "--oversubscribe"]):
            for budget, batches in (("100", [8, 32]), ("20", [8])):
                words = ("--budget", budget, "--batch=8,32", *kind[1:])
                done = self.calibrate(*words, "--json", kind=kind[0])
                self.assertEqual("no batch above 8 was measured" in done.stderr, len(batches) < 2)
                if kind == ["device"]:
                    trials = json.loads(done.stdout)["trials"]
                    self.assertEqual(sorted({trial["batch"] for trial in trials}), batches)

    def test_exchanges_that_do_not_agree_make_a_wide_interval(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one core: no two ranks exchange anything")
        file = self.directory / "here.yaml"
        # each sweep takes 1.5 times the one before; halves of them are that far apart
        result = self.answer("-n2", "-o", file, kind="cluster", exchange=1.5)
        self.assertAlmostEqual(result["spread"], math.log(1.5) / 2)
        self.assertIn(f"spread: {100 * result['spread']:.3g} %", file.read_text(encoding="utf-8"))
        done = self.calibrate("-n2", "--strict", kind="cluster", exchange=1.5)
        self.assertEqual(done.returncode, 75)
        done = self.calibrate("-n2", "--strict", "--budget=1", kind="cluster", sleep=0.7)
        self.assertIn("one sweep took all of its time: give more with --budget", done.stderr)
        # all sizes take equally long: no line, but the largest size has a speed
        result = self.answer("-n2", "-o", file, kind="cluster", exchange=0)
        self.assertAlmostEqual(result["bandwidth"] * 1e-5 / 2**22, 1)
        self.assertGreater(result["spread"], 0.5)

    def test_what_is_measured_is_told_meanwhile(self):
        said = self.calibrate("-n2", "--oversubscribe", kind="cluster").stderr.splitlines()
        self.assertEqual([line.partition(",")[0] for line in said],
                         ["measuring a round of an all-reduce",
                          "measuring steps of training",
                          "measuring training with all ranks"])
        self.assertIn("at most 120 s left", said[0])

    def test_what_the_machine_says_is_passed_on(self):
        done = self.calibrate(factors=[None])
        self.assertEqual((done.returncode, done.stdout), (69, ""))
        self.assertIn("no machine is like that", done.stderr)
        done = self.calibrate(factors=[1, 0])
        self.assertEqual(done.returncode, 70)
        self.assertIn("did not answer", done.stderr)

    def test_a_prediction_takes_what_was_measured_and_says_so(self):
        file = self.directory / "mine.yaml"
        self.answer("-o", file)
        result = self.predicted()
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("amount: 8, ", "amount: 9, ", 1), encoding="utf-8")
        changed = self.predicted()
        self.assertEqual(changed["scenario_sha256"], result["scenario_sha256"])
        self.assertNotEqual(changed["platform_hash"], result["platform_hash"])
        note, = (a for a in result["assumptions"] if "measured one by one" in a)
        self.assertRegex(note, r"^0 % of the computing time .*measured by foretrain calibrate")

    def test_a_file_of_somebody_else_is_found_before_anything_is_measured(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one core: a cluster is refused for that")
        for kind, name in (("device", "x.yaml"), ("cluster", "x.yaml"), ("cluster", "x-device.yaml")):
            mine = self.write(name, "# my own\n")
            done = self.calibrate("-o", self.directory / "x.yaml", kind=kind)
            self.assertEqual((done.returncode, done.stdout), (73, ""), kind)
            self.assertIn(f"{mine} exists", done.stderr)
            self.assertIn("--overwrite", done.stderr)
            self.assertEqual(self.rounds(), 0)
            self.assertEqual(mine.read_text(encoding="utf-8"), "# my own\n")
            self.answer("-o", self.directory / "x.yaml", "--overwrite", kind=kind)
            if name == "x.yaml":
                self.answer("-o", self.directory / "x.yaml", kind=kind)  # its own
            for file in self.directory.glob("x*"):
                self.assertIn("Written by foretrain calibrate", file.read_text(encoding="utf-8"))
                file.unlink()
        done = self.calibrate("-o", self.directory / "no" / "x.yaml")
        self.assertEqual((done.returncode, self.rounds()), (73, 0))

    def test_what_was_measured_is_told_even_if_its_file_is_lost(self):
        folder = self.directory / "gone"

        def remove():
            while not self.rounds():
                time.sleep(0.01)
            folder.rmdir()
        for words, said in (((), "ranks that train together compute 10.0 % longer"),
                            (("--json",), '"written": null')):
            folder.mkdir()
            remover = threading.Thread(target=remove)
            (self.directory / "bin" / "calls").unlink(missing_ok=True)
            remover.start()
            done = self.calibrate("-n2", "--oversubscribe", "-o", folder / "here.yaml", *words,
                                  kind="cluster")
            remover.join()
            self.assertEqual(done.returncode, 73, done.stderr)
            self.assertIn(said, done.stdout)
            self.assertNotIn("written to", done.stdout)

    def test_numbers_are_checked_before_anything_is_measured(self):
        for kind, words, said in (("device", ["--repeats=3"], "--repeats: expected 4 to 1000"),
                                  ("cluster", ["--repeats=1"], "--repeats: expected 4 to 1000"),
                                  ("device", ["--budget=0"], "--budget: expected a whole number from 1"),
                                  ("cluster", ["--repeats=1001"], "--repeats: expected 4 to 1000"),
                                  ("cluster", ["--bytes=1MB,2MB"], "three sizes"),
                                  ("cluster", ["--bytes=1MB,2MB,1MB,2MB"], "three sizes"),
                                  ("cluster", ["--bytes=400..4000:x1.01"], "at most 64 sizes"),
                                  ("cluster", ["--bytes=1MB,2MB,6B"], "6 B are not whole fp32")):
            done = self.calibrate("-n2", "--oversubscribe", *words, kind=kind) \
                if kind == "cluster" else self.calibrate(*words, kind=kind)
            self.assertEqual((done.returncode, done.stdout), (64, ""), words)
            self.assertIn(said, done.stderr)
            self.assertEqual(self.rounds(), 0)

    def test_too_few_cores_are_told_with_the_way_out(self):
        cores = len(os.sched_getaffinity(0))
        for words, said in (
                (["-n1"], "--ranks: must be at least 2; calibrate device measures one"),
                ([f"--threads={cores + 1}"], f"two of {cores + 1} threads each need more than the "
                 f"{cores} core"),
                ([f"-n{cores + 1}"] if cores > 1 else ["-n2"],
                 f"would take turns on {cores} core" + ("s: use fewer, or" if cores > 1 else ": use")
                 + " --oversubscribe"),
                (["--device=replay"], "--device replay computes nothing to measure")):
            done = self.calibrate(*words, kind="cluster")
            self.assertEqual((done.returncode, done.stdout), (64, ""), words)
            self.assertIn(said, done.stderr)
            self.assertEqual(self.rounds(), 0)

    def test_words_without_effect_are_refused(self):
        for words in (["-n", "2"], ["--oversubscribe"], ["--gradients", "fp16"],
                      ["-o", "mine.txt"], ["--networks", "resnet21"], ["--batch", "0"]):
            done = self.calibrate(*words)
            self.assertEqual((done.returncode, done.stdout), (64, ""), words)
        self.assertIn("take turns", self.refused(64, "calibrate", "cluster", "-n", "4096"))
        self.assertIn("cannot train it", self.refused(69, "calibrate", "device", "--networks=bert-base"))
