"""--report: pages whose numbers are those of --json, and which ask for nothing from outside."""
import csv
import io
import json
import math
import pathlib
import unittest

import page as pages
import support
from support import answer, likely, run


class Report(support.Case):
    """Of every command that has one."""

    def report(self, *words, codes=(0,)):
        """The page of a command, and the command that wrote it."""
        path = self.directory / "page.html"
        done = run(*words, "--report", path)
        self.assertIn(done.returncode, codes, done.stderr)
        return pages.read(self, path)

    def rows_of(self, page, name):
        """The CSV behind a picture."""
        return list(csv.DictReader(io.StringIO(page.csv(name))))


class Predict(Report):
    """The most pictures."""

    def test_the_page_holds_the_result_and_changes_nothing_that_is_printed(self):
        page = self.report("predict", self.job, "-banalytic")
        self.assertEqual(page.data()["result"], answer("predict", self.job, "-banalytic"))
        plain = run("predict", self.job, "-banalytic")
        again = run("predict", self.job, "-banalytic", "--report", self.directory / "b.html")
        self.assertEqual((plain.stdout, plain.stderr), (again.stdout, again.stderr))
        self.assertEqual((self.directory / "page.html").read_bytes(), (self.directory / "b.html").read_bytes())

    def test_the_first_words_answer(self):
        page = self.report("predict", self.job, "-banalytic")
        body = [text for text in page.words("p") if text]
        self.assertEqual(page.words("h1"), ["resnet50 on 16 devices of abci"])
        self.assertTrue(body[0].startswith("Training takes "), body[0])
        self.assertIn(page.data()["result"]["sentence"], body[0])
        for assumption in page.data()["result"]["assumptions"]:
            self.assertIn(assumption, page.words("li"))

    def test_the_curve_is_that_of_jobs_with_fewer_nodes(self):
        page = self.report("predict", self.job, "-banalytic")
        rows, marks = page.data()["curve"], page.marks("scaling_efficiency")
        self.assertEqual([row["devices"] for row in rows], [4, 8, 16])
        for row, mark in zip(rows, marks, strict=True):
            sets = ("--set", f"cluster.nodes={row['nodes']}", "--set", "allreduce.grid=null")
            result = answer("predict", self.job, "-banalytic", *(sets if row["nodes"] < 4 else ()))
            self.assertEqual(row["scaling_efficiency"], result["scaling_efficiency"])
            self.assertEqual(row["step_s"], result["step_s"])
            self.assertEqual(float(mark["data-value"]), row["scaling_efficiency"])
            for key in ("scaling_efficiency_low", "scaling_efficiency_high"):
                if result[key] is not None:
                    self.assertAlmostEqual(row[key], result[key], delta=1e-12)
            self.assertAlmostEqual(pages.percent(mark["cx"]), pages.log_place(row["devices"], 4, 16), places=4)
        self.assertLessEqual(max(row["scaling_efficiency_high"] for row in rows), 1)
        self.assertEqual([row["scaling_efficiency"] for row in rows],
                         [float(row["scaling_efficiency"]) for row in self.rows_of(page, "curve")])

    def test_where_the_recipe_does_not_know_a_batch_only_the_time_to_train_is_missing(self):
        job = self.directory / "draft.yaml"
        run("new", "job", "--platform=dgx-h100", "--nodes=16", "--target=75.9%", "--to", job)
        page = self.report("predict", job, "-banalytic")
        rows = page.data()["curve"]
        self.assertEqual([row["time_to_train_s"] is None for row in rows], [True, True, True, False, False])
        for row in rows[:3]:
            self.assertIn(f"{row['nodes'] * 8 * 32} images a step are outside", row["reason"])
            result = answer("predict", job, "-banalytic", "--set", f"cluster.nodes={row['nodes']}",
                            "--set=allreduce.grid=null", "--set=training.extrapolate=true")
            self.assertEqual((row["scaling_efficiency"], row["step_s"]),
                             (result["scaling_efficiency"], result["step_s"]))

    @pages.DRAWN
    def test_nodes_without_an_answer_have_no_bar(self):
        page = self.report("predict", self.job, "-banalytic", "--set=allreduce.grid=null",
                           "--set=cluster.nodes=3", "--set=training.phases=[{epochs: 90, global_batch: 96}]",
                           "--set=training.micro_batch=8")
        self.assertEqual([row["nodes"] for row in page.data()["curve"] if "reason" in row], [2])
        self.assertIn("12 devices", page.words("text"))
        self.assertNotIn("-", page.words("text"))

    @unittest.skipUnless(support.has_simulator(), "not simulated without foretrain-sim")
    def test_the_curve_of_a_simulated_job_is_the_closed_form_scaled_to_it(self):
        sets = ("--set=cluster.nodes=16", "--set=allreduce.grid=null", "--set=allreduce.bucket=1 MiB")
        page = self.report("predict", self.job, "-bsim", *sets)
        sim, closed = answer("predict", self.job, "-bsim", *sets), answer("predict", self.job, "-banalytic", *sets)
        waits = [result["step"]["exposed_communication_s"] for result in (sim, closed)]
        self.assertNotAlmostEqual(waits[0] / waits[1], 1, places=3)  # else the test is of nothing
        self.assertAlmostEqual(page.data()["curve_exposed_factor"], waits[0] / waits[1], places=9)
        self.assertTrue(any("the other points are in closed form" in text for text in page.words("p")))
        rows = page.data()["curve"]
        self.assertEqual([row["backend"] for row in rows], ["analytic"] * 4 + ["sim"])
        self.assertEqual((rows[-1]["step_s"], rows[-1]["scaling_efficiency"], rows[-1]["time_to_train_s"]),
                         (sim["step_s"], sim["scaling_efficiency"], sim["time_to_train_s"]))
        for row in rows[:-1]:
            other = answer("predict", self.job, "-banalytic", *sets[1:], f"--set=cluster.nodes={row['nodes']}")
            step, before = other["step_s"], closed["step_s"]
            longer = 1 + other["step"]["exposed_communication_s"] * (waits[0] / waits[1] - 1) / step
            whole = 1 + (waits[0] - waits[1]) / before
            self.assertAlmostEqual(row["step_s"] / (step * longer), 1, places=9)
            for key, power in (("scaling_efficiency", -1), ("time_to_train_s", 1)):
                own = sim[key] / (closed[key] * whole**power)
                self.assertAlmostEqual(row[key] / (other[key] * longer**power * own), 1, delta=2e-3, msg=(key, row["nodes"]))
                if row["nodes"] > 1:  # one node is the baseline, and at most 100 %
                    self.assertAlmostEqual(row[key] / (other[key] * longer**power * own), 1, places=9)

    @pages.DRAWN
    def test_captions_name_what_is_drawn(self):
        page = self.report("predict", self.job, "-banalytic")
        bands = [a for _, a in page.all("polygon") if a["points"].strip()]
        self.assertEqual(sum("; band: 90 %" in text for text in page.words("p")), len(bands))
        self.assertIn("Scaling efficiency; band: 90 % interval; ring: this job" if bands else
                      "Scaling efficiency; ring: this job", page.words("p"))

    made = []

    def unknown(self):
        """The page of a job with two unknown inputs and a baseline of two nodes, made once."""
        if not self.made:
            self.made.append(self.report(
                "predict", self.job, "-banalytic", "--set=baseline.nodes=2", "--set=allreduce.grid=null",
                "--set=allreduce.bucket={low: 1 MiB, high: 16 MiB}",
                "--set=platform.network.nic.bandwidth={low: 300 MB/s, high: 20 GB/s}"))
        return self.made[0]

    def test_an_axis_ends_where_points_do_not_where_a_band_would(self):
        page = self.unknown()
        rows, marks = page.data()["curve"], page.marks("scaling_efficiency")
        highest = max(row["scaling_efficiency"] for row in rows)
        for row, mark in zip(rows, marks, strict=True):
            self.assertAlmostEqual(float(mark["cy"]), 260 * (1 - row["scaling_efficiency"] / highest / 1.02), delta=0.06)
        self.assertIn("100 %", page.words("text"))
        self.assertFalse({"120 %", "150 %"} & set(page.words("text")))
        cut = max(row["scaling_efficiency_high"] for row in rows) > 1.02 * highest
        self.assertEqual(any("cut off at the top" in text for text in page.words("p")), cut)

    @pages.DRAWN
    def test_a_published_efficiency_stands_in_the_curve(self):
        page = self.report("predict", self.job, "-banalytic", "--published=91.62%")
        place = next(a for _, a in page.all("svg", **{"class": "mark"}))
        own, mark = page.marks("scaling_efficiency")[-1], next(a for t, a in page.elements if t == "path")
        self.assertEqual((place["x"], float(mark["data-value"])), (own["cx"], 0.9162))
        high = {float(a["data-value"]): float(a["cy"]) for a in page.marks("scaling_efficiency")}
        self.assertAlmostEqual(float(place["y"]) - high[1], (1 - 0.9162) * 260, delta=0.1)  # 260 pixels are 100 %
        for wrong in ("much", "-1%", "91"):
            self.assertIn("91.6%", self.refused(64, "predict", self.job, "--report=x", f"--published={wrong}"))
        self.assertIn("--report", self.refused(64, "predict", self.job, "--published=90%"))

    def test_bars_are_as_long_as_their_numbers(self):
        page = self.report("predict", self.job, "-banalytic")
        rows = page.data()["curve"]
        widest = max(row["step_s"] for row in rows)
        for key in ("compute_s", "exposed_row_s", "other_s"):
            marks = page.marks(key)
            self.assertEqual([float(mark["data-value"]) for mark in marks], [row[key] for row in rows])
            for mark in marks:
                self.assertAlmostEqual(pages.percent(mark["width"]), float(mark["data-value"]) / widest, places=4)
        for row in rows:
            parts = sum(row[key] or 0 for key in row if key.endswith("_s") and key.split("_")[0] in (
                "compute", "slower", "exposed", "input", "other"))
            self.assertAlmostEqual(parts / row["step_s"], 1, places=9)

    def test_the_lanes_are_those_of_the_trace(self):
        spans = self.directory / "spans"
        page = self.report("predict", self.job, "-banalytic", "--noise=none", "--spans", spans)
        lanes, exchanges = page.data()["lanes"], page.data()["result"]["exchanges"]
        rank = lanes[0]["rank"]
        own = [row for row in lanes if row["rank"] == rank and row["what"] in ("row", "column")]
        self.assertEqual(sorted((row["name"], row["bucket"]) for row in own),
                         sorted((row["name"], row["bucket"]) for row in exchanges))
        lines = spans.read_text().splitlines()
        busy = sum(float(end) - float(begin) for _, who, _, begin, end in
                   (line.split() for line in lines[lines.index(next(x for x in lines if x.startswith("spans"))) + 1:])
                   if int(who) == rank)
        self.assertAlmostEqual(sum(row["end_s"] - row["begin_s"] for row in lanes if row["rank"] == rank) / busy, 1,
                               places=6)
        ready = {row["bucket"]: row["end_s"] for row in lanes if row["what"] == "backward" and row["rank"] == rank}
        for bucket in range(max(row["bucket"] for row in exchanges) + 1):
            first = min((row for row in exchanges if row["bucket"] == bucket), key=lambda row: row["begin_s"])
            self.assertAlmostEqual(ready[bucket], first["ready_s"], places=9)

    def test_a_link_is_busy_as_long_as_its_bytes_take(self):
        # Two nodes of a GPU each and a ring: each card sends 2 (n - 1) / n of the gradients.
        sets = ["cluster.nodes=2", "cluster.devices_per_node=1", "allreduce={algorithm: ring}"]
        page = self.report("predict", self.job, "-banalytic", *(f"--set={word}" for word in sets))
        link = {row["link"]: row for row in page.data()["links"]}["nic"]
        gradients = 25557032 * 2  # ResNet-50's parameters (torchvision) in fp16
        self.assertAlmostEqual(link["busy_s"] * link["bandwidth"] / gradients, 1, places=6)

    def test_the_machine_is_drawn_with_the_load_of_its_links(self):
        gradients = 25557032 * 2  # as above
        page = self.report("predict", self.job, "-banalytic")
        links = {row["link"]: row for row in page.data()["links"]}
        self.assertEqual((links["nic"]["places"], links["nvlink"]["places"]), (4, 0))
        # Two columns of 4 ranks share a card, each with a quarter of the gradients.
        self.assertAlmostEqual(links["nic"]["busy_s"] * links["nic"]["bandwidth"] / (2 * 2 * 3 / 4 * gradients / 4), 1, places=6)
        marks = [(float(mark["data-value"]), mark["class"]) for mark in page.marks("share")]
        self.assertEqual(sorted(value for value, _ in marks),
                         sorted(row["share"] for row in links.values() for _ in range(row["places"] or 1)))
        for value, name in marks:
            self.assertEqual(name, f"c2 load l{sum(value >= limit for limit in (.1, .25, .5, .75))}")
        # A ring of 16 hosts: each sends 2 (n - 1) / n, and so does each leaf, over two uplinks of a host's width.
        page = self.report("predict", self.job, "-banalytic", "--platform", support.ROOT / "platforms/lab/leafspine-16-2to1.yaml",
                           "--set=allreduce={algorithm: ring}", "--nodes=16", "--set=cluster.devices_per_node=1")
        rows = sorted((row for row in page.data()["links"] if row["places"]), key=lambda row: row["places"])
        self.assertEqual([row["places"] for row in rows], [4, 16])
        for row in rows:
            self.assertAlmostEqual(row["busy_s"] * row["bandwidth"] / (2 * 15 / 16 * gradients), 1, places=6)
        self.assertEqual(rows[0]["bandwidth"], 2 * rows[1]["bandwidth"])
        self.assertEqual(len(page.marks("share")), 4 + 4 + len(page.data()["links"]) - 2)  # leaves, the hosts of one, and inside it
        self.assertIn("nic: 16, 4 in each", page.words("text"))

    def test_unknown_inputs_are_named_with_their_shares(self):
        page = self.unknown()
        result = page.data()["result"]
        self.assertIn("allreduce.bucket: 1 MiB to 16 MiB", page.words("li"))
        keys = ("step", "weak_scaling", "time_to_train")
        shares = sorted(([row[key] for key in keys] for row in result["interval_shares"]), key=max, reverse=True)
        for k, key in enumerate(keys):
            marks = [float(mark["data-value"]) for mark in page.marks(f"{key}_share")]
            self.assertEqual(marks, [share[k] for share in shares if max(share) >= 0.01])

    FAILING = ("--set=platform.node.mtbf=20h", "--set=training.checkpoint.cost=20 s", "--set=training.checkpoint.restart=5min")

    def test_failures_have_their_parts_and_the_best_interval(self):
        page = self.report("predict", self.job, "-banalytic", *self.FAILING)
        result, rows = page.data()["result"], page.data()["checkpoints"]
        failures, whole = result["failures"], result["time_to_train_s"]
        parts = [float(mark["data-value"]) for key in ("without_s", "saving_s", "failing_s") for mark in page.marks(key)]
        self.assertEqual(len(parts), 3)
        self.assertAlmostEqual(sum(parts) / whole, 1, places=9)
        self.assertAlmostEqual(parts[1], 20 * failures["checkpoints"])
        mtbf = 5 * 3600  # of 4 nodes

        def passed(seconds):
            return mtbf * math.exp(300 / mtbf) * math.expm1((seconds + 20) / mtbf)
        for row in rows:
            count, rest = divmod(parts[0], row["interval_s"])
            expected = count * passed(row["interval_s"]) + passed(rest)
            self.assertAlmostEqual(row["time_to_train_s"] / expected, 1, places=6)
        own = [row for row in rows if row["own"]]
        self.assertEqual([(row["interval_s"], row["time_to_train_s"]) for row in own], [(failures["interval_s"], whole)])
        self.assertAlmostEqual(failures["interval_s"], failures["daly_s"])
        self.assertGreater(min(row["time_to_train_s"] for row in rows), whole * 0.998)
        self.assertGreater(len(rows), 8)
        ringed = [mark for mark in page.marks("time_to_train_s") if "own" in mark["class"].split()]
        self.assertEqual([float(mark["data-value"]) for mark in ringed], [whole])

    def test_without_failures_nothing_is_said_of_them(self):
        heading = "What do failures and checkpoints add?"
        self.assertNotIn(heading, self.report("predict", self.job, "-banalytic").words("h2"))
        page = self.report("predict", self.job, "-banalytic", self.FAILING[1])
        self.assertIn(heading, page.words("h2"))
        self.assertEqual((len(page.marks("saving_s")), page.marks("failing_s"), page.data()["checkpoints"]), (1, [], []))

    def test_stages_of_a_pipeline_are_drawn_with_their_memory(self):
        job = self.write("language.yaml", """version: 1
model: {network: gpt2, sequence: 1024}
cluster: {platform: dgx-a100, nodes: 2}
parallel: {tensor: 2, pipeline: 4}
training: {dataset: {train_images: 1000000}, phases: [{epochs: 1, batch_per_device: 8, micro_batch: 1}], optimizer: {name: adamw}}
allreduce: {algorithm: ring}
""")
        page = self.report("predict", job, "-banalytic")
        result, stages = page.data()["result"], page.data()["stages"]
        self.assertEqual({row["lane"] for row in stages}, {f"stage {i}" for i in range(4)})
        for lane in ("stage 0", "stage 3"):  # eight micro-batches, forward and backward
            self.assertEqual([len([row for row in stages if row["lane"] == lane and row["what"] == what])
                              for what in ("forward", "backward")], [8, 8])
        filled, works = (round(100 * sum(times) / 4 / max(row["end_s"] for row in stages)) for times in (
            [row["end_s"] - row["begin_s"] for row in stages], [row["busy_s"] for row in stages]))
        self.assertRegex(" ".join(page.words("p")), f"compute in {100 - filled} % of the time; pieces wait for {filled - works} %[.]")
        self.assertIn("(MFU)", page.words("p")[0])
        if support.part("sliders"):
            self.assertNotIn("allreduce.grid", [control["key"] for control in page.data("whatif-data")["controls"]])
        self.assertNotIn("tensor", {row["axis"] for row in result["exchanges"]})
        self.assertTrue(page.marks("bubble_s") and page.marks("exposed_tensor_s"))
        for key in ("weights_bytes", "activations_bytes"):
            mark, = page.marks(key)
            self.assertAlmostEqual(pages.percent(mark["width"]), result["memory"][key] / result["memory"]["device_bytes"], places=4)

    def test_a_thousand_parts_of_lanes_are_drawn_as_fewer(self):
        """Each block is computed again before its backward pass, in 64 micro-batches, on one stage and on two."""
        job = self.write("again.yaml", """version: 1
model: {network: gpt2, sequence: 1024}
cluster: {platform: dgx-a100, nodes: 1}
parallel: {tensor: 2, recompute: full}
training: {phases: [{tokens: 1B, batch_per_device: 64, micro_batch: 1}], optimizer: {name: adamw}}
allreduce: {algorithm: ring}
""")
        for stages, rows in ((1, "lanes"), (2, "stages")):
            drawn = self.report("predict", job, "-banalytic", f"--set=parallel.pipeline={stages}").data()[rows]
            for what in ("forward", "backward"):
                passes = [row for row in drawn if row["what"] == what]
                self.assertEqual(sorted(row["micro_batch"] for row in passes), sorted(stages * list(range(64))), (stages, what))
                self.assertTrue(all(0 < row["busy_s"] <= row["end_s"] - row["begin_s"] + 1e-9 for row in passes), (stages, what))
        many = self.report("predict", job, "-banalytic", "--set=training.phases[0].batch_per_device=1024").data()["lanes"]
        repeat, = (row for row in many if row["what"] == "repeat" and row["lane"] == "compute")
        self.assertEqual(repeat["times"] + sum(row["what"] == "forward" for row in many), 1024)

    def test_a_large_job_stays_within_the_limits(self):
        sets = ["cluster.nodes=1088", "allreduce.grid=null", "allreduce.bucket=256 KiB"]
        self.report("predict", self.job, "-banalytic", *(f"--set={word}" for word in sets))

    def test_a_page_that_cannot_be_written_is_said(self):
        nowhere = pathlib.Path("nowhere", "page.html")
        done = run("predict", self.job, "-banalytic", "--report", nowhere)
        self.assertEqual(done.returncode, 73)
        self.assertIn("nowhere", done.stderr)
        self.refused(64, "predict", self.job, "--report")


class Plan(Report):
    """The best, the front and what moves it."""

    WORDS = ("-banalytic", "--platforms=abci,dgx-a100",
             "--nodes=2,4,8", "--batch=32", "--algorithms=torus2d,ring", "--buckets=4MiB")

    def plan(self, *limits, codes=(0,)):
        """The page, and the JSON of the same question."""
        page = self.report("plan", self.job, *self.WORDS, *limits, codes=codes)
        result = json.loads(run("plan", self.job, *self.WORDS, *limits, "--json").stdout)
        self.assertEqual(page.data(), result)
        return page, result

    def test_the_front_stands_where_its_numbers_are(self):
        page, result = self.plan("--within=20 h")
        best, shown = result["best"], {}
        for plan in (best, result["next"], *result["front"]):
            shown.setdefault(plan["name"], plan)
        self.assertIn(f"is {best['name']}. It takes ", page.words("p")[0])
        rows = self.rows_of(page, "front")
        self.assertEqual([row["name"] for row in rows], list(shown))
        for row, plan in zip(rows, shown.values(), strict=True):
            self.assertEqual([float(row[f"time_to_train_s_{end}"]) for end in ("low", "high")], likely(plan, "time_to_train_s"))
        places = [plan["device_hours"] for plan in shown.values()]
        marks = page.marks("time_to_train_s")
        self.assertEqual(sorted(float(mark["data-value"]) for mark in marks), sorted(p["time_to_train_s"] for p in shown.values()))
        for mark in marks:
            plan = next(p for p in shown.values() if p["time_to_train_s"] == float(mark["data-value"]))
            place = (plan["device_hours"] - min(places)) / (max(places) - min(places))
            self.assertAlmostEqual(pages.percent(mark["cx"]), place, places=4)
            self.assertEqual("own" in mark["class"].split(), plan in (best, result["next"]))
        whiskers = [a for _, a in page.elements if "whisker" in a.get("class", "")]
        self.assertEqual(len(whiskers), len(shown))

    def test_bars_start_where_the_best_is(self):
        page, result = self.plan("--budget=200")
        self.assertEqual(result["aim"], "time")
        low, high = ([row[end]["time_to_train_s"] for row in result["sensitivity"]] for end in ("low", "high"))
        middle, margin = result["best"]["time_to_train_s"], 0.05 * (max(low + high) - min(low + high))
        least = min(low + high) - margin
        width = max(low + high) + margin - least
        for key, values in (("low_time_s", low), ("high_time_s", high)):
            marks = page.marks(key)
            self.assertEqual([float(mark["data-value"]) for mark in marks], values)
            for mark, value in zip(marks, values):
                self.assertAlmostEqual(pages.percent(mark["x"]), (min(value, middle) - least) / width, places=4)
                self.assertAlmostEqual(pages.percent(mark["width"]), abs(value - middle) / width, places=4)

    def test_layouts_that_fit_are_dots_and_others_are_crosses(self):
        job = self.write("mesh.yaml", "version: 1\nmodel: {network: llama-3-8b, sequence: 2048}\ncluster: {platform: dgx-h100, nodes: 1}\n"
                         "training: {phases: [{tokens: 1.0e+9, global_batch: 8}], optimizer: {name: adamw}}\n"
                         "parallel: {tensor: 2}\nallreduce: {algorithm: nccl}\n")
        page = self.report("plan", job, "-banalytic", "--recompute=none")
        rows, marks = page.data()["layouts"], page.marks("step_s")
        dots = [row for row in rows if row["fits"] and row["predicted"]]
        self.assertEqual(sorted(float(mark["data-value"]) for mark in marks), sorted(row["step_s"] for row in dots))
        self.assertEqual(min(row["step_s"] for row in dots), page.data()["meshes"][0]["step_s"])
        limit = max(row["memory_bytes"] for row in rows if row["fits"])
        crosses = [row for row in rows if not row["fits"]]
        self.assertTrue(crosses and all(row["memory_bytes"] > limit for row in crosses))
        paths = [a["d"].count("M") for name, a in page.elements if name == "path" and "whisker" in a.get("class", "")]
        self.assertEqual(paths, [len(rows) - len(dots) - len(crosses), len(crosses)])

    def test_a_plan_that_misses_its_limit_has_a_page_and_its_exit_code(self):
        page, result = self.plan("--within=1 s", codes=(1,))
        self.assertIn(f"No plan trains within 1 s; the nearest is {result['best']['name']}", page.words("p")[0])


class Foreign(Report):
    """Texts of files that others wrote; the markup in them is of no page of ours."""

    EVIL = "<i>'\"&<script>alert('1')<!--"  # no slash: file names have it, too

    def setUp(self):
        super().setUp()
        word, self.directory = json.dumps(self.EVIL), self.directory / self.EVIL
        self.directory.mkdir()
        for name, base in (("device", "v100-sxm2-16gb"), ("software", "mlperf-v0.6")):
            self.write(f"{name}.yaml", f"extends: {base}\nname: {word}\n")
        self.write("platform.yaml", f"extends: abci\nname: {word}\ndevice: ./device.yaml\n"
                   f"node: {{mtbf: {{value: 9000 h, source: {word}, kind: assumed}}}}\n")
        prices = (support.ROOT / "prices" / "example-h100.yaml").read_text(encoding="utf-8")
        self.prices = self.write("prices.yaml", prices.replace("currency: USD", f"currency: {word}"))
        self.assertIn(word, self.prices.read_text(encoding="utf-8"))
        self.evil = self.write(self.EVIL + ".yaml", support.JOB.replace("platform: abci", "platform: ./platform.yaml")
                               .replace("training:", "training:\n  checkpoint: {every: 1 epochs, cost: 10 s}"))

    def shown(self, *words):
        """A page with at least one of them."""
        self.assertTrue(any(self.EVIL in text for text in self.report(*words).text.values()), words)

    def test_no_text_of_a_file_becomes_markup(self):
        priced = ("-banalytic", "--prices", self.prices)
        self.shown("predict", self.evil, *priced)
        self.shown("predict", self.evil, "-banalytic", f"--set=cluster.software={self.directory}/software.yaml", "--platform=abci")
        self.shown("compare", self.evil, self.evil, *priced)
        for words in (("--set=allreduce.grid=null", "--scan=cluster.nodes=1..2"), ("--list=allreduce.grid.columns=4,5",)):
            self.shown("sweep", self.evil, *words, "-banalytic", f"--list=cluster.platform=abci,{self.directory}/platform.yaml")
        self.shown("plan", self.evil, "--platforms=dgx-h100", "--within=20 h", "--nodes=2,4", "--batch=32", *priced)
        spans = self.directory / "spans"
        run("predict", self.evil, "-banalytic", "--iterations=4", "--spans", spans)
        self.shown("validate", self.evil, "--predicted", spans, "--measured", spans)


class Others(Report):
    """Fewer pictures, the same promises."""

    def test_a_comparison_shows_its_ratios(self):
        words = ("compare", self.job, self.job, "--set-b", "cluster.nodes=2", "--set-b", "allreduce.grid=null",
                 "-banalytic", "--prices", "example-v100")
        page = self.report(*words)
        result = answer(*words)
        self.assertEqual(page.data(), result)
        self.assertEqual(page.words("p")[0], result["sentence"])
        pair = result["pairs"][0]
        values = [float(mark["data-value"]) for key in ("ratio", "time_to_train_s", "factor") for mark in page.marks(key)]
        self.assertEqual(values, [pair["ratio"], *(job["time_to_train_s"] for job in result["jobs"]),
                                  *(factor["factor"] for factor in pair["factors"])])
        row = self.rows_of(page, "pairs")[0]
        self.assertEqual([float(row[end]) for end in ("ratio_low", "ratio_high") if row[end]], likely(pair, "ratio"))

    def test_a_sweep_shows_its_axis_and_its_front(self):
        words = ("sweep", self.job, "--set", "allreduce.grid=null", "--scan", "cluster.nodes=1..8:x2", "--list",
                 "allreduce.algorithm=ring,torus2d", "-banalytic")
        page = self.report(*words)
        result = answer(*words)
        self.assertEqual(page.data(), result)
        points, front = result["points"], result["front"]
        fastest = min(points, key=lambda point: point["time_to_train_s"])
        self.assertIn(f"cluster.nodes={fastest['set']['cluster.nodes']}", page.words("p")[0])
        marks = page.marks("time_to_train_s")
        self.assertEqual(len(marks), 2 * len(points))  # the axis, then the front
        for mark in marks[:len(points)]:
            places = [pages.log_place(point["set"]["cluster.nodes"], 1, 8) for point in points
                      if point["time_to_train_s"] == float(mark["data-value"])]
            self.assertLess(min(abs(pages.percent(mark["cx"]) - place) for place in places), 1e-4)
        ringed = [float(mark["data-value"]) for mark in marks[len(points):] if "own" in mark["class"].split()]
        self.assertEqual(sorted(ringed), sorted(points[number - 1]["time_to_train_s"] for number in front))
        self.assertEqual(sorted(int(row["point"]) for row in self.rows_of(page, "front")), front)

    def test_a_sweep_of_words_and_of_many_points_stays_a_page(self):
        page = self.report("sweep", self.job, "--set=allreduce.grid=null", "--list", "allreduce.algorithm=ring,torus2d", "-banalytic")
        self.assertEqual(len(page.marks("time_to_train_s")), 4)
        words = ("sweep", self.job, "--scan=baseline.nodes=1..4", "--list=allreduce.algorithm=ring,torus2d", "-banalytic",
                 "--set=allreduce.grid=null", "--scan=training.phases[1].batch_per_device=1..32", "--list")
        page = self.report(*words, "cluster.platform=abci")
        self.assertIn("and 196 more rows", page.words("p"))
        self.assertEqual(len(self.rows_of(page, "points")), 256)
        far = self.directory.joinpath(*["x" * 200] * 4)
        far.mkdir(parents=True)
        (far / "abci.yaml").write_text("extends: abci\n", encoding="utf-8")
        page = self.report(*words, f"cluster.platform={far / 'abci.yaml'}")
        self.assertIn("All rows are too many for a page: --csv writes them to a file.", page.words("p"))

    def test_a_failed_point_is_named_with_its_reason(self):
        page = self.report("sweep", self.job, "--list", "allreduce.grid.columns=4,5", "-banalytic")
        reason = next(p["reason"] for p in page.data()["points"] if p["reason"])
        self.assertIn(f"No answer to allreduce.grid.columns=5: {reason}", " ".join(page.words("p")))
        page = self.report("sweep", self.job, "--list", "allreduce.grid.columns=5,7", "-banalytic", codes=(65,))
        self.assertIn(f"No answer to allreduce.grid.columns=5: {reason}", " ".join(page.words("p")))

    def spans(self, *noises):
        """Files of four predicted steps, one for each noise."""
        files = [self.directory / noise for noise in noises]
        for file, noise in zip(files, noises):
            run("predict", self.job, "-banalytic", "--iterations=4", f"--noise={noise}",
                "--set=noise.compute_cv=20%", "--spans", file)
        return ("validate", self.job, "--predicted", files[0], "--measured", files[1])

    def test_a_validation_shows_both_sides(self):
        words = (*self.spans("expected", "drawn"), "--tolerance=50%")
        page = self.report(*words)
        result, data = answer(*words), page.data()
        for side, step in (("measured", result["rows"][0]["measured_s"]), ("predicted", result["rows"][0]["predicted_s"])):
            self.assertAlmostEqual(max(row["end_s"] for row in data.pop(f"{side}_lanes")) / step, 1, 2)
        self.assertEqual(data, result)
        step = result["rows"][0]["measured_s"]
        shown = [row for row in result["rows"] if max(row["predicted_s"], row["measured_s"]) >= 0.01 * step]
        self.assertTrue(4 < len(shown) < len(result["rows"]))
        for key in ("predicted_s", "measured_s", "lower_quartile_s"):
            marks = [float(mark["data-value"]) for mark in page.marks(key)]
            steps = result["step_times_s"] if key == "measured_s" else []
            self.assertEqual(marks, steps + [row[key] for row in shown])
        self.assertIn(f"Verdict with a tolerance of 50 %: {result['verdict']}.", page.words("p")[0])

    def test_without_a_job_there_are_no_lanes(self):
        page = self.report("validate", *self.spans("expected", "drawn")[2:], "--tolerance=50%")
        self.assertNotIn("measured_lanes", page.data())
        self.assertEqual(len(page.data()["step_times_s"]), 3)

    def test_a_negative_verdict_has_a_page_and_its_exit_code(self):
        page = self.report(*self.spans("none", "drawn"), "--tolerance=0.0001%", codes=(1, 75))
        self.assertIn(page.data()["verdict"], ("fail", "disturbed"))
