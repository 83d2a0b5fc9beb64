#!/usr/bin/python3
"""`new`: drafts of platforms and jobs that check and predict accept at once."""
import re
import statistics

import support
from support import answer, good, run

MACHINES = [
    # nodes, --gpus, --nics, more words, the device, the same nodes in the library
    (16, "8xh100", "8x400Gb/s", ["--leaves=4", "--uplinks=8"], "h100-sxm5-80gb", True),
    (4, "4xH100-sxm5", "4x400Gb/s", [], "h100-sxm5-80gb", True),
    (6, "8xh100-sxm5", "3x200Gb/s", ["--leaves=3"], "h100-sxm5-80gb", False),
    (2, "4xv100-sxm2", "2x100Gb/s", [], "v100-sxm2-16gb", True),
    (2, "2xa100-pcie-80gb", "1x100Gb/s", [], "a100-pcie-80gb", False),
    (8, "2xrtx-4090", "1x10Gb/s", ["--leaves=2", "--uplinks=1"], "rtx-4090", False),
    (2, "16xv100-sxm2", "16x25GB/s", [], "v100-sxm2-16gb", False),
    (1, "1xl40s", None, [], "l40s", False),
    (1, "8xa100", "1x100Gb/s", [], "a100-sxm4-80gb", False),  # a card without a second node
    (2, "8xl40", "1x100Gb/s", [], "l40", False),  # no L40S, though its name begins so
    (1, "6xl4", None, [], "l4", False),
    (1, "4xv100-sxm2", None, [], "v100-sxm2-16gb", True),  # as ABCI, without its racks of 34 nodes
    (4, "8xmi325x", "8x400Gb/s", ["--fabric=slingshot"], "mi325x", False),
    (2, "8xgaudi-2", "3x100Gb/s", ["--fabric=roce"], "gaudi-2", False),
    (2, "2xepyc-9755", "1x10Gb/s", [], "epyc-9755", False),
    (2, "72xgb200", "36x400Gb/s", [], "gb200-186gb", False),
    (2, "4xh200-nvl", "4x400Gb/s", ["--inside=nvlink:150GB/s@mesh", "--fabric=efa"],
     "h200-nvl-141gb", False),
]


class New(support.Case):
    """Drafts."""

    def draft(self, nodes, gpus, nics, more):
        """Write mine.yaml and a job for it; their paths."""
        platform, job = self.directory / "mine.yaml", self.directory / "draft.yaml"
        cards = [f"--nics={nics}"] if nics else []
        for words in (["platform", f"--gpus={gpus}", *cards, *more, f"--to={platform}"],
                      ["job", f"--platform={platform}", f"--to={job}"]):
            done = run("new", *words, f"--nodes={nodes}", "--overwrite")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("written: ", done.stdout)
        return platform, job

    def test_every_draft_is_accepted_and_says_what_is_assumed(self):
        for nodes, gpus, nics, more, device, same in MACHINES:
            with self.subTest(gpus=gpus, nics=nics):
                platform, job = self.draft(nodes, gpus, nics, more)
                self.assertEqual(platform.read_text(encoding="utf-8").count("extends: "), same)
                shown = answer("show", "platform", platform)
                count = int(gpus.split("x")[0])
                self.assertEqual((shown["name"], shown["device"], shown["nodes"],
                                  shown["devices_per_node"]), ("mine", device, nodes, count))
                self.assertTrue(all(n["source"] for n in shown["numbers"]))
                if nics:
                    self.assertIn("given to foretrain new", {n["source"] for n in shown["numbers"]})
                result = answer("predict", job, "-banalytic")
                self.assertEqual(result["devices"], nodes * count)

    def test_a_card_needs_the_network_it_is_for(self):
        """Even where there is one node: what a card carries is in its fabric."""
        platform, _ = self.draft(1, "8xa100", "1x100Gb/s", [])
        bare = re.sub(r"\nnetwork:\n.*?\ntransport:", "\ntransport:",
                      platform.read_text(encoding="utf-8"), flags=re.S)
        self.assertIn("a node with network cards needs the key 'network.nic.bandwidth'",
                      self.refused(65, "show", "platform", self.write("bare.yaml", bare)))

    def test_rates_and_tiers_are_those_that_were_given(self):
        platform, _ = self.draft(16, "8xh100", "8x400Gb/s", ["--leaves=4", "--uplinks=8"])
        numbers = {n["key"]: n["value"] for n in answer("show", "platform", platform)["numbers"]}
        self.assertEqual(numbers["network.nic.bandwidth"], 400e9 / 8)
        self.assertEqual(numbers["network.tiers[0].bandwidth"], 400e9 / 8)
        # 4 nodes of 8 cards below 8 uplinks
        self.assertIn("0.250, about 1/4 of full bisection", run("show", "platform", platform).stdout)

    def test_a_card_more_leaves_the_library_and_derives_nccl(self):
        platform, job = self.draft(6, "8xh100-sxm5", "3x200Gb/s", [])
        numbers = {n["key"]: n for n in answer("show", "platform", platform)["numbers"]}
        self.assertNotIn("nccl.intra_bandwidth", numbers)  # the links decide
        words = ("collective", "-n1", "-anccl", "--bytes=1GB")
        doubled = self.write("fast.yaml", platform.read_text(encoding="utf-8").replace("value: 450 GB/s", "value: 900 GB/s"))
        slow, fast = (answer(*words, f"--platform={file}")["rows"][0]["time_s"] for file in (platform, doubled))
        self.assertGreater(slow / fast, 1.5)  # channels bound the rest
        self.assertIn("algorithm: nccl", job.read_text(encoding="utf-8"))

    def test_nvlink_and_pcie_are_those_of_the_device(self):
        """Data sheets: all links of a device each way, and its generation of PCIe x16."""
        for gpus, nvlink, pcie in (("8xb200", 900e9, 63.02e9), ("8xmi300x", 64e9, 63.02e9),
                                   ("4xv100-pcie", 15.75e9, None), ("4xa100-pcie-80gb", 31.51e9, None),
                                   ("4xh100-pcie", 63.02e9, None), ("4xl40s", 31.51e9, None),
                                   ("8xp100-sxm2", 80e9, 15.75e9), ("6xv100-sxm2", 150e9, 15.75e9),
                                   ("3xa100-sxm4-40gb", 300e9, 31.51e9),
                                   ("16xa100-sxm4-80gb", 300e9, 31.51e9),
                                   ("16xh100-sxm5", 450e9, 63.02e9)):
            platform, _ = self.draft(6, gpus, "3x200Gb/s", [])
            numbers = {n["key"]: n for n in answer("show", "platform", platform)["numbers"]}
            for kind, rate in enumerate((nvlink, pcie) if pcie else (nvlink,)):
                found = numbers[f"node.links[{kind}].bandwidth"]
                self.assertAlmostEqual(found["value"] / rate, 1, places=3, msg=gpus)
                self.assertEqual(found["kind"], "assumed")

    def test_what_is_slower_than_the_cards_is_pointed_out(self):
        """16 GB/s between sockets (NCCL: AMD_BW): 16 % of 4 cards of 25 GB/s; PCIe 4: 31.51 GB/s, 252 Gb/s."""
        sockets, slot = "efficiency: 16 %", "Faster than PCIe to it (31.51 GB/s)"
        for nics, text, told in (("4x200Gb/s", sockets, True), ("8x200Gb/s", sockets, False),
                                 ("1x100Gb/s", sockets, False), ("8x400Gb/s", slot, True), ("8x200Gb/s", slot, False)):
            platform, _ = self.draft(2, "8xa100", nics, [])
            self.assertEqual(text in platform.read_text(encoding="utf-8"), told, nics)

    def test_the_answer_says_what_a_draft_of_a_network_does_not_know(self):
        """By how much: the same as when the job says it."""
        _, job = self.draft(8, "8xa100", "4x200Gb/s", [])
        words = ("predict", job, "-banalytic", "--set=cluster.software=mlperf-v3.0",
                 "--set=noise.compute_cv=0")
        said = "\n".join(answer(*words)["assumptions"])
        for what, change in (("do not reduce .nccl.sharp.; where they do", "nccl.sharp=true"),
                             ("host memory .network.nic.efficiency.; where they do",
                              "network.nic.efficiency=16 %")):
            told = re.search(what + r" a step takes ([\d.]+) ms", said)
            then = answer(*words, f"--set=platform.{change}")["step_s"]
            self.assertAlmostEqual(float(told[1]) / (1e3 * then), 1, places=3)

    def test_a_data_sheet_is_enough(self):
        """Three lines, as README has them: the numbers of B200's own file, and its 16 ms."""
        stated = answer("show", "device", "b200-sxm-180gb")
        for words in (["device", "b200", "--peak=bf16=2250T", "--peak=fp32=80TFLOP/s", "--peak=fp8=4500T", "--peak=fp4=9000T",
                       "--memory=180GB@8TB/s", "--nvlink=900GB/s", "--pcie=5", "--to=b200.yaml"],
                      ["platform", "--nodes=16", "--gpus=8x./b200.yaml", "--nics=8x400Gb/s",
                       "--to=mine.yaml"],
                      ["job", "--platform=./mine.yaml", "--nodes=16", "--batch=128", "--to=b200-job.yaml"]):
            self.assertEqual(self.execute(0, support.PROGRAM, "new", *words, cwd=self.directory).stderr, "")
        shown = answer("show", "device", self.directory / "b200.yaml")
        values = [{n["key"]: n["value"] for n in device["numbers"]} for device in (shown, stated)]
        del values[1]["sustained_fp8"]  # a measurement
        self.assertEqual(*values)
        self.assertAlmostEqual(answer("predict", self.directory / "b200-job.yaml", "-banalytic")["step_s"],
                               0.016, delta=0.001)

    def test_what_no_data_sheet_has_is_the_median_of_devices_with_runs(self):
        reached, cost = {}, {}
        for path in (support.ROOT / "platforms/software").glob("mlperf-*.yaml"):
            for device, efficiency, overhead, rows in re.findall(
                    r"- device: (\S+)\n.*?efficiency: {value: ([\d.]+) %.*?overhead: {value: ([\d.]+) us"
                    r".*?rows: (\d+)", path.read_text(encoding="utf-8"), re.S):
                if int(rows):
                    reached.setdefault(device, []).append(float(efficiency))
                    cost.setdefault(device, []).append(float(overhead))
        numbers = {n["key"]: n for n in answer("show", "device", "b200-sxm-180gb")["numbers"]}
        self.assertIn(f"the {len(reached)} devices with runs", numbers["math_efficiency"]["source"])
        for key, fits in (("math_efficiency", reached), ("memory_efficiency", reached),
                          ("kernel_overhead", cost)):
            middle = statistics.median(statistics.median(values) for values in fits.values())
            self.assertAlmostEqual(numbers[key]["value"] / middle * (1e6 if fits is cost else 100), 1,
                                   delta=0.02)
            self.assertEqual(numbers[key]["kind"], "assumed")

    def test_a_network_has_its_own_latency(self):
        for words, low, high in ((["--fabric=tcp"], 15e-6, 50e-6), (["--fabric=efa"], 15e-6, 75e-6),
                                 (["--fabric=roce"], 3.9e-6, 4.1e-6), ([], 3.9e-6, 4.1e-6)):
            platform, job = self.draft(4, "6xh100-sxm5", "2x100Gb/s", words)
            numbers = {n["key"]: n for n in answer("show", "platform", platform)["numbers"]}
            between = numbers["transport.between"]
            self.assertTrue(low <= between["value"] <= high, words)
            self.assertEqual("--fabric was not given" in between["source"], not words)
            said = "\n".join(answer("predict", job, "-banalytic")["assumptions"])
            self.assertEqual("nccl.sharp" in said, not words)  # InfiniBand's alone
        done = self.refused(65, "show", "platform", self.write("sharp.yaml", (
            "extends: dgx-h100\nname: sharp\nnetwork: {fabric: roce}\n")))
        self.assertIn("switches of roce do not reduce", done)

    def test_what_cannot_be_described_is_named(self):
        words = ("new", "platform", "--nodes=4", "--nics=8x400Gb/s")
        self.write("bare.yaml", "name: bare\ndescription: bare\npeak: {fp32: 1 TFLOP/s}\n"
                   "memory: 1 GB\nmemory_bandwidth: 1 GB/s\n")
        for other in ("h20", "mi250"):  # other devices than h200 and mi250x
            self.assertRegex(self.refused(66, *words, f"--gpus=8x{other}"), f"no device '{other}' .*foretrain new device")
        self.assertIn("begin with a copy of platform trn2", self.refused(65, *words, "--gpus=8xtrainium-2"))
        self.assertIn("--gpus 1xtpu-v4", self.refused(64, "new", "platform", "--nodes=64", "--gpus=4xtpu-v4"))
        self.assertIn("as in --inside nvlink:900GB/s", self.refused(
            64, *words, f"--gpus=4x{self.directory / 'bare.yaml'}"))
        self.assertIn("expected nvlink, xgmi", self.refused(64, *words, "--gpus=8xb200", "--inside=pcie9"))
        self.assertIn("unknown --fabric 'token'", self.refused(64, *words, "--gpus=8xb200",
                                                               "--fabric=token"))
        for more, said in ((["--peak=2250T"], "--peak: expected"), ([], "needs --peak"), (["--peak=bf16=1T", "--peak=bf16=2T"], "bf16 is given twice"),
                           (["--peak=fp8=1T", "--memory=1GB@1TB/s"], "--peak of 16 or 32 bits"),
                           (["--peak=bf16=1T", "--memory=8TB/s"], "--memory with its size")):
            self.assertIn(said, self.refused(64, "new", "device", "mine", *more))

    def test_amd_has_rccl_and_no_profile_of_nvidia(self):
        _, job = self.draft(2, "8xmi300x", "8x400Gb/s", [])
        self.assertIn("algorithm: ring", job.read_text(encoding="utf-8"))
        self.assertIn("no host limits their launches", job.read_text(encoding="utf-8"))
        self.assertRegex(self.refused(65, "predict", job, "--set=allreduce={algorithm: nccl}"), "RCCL.*channels=all, a ring by each device, or")
        self.assertIn("runs no NCCL (its file has no compute_capability): choose torus2d",
                      self.refused(65, "collective", "--platform=tpu-v5e-pod", "-n4", "-anccl", "--bytes=1MB"))
        self.assertIn("fitted on GPUs with CUDA", self.refused(
            65, "predict", job, "--set=cluster.software=pytorch"))
        self.assertIn("fitted on GPUs with CUDA", self.refused(
            65, "new", "job", "--platform=stampede2-skx", "--nodes=2", "--software=pytorch"))

    def test_the_answer_says_what_a_scheduler_may_change(self):
        _, job = self.draft(32, "8xh100", "8x400Gb/s", ["--leaves=8", "--uplinks=8"])
        words = ("predict", job, "-banalytic", "--set=model.network=vgg16", "--set=cluster.nodes=16",
                 "--set=cluster.software=mlperf-v4.0", "--set=noise.compute_cv=0")
        said = "\n".join(answer(*words)["assumptions"])
        self.assertIn("network.placement = contiguous (", said)
        told = float(re.search(r"any nodes \(scattered\) a step takes ([\d.]+) ms", said)[1])
        scattered = answer(*words, "--set=platform.network.placement=scattered")
        self.assertAlmostEqual(told / (1e3 * scattered["step_s"]), 1, places=3)
        self.assertNotIn("network.placement", "\n".join(scattered["assumptions"]))

    def test_jobs_of_other_platforms_and_networks(self):
        chips = self.directory / "chips.yaml"  # a torus of the job's grid, without cards
        run("new", "platform", "--nodes=64", "--gpus=1xtpu-v5e", "--to", chips)
        cubes = self.directory / "cubes.yaml"
        run("new", "platform", "--nodes=64", "--gpus=1xtpu-v4", "--to", cubes)
        for platform, network, algorithm in (("torus-4x4", "resnet50", "torus2d"),
                                             (chips, "resnet50", "torus2d"),
                                             (cubes, "resnet50", "torus2d"),
                                             ("trn2", "resnet50", "ring"),
                                             ("stampede2-knl", "vgg16", "ring"),
                                             ("abci", "resnet20", "nccl"),
                                             ("dgx-h200", "bert-base", "nccl"),
                                             ("dgx-h200", "inception_v3", "nccl")):
            text = run("new", "job", "--platform", platform, "--nodes=4", "--network", network,
                       "--batch=8").stdout
            self.assertIn(f"algorithm: {algorithm}", text)
            done = good("check", self.write("draft.yaml", text))
            self.assertIn(network, done.stdout)

    def test_a_target_takes_the_place_of_epochs(self):
        job = self.directory / "target.yaml"
        words = ("new", "job", "--platform=dgx-h100", "--nodes=4", "--batch=64")
        for target, recipe in (("75.9 %", "rcp-nvidia"), ("0.749", "v0.5"), ("74.9%", "v0.5")):
            run(*words, f"--target={target}", "--to", job, "--overwrite")
            found = answer("predict", job, "-banalytic")
            self.assertEqual((found["recipe"], round(found["target"], 9)),
                             (recipe, 0.759 if recipe == "rcp-nvidia" else 0.749))
            self.assertGreater(found["time_to_train_s"], 0)
        self.assertIn("no published runs ended there", self.refused(64, *words, "--target=80 %"))
        self.assertIn("--target: 'good' is not", self.refused(64, *words, "--target=good"))
        self.assertIn("published runs are of resnet50, not vgg16",
                      self.refused(64, *words, "--target=75.9%", "--network=vgg16"))

    def test_a_job_exchanges_and_starts_as_its_software_does(self):
        """By the profile's own lines; the newest has runs on the device of the platform."""
        profiles = {path.stem: path.read_text(encoding="utf-8")
                    for path in (support.ROOT / "platforms/software").glob("mlperf-*.yaml")}
        with_runs = [name for name, text in profiles.items()
                     if re.search(r"device: h100-pcie-80gb\n(    .*\n)*?    rows: [1-9]", text)]
        self.write("mine.yaml", "extends: dgx-h100\nname: mine\n"
                   "device: %s\n" % (support.ROOT / "platforms/devices/h100-pcie-80gb.yaml"))
        for platform, words, name in (
                (self.directory / "mine.yaml", [], max(with_runs)),
                ("dgx-a100", ["--software=mlperf-v2.0"], "mlperf-v2.0"),
                ("dgx-1", ["--software=mlperf-v0.6"], "mlperf-v0.6")):
            written = name if words else f"{{one_of: [{name}, pytorch]}}"
            job = self.directory / "job.yaml"
            done = run("new", "job", "--platform", platform, *words, "--nodes=8", "--to", job,
                       "--overwrite")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            told = job.read_text(encoding="utf-8")
            self.assertIn(f"\n  software: {written} ", told)
            self.assertIn("\n  overlap: none ", told)
            groups = int(re.search(r"^groups: (\d+)$", profiles[name], re.M)[1])
            self.assertEqual(len(answer("predict", job, "-banalytic")["exchanges"]),
                             groups)
            once = float(re.search(r"^startup: {value: (\S+) s", profiles[name], re.M)[1])
            self.assertAlmostEqual(answer("predict", job, "-banalytic")["startup_s"],
                                   0.6 + once / 8, places=2)
        self.assertIn("\n  overlap: backward ", run(
            "new", "job", "--platform=dgx-1", "--nodes=8", "--software=pytorch").stdout)
        self.write("gpu.yaml", "extends: dgx-1\nname: gpu\ndevice: %s\n"
                   % (support.ROOT / "platforms/devices/rtx-4090.yaml"))  # nobody submitted it
        self.assertIn("\n  software: pytorch ", run(
            "new", "job", "--platform", self.directory / "gpu.yaml", "--nodes=8").stdout)
        plain = run("new", "job", "--platform=stampede2-skx", "--nodes=2").stdout
        self.assertNotIn("software", plain)  # nobody's runs of CPUs are in a profile
        self.assertIn("no software 'mine'", self.refused(
            66, "new", "job", "--platform=dgx-1", "--nodes=2", "--software=mine"))

    def test_a_software_not_named_is_in_the_interval(self):
        """Twice a device as fast as PyTorch's is none that the interval of one profile holds."""
        job = self.directory / "either.yaml"
        run("new", "job", "--platform=dgx-a100", "--nodes=2", "--batch=256", "--to", job)
        either, tuned, plain = (answer("predict", job, "-banalytic", *words) for words in (
            [], ["--set=cluster.software=mlperf-v3.0"], ["--set=cluster.software=pytorch"]))
        self.assertEqual([i["input"] for i in either["unknown_inputs"]], ["cluster.software"])
        self.assertAlmostEqual(either["step_s"] / (tuned["step_s"] + plain["step_s"]), 1 / 2, 9)
        self.assertLess(tuned["step_s_high"], plain["step_s"])
        self.assertGreater(either["step_s_high"], plain["step_s"])

    def test_pytorch_sums_gradients_in_fp32(self):
        """25,557,032 parameters of 4 bytes, in buckets of about 25 MiB."""
        job = self.directory / "pytorch.yaml"
        run("new", "job", "--platform=dgx-1", "--nodes=8", "--software=pytorch", "--to", job)
        buckets = answer("predict", job, "-banalytic")["exchanges"]
        self.assertEqual(len(buckets), 4)
        self.assertEqual(sum(bucket["bytes"] for bucket in buckets), 4 * 25557032)

    def test_a_draft_cuts_no_tensor(self):
        """PyTorch's buckets of 25 MiB contain a larger gradient alone."""
        for words in (["llama-3-8b"], ["gpt2"], ["llama-3-70b", "--nodes=16"], ["mixtral-8x7b", "--nodes=8"], ["resnet50"]):
            job = self.directory / "mesh.yaml"
            run("new", "job", "--platform=nd-mi300x-v5", "--nodes=4", "--batch=1", "--to", job, "--overwrite", "--network", *words)
            self.assertNotIn("are cut", str(answer("predict", job, "-banalytic")["warnings"]), words)

    def test_the_input_that_a_draft_proposes_is_accepted(self):
        text = run("new", "job", "--platform=dgx-h100", "--nodes=1", "--batch=256",
                   "--software=mlperf-v4.0").stdout
        job = self.write("input.yaml", text.replace("\n# input:", "\ninput:"))
        result = answer("predict", job, "-banalytic")
        self.assertEqual(result["bound_by"], "input")
        self.assertAlmostEqual(result["step_s"], 256 / (16 * 130), places=6)

    def test_batches_beyond_the_recipe_are_drafted_with_leave(self):
        """One node of 8 H100 trains with 1600 images; the recipe begins at 1632."""
        job = self.directory / "job.yaml"
        for batch, leave in ((200, True), (204, False)):
            run("new", "job", "--platform=dgx-h100", "--nodes=1", f"--batch={batch}", "--target=75.9%",
                "--to", job, "--overwrite")
            self.assertEqual("extrapolate: true" in job.read_text(encoding="utf-8"), leave)
            self.assertAlmostEqual(answer("predict", job, "-banalytic")["epochs"], 35.4, delta=0.5)

    def test_matrix_units_of_bf16_alone_are_used(self):
        """A chip of TPU v3 has 3.8 TFLOP/s without and 123 with them."""
        self.assertIn("compute: bf16",
                      run("new", "job", "--platform=tpu-v3-pod", "--nodes=16").stdout)
        self.assertIn("compute: fp32", run("new", "job", "--platform=two-core", "--nodes=2").stdout)

    def test_a_device_of_ones_own_and_files_in_another_folder(self):
        """The drafts find their files from wherever predict is started."""
        own = (support.ROOT / "platforms/devices/rtx-4090.yaml").read_text(encoding="utf-8")
        self.write("gpu.yaml", own.replace("name: rtx-4090", "name: mine-gpu"))
        (self.directory / "drafts").mkdir()
        for words in (["platform", "--gpus=4x./gpu.yaml", "--nics=1x10Gb/s", "--to=drafts/mine.yaml"],
                      ["job", "--platform=drafts/mine.yaml", "--to=drafts/job.yaml"]):
            self.assertEqual(self.execute(0, support.PROGRAM, "new", *words, "--nodes=3", cwd=self.directory).stderr, "")
        self.assertEqual(answer("predict", self.directory / "drafts/job.yaml", "-banalytic")["devices"], 12)

    def test_a_file_that_exists_is_kept(self):
        for words in (["platform", "--gpus=8xh100", "--nics=8x400Gb/s"], ["job", "--platform=abci"]):
            said = self.refused(73, "new", *words, "--nodes=2", "--to", self.job)
            self.assertIn("--overwrite", said)
        self.assertEqual(self.job.read_text(encoding="utf-8"), support.JOB)

    def test_sgd_does_not_take_the_epochs_of_lars(self):
        """90 with PyTorch, as in arXiv 1706.02677, up to its batch; else a recipe of MLPerf, with its optimizer."""
        for platform, batch, words, lars, epochs in (
                ("dgx-h100", 64, ("--software=pytorch",), 0, {90}), ("dgx-h100", 64, ("--software=mlperf-v4.0",), 1, range(30, 40)),
                ("dgx-h100", 64, (), 1, range(30, 40)), ("dgx-b200", 64, (), 0, {90}), ("dgx-b200", 640, (), 1, range(40, 50)),
                ("stampede2-skx", 256, (), 0, {90}), ("dgx-1", 104, ("--software=mlperf-v0.6",), 1, range(58, 62)),
                ("dgx-1", 104, ("--software=mlperf-v0.7",), 1, range(35, 38))):
            draft = self.write("draft.yaml", run("new", "job", f"--platform={platform}", "--nodes=2", f"--batch={batch}",
                                                 "--target=75.9%", *words).stdout)
            found = answer("predict", draft, "-banalytic")
            self.assertIn(int(found["epochs"]), epochs)
            self.assertEqual([sum(word in text for text in found["assumptions"]) for word in ("with LARS", "of this job is")], [lars, 0])

    def test_text_is_not_trained_with_sgd(self):
        for network, name in (("bert-large", "lamb"), ("bert-large-squad", "adamw"), ("gpt2", "adamw"), ("resnet50", "sgd")):
            draft = self.write("job.yaml", run("new", "job", "--platform=dgx-h100", "--nodes=2", f"--network={network}").stdout)
            self.assertRegex(run("show", "job", draft).stdout, f"\noptimizer  {name}, ")

    def test_language_models_are_drafted_to_fit_devices_without_cuda(self):
        for platform, nodes, says in (("nd-mi300x-v5", 4, "sharding: 1"), ("tpu-v4-pod", 64, "columns: 16, rows: 4")):
            draft = self.directory / f"{platform}.yaml"
            run("new", "job", f"--platform={platform}", f"--nodes={nodes}", "--network=llama-3-8b", "--to", draft)
            self.assertIn(says, draft.read_text(encoding="utf-8"))
            self.assertIn("software: flash-attention", draft.read_text(encoding="utf-8"))
            run("check", draft)

    def test_what_does_not_fit_a_device_is_drafted_with_a_mesh(self):
        draft = self.directory / "drafted.yaml"
        self.assertIn("written", run("new", "job", "--platform=dgx-h200", "--nodes=4", "--network=llama-3-70b", "--to", draft).stdout)
        text = draft.read_text()
        self.assertRegex(text, "parallel: {sharding: 1, recompute: [a-z]+, tensor: [48], sequence: true")
        self.assertIn("name: adamw", text)
        self.assertIn("software: {one_of: [pytorch-flash, megatron-core]} ", text)
        result = answer("predict", draft, "-banalytic")
        self.assertLess(result["memory"]["total_bytes"], result["memory"]["device_bytes"])
        small = run("new", "job", "--platform=dgx-h200", "--nodes=1", "--network=gpt2", "--batch=4").stdout
        self.assertNotIn("parallel:", small)
        for words in (("dgx-a100", "llama-3-405b"), ("tpu-v4-pod", "kimi-k2"),
                      ("dgx-a100", "llama-3-405b", "--to", self.directory / "no.yaml")):
            self.assertIn("does not fit", self.refused(65, "new", "job", "--nodes=1", "--platform", words[0], "--network", *words[1:]))

    def test_experts_are_shared_before_layers(self):
        """In a node, then with stages; of nodes with 72 devices among 8 of them.  Long sequences need layers shared, too."""
        for network, platform, nodes, mesh in (
                ("mixtral-8x7b", "dgx-h100", 8, "expert: 8}"),
                ("deepseek-v3", "dgx-h100", 64, "expert: 8, pipeline: 16}"), ("deepseek-v2", "gb200-nvl72", 1, "expert: 8}"),
                ("mixtral-8x22b", "dgx-h100", 8, "tensor: 8, sequence: true, expert: 8, expert_tensor: 1, pipeline: 4}")):
            draft = self.directory / f"{network}.yaml"
            run("new", "job", f"--platform={platform}", f"--nodes={nodes}", f"--network={network}", "--to", draft)
            self.assertRegex(draft.read_text(encoding="utf-8"),
                             f"# The first mesh that fits: experts .*\nparallel: .*recompute: full, {mesh}\n")
            result = answer("predict", draft, "-banalytic")
            self.assertLess(result["memory"]["total_bytes"], result["memory"]["device_bytes"])
        self.assertIn("foretrain predict --ignore-memory", self.refused(
            65, "new", "job", "--platform=dgx-h100", "--nodes=1", "--network=mixtral-8x7b"))

    def test_a_network_may_be_a_file(self):
        network = self.write("mine.yaml", run("show", "model", "resnet18", "--yaml").stdout)
        draft = self.write("job.yaml", run("new", "job", "--platform=dgx-h100", "--nodes=2", f"--network={network}").stdout)
        self.assertEqual(answer("predict", draft, "-banalytic")["nodes"], 2)
        self.assertIn("is a job; 'foretrain show model", self.refused(64, "show", "model", draft))
        words = self.write("words.yaml", run("show", "model", "gpt2", "--yaml").stdout)
        text = run("new", "job", "--platform=dgx-h100", "--nodes=2", f"--network={words}").stdout
        for line in ("  dataset: {train_images: 1000000}    # an example\n", "  software: pytorch    #"):
            self.assertIn(line, text)  # neither pictures nor MLPerf's ResNet
        self.assertNotIn("evaluate_every", text)

    def test_what_is_missing_or_wrong_is_named(self):
        job, place = ("new", "job", "--platform=dgx-h100", "--nodes=2"), self.directory / "large.yaml"
        words = ("new", "platform", "--nodes=4")
        for code, said, *more in (
                (64, "did you mean '75.9%'?", *job, "--target=75.9"),
                (64, "error: unknown network", *job, "--network=resnet51"),
                (65, f"{place}:", *job, "--batch=100000", f"--to={place}"),
                (64, "--gpus 8xh100", *words),
                (64, "--gpus 8xh100", *words, f"--gpus={2**32 + 8}xh100"),
                (64, "need the network cards of a node, as in --nics 8x400Gb/s", *words, "--gpus=8xh100"),
                (64, "--nics: expected", *words, "--gpus=8xh100", "--nics=8x400"),
                (64, "no network card has 400 GB/s", *words, "--gpus=8xh100", "--nics=8x400GB/s"),
                (64, "did you mean 'Gb/s'?", *words, "--gpus=8xh100", "--nics=8x400Gbps"),
                (66, "did you mean 'rtx-4090'", *words, "--gpus=8xrtx-4091", "--nics=1x10Gb/s"),
                (66, "a100-sxm4-40gb", *words, "--gpus=8xNVIDIA A100-SXM-80GB", "--nics=8x200Gb/s"),
                (66, "a100-sxm4-80gb", *words, "--gpus=8xNVIDIA A100-SXM-80GB", "--nics=8x200Gb/s"),
                (64, "3 leaves do not share 4 nodes",
                 *words, "--gpus=8xh100", "--nics=8x400Gb/s", "--leaves=3"),
                (64, "no effect without --leaves",
                 *words, "--gpus=8xh100", "--nics=8x400Gb/s", "--uplinks=3"),
                (64, "needs --platform", "new", "job"),
                (65, "has only 1088 nodes", "new", "job", "--platform=abci", "--nodes=2000")):
            with self.subTest(more):
                self.assertIn(said, self.refused(code, *more))
