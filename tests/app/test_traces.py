"""Traces for other tools, and profiles that other tools wrote: predict --trace, import trace."""
import gzip
import json
import re
import unittest

from support import Case, answer, good, has_simulator, likely, run


def spans_at(events, end):
    """The steps in which the end of an arrow lies."""
    return [event["args"] for event in events if event["ph"] == "X" and event["tid"] == end["tid"]
            and event["pid"] == end["pid"] and "step id" in event["args"]
            and event["ts"] <= end["ts"] <= event["ts"] + event["dur"]]


class Traces(Case):
    def written(self, name):
        """The path of the trace of a job of 16 devices."""
        path = self.directory / name
        good("predict", self.job, "--backend", "analytic", "--traced-ranks", 3, "--trace",
             f"{path}/" if name == "ranks" else path)
        return path

    def test_arrows_lead_from_backward_through_each_bucket_to_the_optimizer(self):
        events = json.loads(self.written("trace.json").read_text(encoding="utf-8"))["traceEvents"]
        ends = {ph: {event["id"]: event for event in events if event["ph"] == ph} for ph in "sf"}
        self.assertEqual(set(ends["s"]), set(ends["f"]))
        starts, collectives = {}, {}
        for arrow, begin in ends["s"].items():
            source, = spans_at(events, begin)
            targets = spans_at(events, ends["f"][arrow])
            self.assertTrue(targets)
            self.assertEqual(ends["f"][arrow]["bp"], "e")
            for target in targets:
                key = begin["pid"], target["iteration"], target["step id"]
                starts.setdefault(key, []).append(source["step id"])
        for event in events:
            if event["name"].startswith("nccl:"):
                key = event["pid"], event["args"]["iteration"], event["args"]["step id"]
                collectives[key] = event
        self.assertGreater(len(collectives), 9)
        for key in collectives:
            self.assertTrue(starts[key], key)

    def test_a_directory_has_a_file_for_each_rank_as_hta_finds_it(self):
        whole = json.loads(self.written("trace.json").read_text(encoding="utf-8"))
        ranks = {event["pid"] for event in whole["traceEvents"] if event["ph"] == "X"}
        files = sorted(self.written("ranks").iterdir())
        self.assertEqual({path.name for path in files}, {f"rank-{rank}.json" for rank in ranks})
        spans = 0
        for path in files:
            text = path.read_text(encoding="utf-8")
            rank = int(re.search(r'"rank":\s+(\d+)', text)[1])
            self.assertEqual(path.name, f"rank-{rank}.json")
            events = [event for event in json.loads(text)["traceEvents"] if event["ph"] == "X"]
            self.assertEqual({event["pid"] for event in events}, {rank})
            spans += len(events)
        self.assertEqual(spans, sum(event["ph"] == "X" for event in whole["traceEvents"]))

    def test_a_directory_with_other_ranks_is_refused(self):
        path = self.written("ranks")
        (path / "rank-99.json").touch()
        done = run("predict", self.job, "--backend", "analytic", "--trace", path)
        self.assertEqual(done.returncode, 73)
        self.assertIn("rank-99.json", done.stderr)

    def test_gz_holds_the_same_text_and_is_imported(self):
        plain, packed = self.written("trace.json"), self.written("trace.json.gz")
        self.assertEqual(gzip.decompress(packed.read_bytes()), plain.read_bytes())
        self.assertLess(packed.stat().st_size, plain.stat().st_size / 5)
        told = [run("import", "trace", path, "--json").stdout for path in (plain, packed)]
        self.assertEqual(*(json.loads(text)["result"]["kernels"] for text in told))
        packed.write_bytes(2 * packed.read_bytes())  # two members are one text
        self.assertNotEqual(run("import", "trace", packed).returncode, 0)

    def test_damaged_or_swollen_gz_is_refused(self):
        packed = self.written("trace.json.gz")
        whole = packed.read_bytes()
        turned = bytearray(whole)
        turned[len(whole) // 2] ^= 1
        for data, why in ((whole[:-9], "it ends too early"), (bytes(turned), "damaged"),
                          (gzip.compress(bytes(10**8)), "holds more than"),
                          (gzip.compress(b""), "empty")):
            packed.write_bytes(data)
            done = run("import", "trace", packed)
            self.assertEqual(done.returncode, 65, why)
            self.assertIn(why, done.stderr)


@unittest.skipUnless(has_simulator(), "built without SimGrid: the closed form traces one rank")
class Kineto(Case):
    """The events of 12 ranks that fetch images, as readers of PyTorch's profiles take them."""

    RANKS = range(12)

    def setUp(self):
        super().setUp()
        path = self.directory / "trace.json"
        good("predict", self.job, "--backend=sim", "--grain=full", "--iterations=2", "--nodes=3", "--traced-ranks=12",
             "--trace", path, "--set=allreduce.grid={columns: 3, rows: 4}", "--set=input.workers=4",
             "--set=input.rate=9000 images/s")
        self.text = path.read_text(encoding="utf-8")
        self.trace = json.loads(self.text)
        self.events = self.trace["traceEvents"]

    def complete(self, category):
        """Events with a length."""
        return [e for e in self.events if e["ph"] == "X" and e["cat"] == category]

    def test_the_rank_is_on_an_early_line_of_its_own(self):
        line, = [i for i, line in enumerate(self.text.splitlines()) if re.fullmatch(r'"rank":\s+(\d+),', line)]
        self.assertLess(line, 10)
        self.assertEqual(self.trace["distributedInfo"], {"backend": "nccl", "rank": 0, "world_size": 12})

    def test_each_rank_is_a_process_and_each_lane_a_thread(self):
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in self.events if e["name"] == "thread_name"}
        threads = enumerate(["compute", "row", "column", "input", "iterations"])
        self.assertEqual(names, {(rank, t): name for t, name in threads for rank in self.RANKS})

    def test_marks_tile_the_time_of_each_rank(self):
        for rank in self.RANKS:
            first, last = [e for e in self.complete("user_annotation") if e["pid"] == rank]
            self.assertEqual((first["name"], last["name"]), ("ProfilerStep#0", "ProfilerStep#1"))
            begins = [e["ts"] for e in self.complete("kernel") if e["pid"] == rank]
            ends = [e["ts"] + e["dur"] for e in self.complete("kernel") + self.complete("gpu_memcpy") if e["pid"] == rank]
            self.assertEqual(first["ts"], min(begins))  # images were fetched before
            self.assertAlmostEqual(first["ts"] + first["dur"], last["ts"], 5)
            self.assertAlmostEqual(last["ts"] + last["dur"], max(ends), 5)

    def test_events_lie_on_their_lane_and_do_not_overlap(self):
        lanes = {}
        for event in self.complete("kernel") + self.complete("gpu_memcpy"):
            self.assertEqual(event["args"]["stream"], event["tid"])
            self.assertEqual(event["name"].startswith("nccl"), event["tid"] in (1, 2))
            self.assertEqual(event["name"].startswith("Memcpy"), event["cat"] == "gpu_memcpy")
            lanes.setdefault((event["pid"], event["tid"]), []).append(event)
        self.assertEqual(len(lanes), 4 * len(self.RANKS))
        for events in lanes.values():
            events.sort(key=lambda e: e["ts"])
            for first, second in zip(events, events[1:]):
                self.assertLessEqual(first["ts"] + first["dur"], second["ts"] + 1e-5)

    def test_collectives_have_sizes_and_groups(self):
        """A bucket of 4 MiB, of which each of three has a part, rounded up."""
        found = {}
        for event in self.complete("kernel"):
            if event["pid"] == 11 and event["tid"] in (1, 2):
                found.setdefault(event["name"], event["args"])
        whole, part = 2**22, 2**22 // 3 + 1
        for name, sent, received, ranks in (("reduce_scatter", whole, part, [9, 10, 11]),
                                            ("all_reduce", part, part, [2, 5, 8, 11]),
                                            ("all_gather", part, whole, [9, 10, 11])):
            args = found["nccl:" + name]
            self.assertEqual((args["In msg nelems"], args["Out msg nelems"]), (sent, received), name)
            self.assertEqual((json.loads(args["Process Group Ranks"]), args["Group size"]), (ranks, len(ranks)))
            self.assertEqual(args["Collective name"], name)


def kernel(name, begin, seconds, operation=None):
    """An event of a device, launched by the operation of PyTorch with that id [us]."""
    args = {"stream": 7, **({"External id": operation} if operation else {})}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": begin,
            "dur": seconds, "args": args}


def operation(name, number):
    """An operation of PyTorch."""
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 0, "dur": 1,
            "args": {"External id": number}}


class Profiles(Case):
    """A profile beside the prediction of its job."""

    def setUp(self):
        super().setUp()
        text = (self.directory / "job.yaml").read_text(encoding="utf-8")
        self.job = self.write("job.yaml", text + "noise: {compute_cv: 0}\n")

    def trace(self, *options):
        """A trace of the job in closed form, and its step [s]."""
        path = self.directory / "trace.json"
        step = answer("predict", self.job, "--backend", "analytic", "--trace", path, *options)
        return path, step

    def kinds(self, path, *options):
        """The measured and the predicted milliseconds of each kind."""
        result = answer("import", "trace", path, "--job", self.job, *options)["result"]
        return {row["kind"]: (1e3 * row["measured_s"], 1e3 * row["predicted_s"])
                for row in result["kinds"]}

    def test_a_prediction_agrees_with_itself(self):
        path, step = self.trace()
        kinds = self.kinds(path)
        for kind, (measured, predicted) in kinds.items():
            self.assertAlmostEqual(measured, predicted, 5, kind)
        self.assertAlmostEqual(kinds["step"][0], 1e3 * step["step_s"], 3)
        self.assertAlmostEqual(kinds["exposed communication"][0],
                               1e3 * step["step"]["exposed_communication_s"], 3)

    def test_kinds_of_a_profile_are_told_by_operation_and_by_kernel(self):
        events = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 1,
                   "tid": 1, "ts": 1000 * i, "dur": 1000} for i in range(2)]
        events += [operation("aten::cudnn_convolution", 1), operation("aten::addmm", 2),
                   operation("aten::cudnn_batch_norm", 3), operation("aten::add_", 4)]
        for start in (0, 1000):
            events += [
                kernel("sm80_xmma_gemm_f16", start, 300, 1),       # a convolution all the same
                kernel("ampere_fp16_s16816gemm", start + 300, 50, 2),
                kernel("bn_fw_tr_1C11", start + 350, 100, 3),
                kernel("vectorized_elementwise_kernel", start + 450, 20, 4),
                kernel("multi_tensor_apply_kernel", start + 800, 40),
                kernel("ncclDevKernel_AllReduce_Sum_f16_RING_LL", start + 400, 200),  # 70 covered
                kernel("ncclDevKernel_AllReduce_Sum_f16_RING_LL", start + 550, 100),  # 50 more
                kernel("something_new", start + 860, 10)]
        profile = self.write("profile.json", json.dumps({"traceEvents": events}))
        before = {"user_annotation": "Operator", "cpu_op": "Operator", "kernel": "Kernel"}
        older = self.write("older.json", json.dumps({"traceEvents": [
            {**event, "cat": before[event["cat"]], "args": {
                key.lower(): value for key, value in event.get("args", {}).items()}}
            for event in events]}))
        self.assertEqual(self.kinds(older), self.kinds(profile))
        nothing = self.write("nothing.json", json.dumps({"traceEvents": events[:2]}))
        self.assertIn("ProfilerActivity.CUDA", answer("import", "trace", nothing)["warnings"][0])
        kinds = {kind: measured for kind, (measured, _) in self.kinds(profile).items()}
        told = {"convolutions": .3, "matrix products": .05, "norm, ReLU, add": .12,
                "optimizer": .04, "other computation": .01, "communication": .25,
                "exposed communication": .18, "step": 1, "gaps between computation": .3}
        for kind, milliseconds in told.items():
            self.assertAlmostEqual(kinds[kind], milliseconds, 9, kind)

    def test_a_profile_of_something_else_is_named(self):
        path, _ = self.trace()
        def warnings(profile, *options):
            job = self.write("other.yaml", self.job.read_text(encoding="utf-8").replace(*options)
                             if options else self.job.read_text(encoding="utf-8"))
            return " ".join(answer("import", "trace", profile, "--job", job)["warnings"])
        self.assertEqual(warnings(path), "")
        self.assertIn("another network than resnet101", warnings(path, "resnet50", "resnet101"))
        step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1,
                "ts": 0, "dur": 1000}
        # resnet50 has 53 convolutions: 1 + 3 (3 + 4 + 6 + 3) + 4 (torchvision)
        for count, device, said in ((53, "Tesla V100-SXM2-16GB", ""),
                                    (104, "Tesla V100-SXM2-16GB",
                                     "has 104 convolutions a step, network resnet50 of the job has 53"),
                                    (0, "Tesla V100-SXM2-16GB", "has 0 convolutions a step"),
                                    (53, "NVIDIA H100 80GB HBM3", "the profile is of h100-sxm5-80gb, the "
                                     "job's platform has v100-sxm2-16gb")):
            events = [step, kernel("x", 0, 10, 99), operation("aten::addmm", 99)]
            events += [operation("aten::convolution", i) for i in range(count)]
            found = warnings(self.write("profile.json", json.dumps({
                "deviceProperties": [{"name": device}], "traceEvents": events})))
            self.assertIn(said, found) if said else self.assertEqual(found, "")

    def test_a_device_file_takes_as_long_as_the_profile(self):
        first, second = self.directory / "first.yaml", self.directory / "second.yaml"
        path, _ = self.trace()
        answer("import", "trace", path, "--job", self.job, "--to", first)
        text, count = re.subn(r"(layer: convolution\n[^{]*{value: )[0-9.]+", r"\g<1>0.25",
                              first.read_text(encoding="utf-8"))
        self.assertGreater(count, 1)
        first.write_text(text, encoding="utf-8")
        path, slower = self.trace("--set", f"platform.device={first}")
        self.assertGreater(self.kinds(path)["convolutions"][0],
                           1.2 * self.kinds(path)["convolutions"][1])
        answer("import", "trace", path, "--job", self.job, "--to", second)
        for value in re.findall(r"layer: convolution\n[^{]*{value: ([0-9.]+)",
                                second.read_text(encoding="utf-8")):
            self.assertAlmostEqual(float(value), 0.25, 3)
        _, again = self.trace("--set", f"platform.device={second}")
        self.assertAlmostEqual(again["step_s"] / slower["step_s"], 1, 3)

    def test_linear_layers_of_a_transformer_are_matrix_products(self):
        """As frameworks have them: no convolution of GPT-2, one of a ViT."""
        steps = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 1, "tid": 1, "ts": 1e6 * i,
                  "dur": 90e3} for i in range(2)]
        for network, images in (("gpt2", 0), ("vit_b_16", 1)):
            events = steps + [kernel("sm80_xmma_gemm_bf16", 1e6 * i, 80e3, 1) for i in range(2)] + [operation("aten::addmm", 1)]
            events += [operation("aten::convolution", i) for i in range(2, 2 + 2 * images)]
            job = self.write("text.yaml", f"""version: 1
model: {{network: {network}, precision: {{compute: bf16}}}}
cluster: {{platform: dgx-a100, nodes: 1, devices_per_node: 1}}
training: {{phases: [{{samples: 1000, batch_per_device: 8}}]}}
""")
            profile = self.write("profile.json", json.dumps({"traceEvents": events}))
            told = answer("import", "trace", profile, "--job", job)
            self.assertEqual(told["warnings"], [])
            rows = {row["kind"]: row for row in told["result"]["kinds"]}
            products, step = rows["matrix products"], rows["step"]
            self.assertAlmostEqual(products["measured_s"], 0.08)
            self.assertLess(rows.get("convolutions", {"predicted_s": 0})["predicted_s"], 0.1 * products["predicted_s"])
            speed = float(told["understood"][-1].rpartition("=")[2])
            again = answer("predict", job, "-banalytic", f"--set=cluster.speed={speed}")
            self.assertAlmostEqual(again["step_s"] / step["measured_s"], 1, 1)
            self.assertIn("cluster.speed", self.refused(64, "import", "trace", profile, "--job", job, "--to",
                                                        self.directory / "mine.yaml"))

    def test_what_was_profiled_is_less_uncertain_than_other_batches(self):
        mine = self.directory / "mine.yaml"
        steps = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 1, "tid": 1, "ts": 1e6 * i,
                  "dur": 50e3 * (1 + 0.02 * i)} for i in range(3)]
        events = steps + [kernel("implicit_gemm", 1e6 * i, 45e3, 1) for i in range(3)] + [operation("aten::cudnn_convolution", 1)]
        profile = self.write("profile.json", json.dumps({"traceEvents": events}))
        text = self.job.read_text(encoding="utf-8")
        job = self.write("drafted.yaml", text.replace("cluster:    {", "cluster:    {software: pytorch, "))
        told = answer("import", "trace", profile, "--job", job, "--to", mine)
        self.assertIn("--set cluster.software=null", told["understood"][-1])
        self.assertIn("network: resnet50\n    batch: 32\n    spread: 1.96 %\n", mine.read_text(encoding="utf-8"))
        widths = []
        for batch in (32, 16):
            step = likely(answer("predict", job, "--backend", "analytic", "--nodes", 1, "--set", f"platform.device={mine}", "--set",
                                 "cluster.software=null", "--set", "allreduce.grid=null", "--set",
                                 f"training.phases[1].batch_per_device={batch}"), "step_s")
            widths.append(step[1] / step[0])
        self.assertLess(widths[0], 1.2)
        self.assertGreater(widths[1], 1.4)
        self.assertIn("replace what was measured of device mine", self.refused(65, "predict", job, f"--set=platform.device={mine}"))
        own = self.write("own.yaml", f"extends: dgx-h100\nname: own\ndevice: {mine}\n")
        self.assertNotIn("software", good("new", "job", "--platform", own, "--nodes=2").stdout)

    def test_traces_of_a_device_are_fitted_together(self):
        """Convolutions at 9 % and at 36 % of the roofline are at 18 % in both; other hardware is refused."""
        files = [self.directory / f"{name}.yaml" for name in ("one", "two", "both")]
        answer("import", "trace", self.trace()[0], "--job", self.job, "--to", files[0])
        text = files[0].read_text(encoding="utf-8")
        for value, to, words in (("0.09", files[1], ()), ("0.36", files[2], ("--with", files[1]))):
            files[0].write_text(re.sub(r"(layer: convolution\n[^{]*{value: )[0-9.]+", rf"\g<1>{value}", text), encoding="utf-8")
            path, _ = self.trace("--set", f"platform.device={files[0]}")
            answer("import", "trace", path, "--job", self.job, "--to", to, *words)
        for value in re.findall(r"layer: convolution\n[^{]*{value: ([0-9.]+)", files[2].read_text(encoding="utf-8")):
            self.assertAlmostEqual(float(value), 0.18, 3)
        self.assertIn("other hardware", self.refused(65, "import", "trace", path, "--job", self.job, "--with", "a30",
                                                     "--to", self.directory / "x.yaml"))

    def test_a_profile_with_any_name_makes_a_device(self):
        path, _ = self.trace()
        odd = path.rename(self.directory / 'a": {x, b\nc.json')
        answer("import", "trace", odd, "--job", self.job, "--to", self.directory / "odd.yaml")
        self.trace("--set", f"platform.device={self.directory / 'odd.yaml'}")

    def test_what_cannot_be_is_refused(self):
        path, _ = self.trace()
        self.refused(64, "import", "trace", path, "--to", self.directory / "x.yaml")
        text = path.read_text(encoding="utf-8")
        quick = json.loads(text)
        for event in quick["traceEvents"]:
            event.update({"dur": 0.001} if "dur" in event and "ProfilerStep" not in event["name"] else {})
        fast = self.write("fast.json", json.dumps(quick))
        said = self.refused(65, "import", "trace", fast, "--job", self.job, "--to",
                            self.directory / "x.yaml")
        self.assertIn("another job, or another device", said)
        bare = self.write("bare.json", re.sub("ProfilerStep", "Step", text))
        self.assertIn("ProfilerStep", self.refused(65, "import", "trace", bare, "--job", self.job))
        mine = self.write("mine.yaml", "mine")
        self.refused(73, "import", "trace", path, "--job", self.job, "--to", mine)
        self.assertEqual(mine.read_text(encoding="utf-8"), "mine")
