"""Sliders of pages: the core that a page carries says what `predict --backend analytic` says."""
import itertools
import json
import shutil

import page as pages
import support
from support import good, run, skip

NODE = shutil.which("node") or shutil.which("nodejs") or skip("no node: install nodejs to test sliders")
if not support.part("sliders"):
    skip("built without WebAssembly (-Dwasm)")
HERE = support.ROOT / "tests" / "app"
KEYS = ("devices", "step_s", "images_per_s", "scaling_efficiency", "time_to_train_s")
STEP = ("compute_s", "exposed_communication_s")

# Everything that a bundle can hold: a file that another extends, a network file, a software profile,
# a global batch, a target, failures, a range.
BASE = """\
version: 1
model: {network: net.yaml, precision: {compute: fp16, gradients: fp16}}
cluster: {platform: dgx-h100, nodes: 2, software: mlperf-v4.0}
training:
  dataset: imagenet
  phases: [{epochs: 35, global_batch: 4096}]
  evaluate_every: 4 epochs
allreduce: {algorithm: ring, bucket: {low: 8 MiB, high: 64 MiB}}
baseline: {nodes: 1}
"""
EXTENDED = 'version: 1\nextends: base.yaml\ntraining: {startup: 2 min}  # "quoted" <words>\n'


class Sliders(support.Case):
    """Native predictions are what is expected."""

    def page(self, job, *words):
        """The page of a job, made once in a test."""
        path = self.directory / f"{job.stem}-{len(words)}.html"
        if path.exists():
            return path, pages.read(self, path)
        good("predict", job, "-banalytic", *words, "--report", path)
        return path, pages.read(self, path)

    def ask(self, path, points):
        """What the core in the page says to each point."""
        return json.loads(self.execute(0, NODE, HERE / "whatif.mjs", path, input=json.dumps(points)).stdout)

    def compare(self, job, words, points):
        """Both answer, and alike, or both refuse in the same words.  @return how many answered."""
        path, _ = self.page(job, *words)
        answered = 0
        for got in self.ask(path, points):
            sets = [f"--set={key}={value}" for key, value in got["sets"].items()]
            done = run("predict", job, "-banalytic", "--json", *words, *sets)
            if "error" in got:
                self.assertNotEqual(done.returncode, 0, got)
                said = got["error"].split("error: ")[-1]
                self.assertIn(said, done.stderr)
                continue
            self.assertEqual(done.returncode, 0, (got, done.stderr))
            want = json.loads(done.stdout)
            flat = {**{key: want[key] for key in KEYS}, **{key: want["step"][key] for key in STEP},
                    **{key: want["memory"][key] for key in ("weights_bytes", "optimizer_bytes", "activations_bytes", "reserve_bytes")}}
            for key, value in flat.items():
                self.assertLessEqual(abs(got[key]["value"] - value), 1e-9 * abs(value), (key, got["sets"]))
                self.assertTrue(not value or pages.says(got[key]["words"], value), (key, got[key]))
            self.assertTrue(got["images_per_s"]["words"].endswith(" images/s"), got["images_per_s"])
            answered += 1
        return answered

    def places(self, job, words=()):
        """Each value of each control, alone."""
        controls = self.page(job, *words)[1].data("whatif-data")["controls"]
        start = [control["start"] for control in controls]
        return [start[:i] + [k] + start[i + 1:] for i, control in enumerate(controls) for k in range(len(control["values"]))]

    def test_every_place_of_every_slider_is_a_prediction(self):
        places = self.places(self.job)
        self.assertGreater(self.compare(self.job, (), places), 40)
        self.assertEqual(self.compare(self.job, ("--set=allreduce.grid=8x2",), [{}]), 1)

    def test_points_of_several_changes(self):
        points = [{"cluster.nodes": nodes, "allreduce.bucket": f'"{bucket}"', "allreduce.algorithm": f'"{algorithm}"',
                   "allreduce.grid": "null", "training.phases[1].batch_per_device": batch}
                  for nodes, bucket, algorithm, batch in itertools.product(
                      ("1", "24", "256"), ("1 MiB", "32 MiB"), ("torus2d", "ring", "double-tree"), ("8", "64"))]
        self.assertEqual(self.compare(self.job, (), points[::5]), 8)  # each pair of values of neighbours

    def test_groups_of_nodes_may_have_fewer_uplinks(self):
        key, job = "platform.network.tiers[0].uplinks", self.write("large.yaml", support.JOB.replace("nodes: 4", "nodes: 68").replace(
            "grid: {columns: 4, rows: 4}, ", ""))
        path, page = self.page(job)
        control = next(control for control in page.data("whatif-data")["controls"] if control["key"] == key)
        self.assertEqual(control["values"][control["start"]][0], "24")  # platforms/abci.yaml
        self.assertEqual([value for value, _ in control["values"]], ["3", "6", "12", "24", "48", "96", "192"])
        self.assertEqual(self.compare(job, (), [{key: "3"}, {key: "1"}]), 2)
        steps = [one["step_s"]["value"] for one in self.ask(path, [{}, {key: "1"}])]
        self.assertGreater(steps[1], steps[0])

    def test_all_files_and_options_of_a_job_go_along(self):
        model = run("show", "model", "resnet50", "--yaml")
        self.write("net.yaml", model.stdout)
        self.write("base.yaml", BASE)
        job = self.write("<job>.yaml", EXTENDED)
        words = ("--set=platform.network.nic.bandwidth=200 Gb/s", "--set=device.memory=40 GB", "--set=training.startup=3 min",
                 "--noise=none", "--order=column")
        self.assertGreater(self.compare(job, words, self.places(job, words)[::12]), 3)

    def test_the_start_is_the_closed_form_of_the_page(self):
        path, page = self.page(self.job)
        start, = self.ask(path, [{}])
        result = page.data()["result"]
        for key in KEYS:
            self.assertEqual(result[key], start[key]["value"], key)
        if not support.has_simulator():
            return
        simulated = self.directory / "sim.html"
        run("predict", self.job, "-bsim", "--report", simulated)
        self.assertEqual(self.ask(simulated, [{}]), [start])

    def test_what_is_refused_is_said_in_words(self):
        path, _ = self.page(self.job)
        points = [{"cluster.nodez": "4"}, {"cluster.nodes": "0"}, {"cluster.nodes": "2"}, {"cluster.nodes": "\"two"}, {"allreduce": "[[["}]
        said = [one["error"] for one in self.ask(path, points)]
        self.assertIn("did you mean 'nodes'?", said[0])
        self.assertRegex(said[2], "grid")
        self.assertIn("a text does not end", said[3])

    def test_pages_without_sliders_have_no_core(self):
        path = self.directory / "plain.html"
        run("compare", self.job, self.job, "-banalytic", "--report", path)
        self.assertNotIn("wasm", path.read_text(encoding="utf-8"))
