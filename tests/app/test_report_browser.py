"""Pages of --report in a browser: no request, no message, nothing cut or on top of each other."""
import json
import pathlib
import re
import tempfile
import unittest

import browser
import page as pages
import support
from support import answer, run, skip

if not browser.PATH:
    skip("no browser: install chromium (docs/HACKING.md) to test pages in one")

# What is wrong with the page as it is shown.
PROBE = """(() => {
const box = (e, f) => { const r = e.getBoundingClientRect(); return { e, l: r.left, r: r.right, t: r.top, b: r.bottom }; };
const name = b => b.e.textContent;
const light = c => { const v = c.match(/[\\d.]+/g).map(Number).slice(0, 3).map(x => x / 255).map(
  x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const paper = getComputedStyle(document.body).backgroundColor;
const result = { wide: document.documentElement.scrollWidth - innerWidth, cut: [], over: [], small: [], pale: [], paper };
for (const svg of document.querySelectorAll("svg.chart")) {
  const frameBox = box(svg.parentElement), texts = [...svg.querySelectorAll("text")].map(e => box(e));
  const scrolls = svg.parentElement.scrollWidth > svg.parentElement.clientWidth;
  for (const t of texts) {
    if (t.l < frameBox.l - 1 || (!scrolls && t.r > frameBox.r + 1) || t.b > frameBox.b + 1) result.cut.push(name(t));
    if (parseFloat(getComputedStyle(t.e).fontSize) < 12) result.small.push(name(t));
    if (contrast(getComputedStyle(t.e).fill, paper) < 4.5) result.pale.push(name(t));
    for (const o of texts) if (o !== t && t.l < o.r - 1 && o.l < t.r - 1 && t.t < o.b - 2 && o.t < t.b - 2)
      result.over.push(name(t) + " | " + name(o));
  }
  for (const mark of svg.querySelectorAll("[data-value]"))
    if (contrast(getComputedStyle(mark).fill, paper) < 3) result.pale.push(mark.outerHTML);
}
for (const e of document.querySelectorAll("p, li, td, th, h1, h2, summary"))
  if (contrast(getComputedStyle(e).color, paper) < 4.5) result.pale.push(e.textContent);
result.hidden = innerWidth > 320 && innerWidth < 1200 ? [] : [...document.querySelectorAll(".scroll > table")].map(e => e.parentElement)
  .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent);
result.figures = [...document.querySelectorAll("figure svg.chart")].filter(e => box(e).b > box(e).t + 40).length;
result.words = [...document.querySelectorAll("dt")].filter(e => document.querySelector(`abbr[title="${CSS.escape(e.nextElementSibling.textContent)}"]`)).length;
result.ran = document.querySelectorAll(".tip").length > 0 && typeof show === "function";
return result; })()"""

# Points at a row of a table, then at a piece of a lane.
POINT = """(() => {
document.querySelectorAll("details").forEach(d => d.open = true);
document.querySelector("tr[data-bucket]").cells[0].dispatchEvent(new Event("click", { bubbles: true }));
const lit = document.querySelectorAll("rect.on").length, bar = document.querySelector("rect[data-bucket]");
bar.dispatchEvent(new Event("click", { bubbles: true }));
return { lit, tip: bar.closest("figure").querySelector(".tip").textContent }; })()"""

# Moves sliders; what the page says before, after, and where the core refuses.
SLIDE = """(async () => {
const wait = () => new Promise(resolve => setTimeout(resolve, 10)), told = [];
const said = () => document.getElementById("whatif-said")?.textContent;
const cells = () => Object.fromEntries([...document.querySelectorAll("[data-now]")].map(cell => [cell.dataset.now, cell.dataset.number]));
while (!said()) await wait();
const nameless = [...document.querySelectorAll("#whatif :is(input, select)")].filter(e => e.labels.length !== 1 || (e.type === "range" && !e.ariaValueText));
told.push({ said: said(), grid: document.querySelector("[name='allreduce.grid']").nextSibling.textContent, nameless: nameless.length, ...cells() });
for (const [name, value] of MOVES) {
  const input = document.querySelector(`[name="${name}"]`);
  input.value = value;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  await wait(); // behind what the page itself waits for
  for (let i = 0; i < 100 && !document.querySelector("figure[data-picture=curve] .legend"); i++) await wait();
  told.push({ name, said: said(), lines: [...document.querySelectorAll("figure[data-picture=curve] .legend li")].map(e => e.textContent),
    grid: document.querySelector("[name='allreduce.grid']").nextSibling.textContent, words: input.nextSibling.textContent, heard: input.ariaValueText,
    bars: document.querySelectorAll("figure[data-picture=memory] text.end").length, ...cells() });
}
return told; })()"""

# What the axis of the lanes says, from where to where, and where the names and the first piece are.
AXIS = """(async () => {
for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame); // behind the event of a box that scrolled
const svg = document.querySelector("svg.lanes"), box = svg.parentElement.getBoundingClientRect();
const ticks = [...svg.querySelectorAll(".ticks text")], place = e => e.getBoundingClientRect();
return { words: ticks.map(e => e.textContent), at: ticks.map(e => (place(e).left + place(e).right) / 2), box: [box.left, box.right],
  names: place(svg.querySelector(".names text")).left, top: box.top, bottom: box.bottom,
  pieces: [...svg.querySelectorAll("rect[data-key]")].map(e => [Number(e.dataset.value), place(e).right]) }; })()"""

# Covers the later half of a step in both pictures, then plays what is left.
PLAY = """(async () => {
const input = document.querySelector("figure[data-picture=measured_lanes] input"), button = input.previousElementSibling, told = [];
const tell = () => told.push([button.textContent, input.value, input.ariaValueText, ...[...document.querySelectorAll(".cover")].map(e => e.getAttribute("width"))]);
tell();
input.value = 500;
input.dispatchEvent(new Event("input"));
tell();
whole = 100;
button.click();
tell();
while (button.textContent === "pause") await new Promise(requestAnimationFrame);
tell();
return told; })()"""


class Browser(support.Case):
    """Each page that is opened must be silent."""

    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.made = cls.make(pathlib.Path(directory.name))

    @staticmethod
    def make(directory):
        """A page of each command, by its name."""
        job, spans, made = directory / "job.yaml", directory / "spans", {}
        job.write_text(support.JOB, encoding="utf-8")
        run("predict", job, "-banalytic", "--iterations=4", "--spans", spans)
        unknown = ("--set=allreduce.bucket={low: 1 MiB, high: 16 MiB}", "--set=allreduce.grid=null")
        for command, words in (
                ("predict", (job, "-banalytic", *unknown, "--nodes=64", "--set=platform.node.mtbf=20h",
                             "--set=training.checkpoint.cost=20 s")),
                ("compare", (job, job, "-banalytic", "--prices=example-v100", "--set-b=training.startup=30 min")),
                ("sweep", (job, "-banalytic", "--scan=cluster.nodes=1..64:x2", "--set=allreduce.grid=null",
                           "--list=allreduce.algorithm=torus2d,ring,tree")),
                ("plan", (job, "-banalytic", "--within=10 h", "--platforms=abci,dgx-a100", "--nodes=2..64:x2",
                          "--batch=32", "--buckets=4MiB", "--prices=example-v100")),
                ("validate", (job, "--predicted", spans, "--measured", spans))):
            if command == "plan" and "not in this build" in run("plan", "--help").stdout:
                continue
            made[command] = directory / f"{command}.html"
            done = run(command, *words, "--report", made[command])
            assert done.returncode == 0, done.stderr
        return made

    def silent(self):
        """Nothing was said and asked for."""
        self.assertEqual(self.browser.heard(), ([], []))

    def controls(self):
        """How many controls assistive technology finds; each must have a name, and a slider a value in words."""
        found = [node for node in self.browser.ask("Accessibility.getFullAXTree")["nodes"] if not node["ignored"] and
                 node["role"]["value"] in ("button", "slider", "combobox", "link", "textbox", "checkbox", "DisclosureTriangle")]
        for node in found:
            self.assertTrue(node["name"]["value"].strip(), node)
            self.assertTrue(node["role"]["value"] != "slider" or node["value"]["value"] != "", node)
        return len(found)

    def measure(self, path, dark=False, script=True):
        """What is found at each width, which is yielded."""
        self.browser.look(320, dark)
        self.browser.open(path, script=script)
        for width in (320, 768, 1200):
            self.browser.look(width, dark)
            yield width, self.browser.run(PROBE)
        self.silent()

    def test_nothing_is_cut_or_pale_or_on_top_of_something_else(self):
        for command, path in self.made.items():
            for dark in (False, True):
                for width, result in self.measure(path, dark):
                    told = (command, dark, width)
                    self.assertLessEqual(result["wide"], 0, told)
                    self.assertTrue(result["ran"], told)
                    for fault in ("cut", "over", "small", "pale"):
                        self.assertEqual(result[fault], [], (*told, fault))
                    if command != "sweep":  # its columns are as wide as the keys that name them
                        self.assertEqual(result["hidden"], [], told)
                    self.assertGreater(result["words"], 2, told)
                    self.assertEqual(result["paper"] == "rgb(255, 255, 255)", not dark)
                    self.assertEqual(result["figures"], path.read_text(encoding="utf-8").count("<figure "), told)
                self.assertGreater(self.controls(), 1, command)

    def test_a_bucket_lights_up_in_all_lanes(self):
        self.browser.open(self.made["predict"])
        found = self.browser.run(POINT)
        self.assertGreaterEqual(found["lit"], 4)  # backward and three parts of an all-reduce
        self.assertRegex(found["tip"], r"^rank \d+, .*bucket 0: ")
        self.silent()

    def axis(self):
        """The ticks of the lanes [s], each where the pieces are that end then, and one in sight."""
        found = self.browser.run(AXIS)
        ticks = [pages.seconds(text) for text in found["words"]]
        (first, x), (last, y) = min(found["pieces"]), max(found["pieces"])
        for tick, at in zip(ticks, found["at"]):
            self.assertAlmostEqual(at, x + (tick - first) / (last - first) * (y - x), delta=1)
        self.assertTrue(found["box"][0] <= found["names"] <= found["box"][0] + 5, found["names"])
        self.assertTrue(any(found["box"][0] <= at <= found["box"][1] for at in found["at"]), found["at"])
        return ticks, found

    def test_a_step_is_zoomed_and_its_axis_follows(self):
        for width in (320, 1200):
            self.browser.look(width)
            self.browser.open(self.made["predict"])
            self.browser.run("document.querySelector('svg.lanes').scrollIntoView({block: 'center'})")
            whole, found = self.axis()
            wheel = {"type": "mouseWheel", "x": found["box"][0] + 100, "y": (found["top"] + found["bottom"]) / 2, "deltaX": 0}
            self.browser.ask("Input.dispatchMouseEvent", **wheel, deltaY=-1200, modifiers=2)  # with Ctrl: 64 times
            near, found = self.axis()
            self.assertTrue(near)
            self.assertTrue(width == 320 or 0 < near[-1] - near[0] < whole[1] / 4, (whole, near))
            self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth - innerWidth"), 0)
            self.browser.run("document.querySelector('svg.lanes').parentElement.focus()")
            self.browser.press("-")
            wider = self.axis()[0]
            self.assertTrue(width == 320 or wider[-1] - wider[0] > near[-1] - near[0], (near, wider))
            self.browser.press("0")
            self.assertEqual(self.axis()[0], whole)
            self.browser.run("document.querySelector('.controls button').click()")
            clicked = self.axis()[0]
            self.assertLess(clicked[1] - clicked[0], whole[1] - whole[0])
            self.browser.run("dispatchEvent(new Event('beforeprint'))")
            self.assertEqual(self.axis()[0], whole)
            self.silent()

    def test_a_step_is_played_as_predicted_and_as_measured(self):
        self.browser.open(self.made["validate"])
        before, half, plays, after = self.browser.run(PLAY)
        self.assertEqual([(one[0], one[1]) for one in (before, half, plays, after)],
                         [("play", "1000"), ("play", "500"), ("pause", "500"), ("play", "1000")])
        self.assertEqual([one[3:] for one in (before, half)], [["0.0000%"] * 2, ["50.0000%"] * 2])
        self.assertEqual(after, before)
        whole, part = (pages.seconds(re.match(r"Until (\S+\s\S+) there is nothing to compute in \d+\s% of the time", one[2])[1]) for one in (before, half))
        self.assertAlmostEqual(part / whole, 0.5, delta=1e-3)
        self.silent()

    @unittest.skipUnless(support.part("sliders"), "built without WebAssembly")
    def test_sliders_move_the_prediction(self):
        path = self.directory / "sliders.html"
        run("predict", self.job, "-banalytic", "--report", path)
        whatif = pages.Page(path.read_text(encoding="utf-8")).data("whatif-data")
        places = {control["key"]: control for control in whatif["controls"]}
        nic, algorithm, grid = "platform.network.nic.bandwidth", "allreduce.algorithm", "allreduce.grid"
        moves = [(nic, 0), (nic, places[nic]["start"]), ("cluster.nodes", 0), (grid, 0), ("cluster.nodes", 2), (algorithm, 0)]
        self.browser.open(path)
        found = self.browser.run(SLIDE.replace("MOVES", json.dumps(moves)))
        self.silent()
        result = answer("predict", self.job, "-banalytic")
        keys = ("step_s", "images_per_s", "scaling_efficiency", "time_to_train_s")
        numbers = [{key: float(one[key]) for key in keys if one[key]} for one in found]
        self.assertEqual(numbers[0], {key: result[key] for key in keys})
        self.assertEqual(numbers[2], numbers[0])
        for one, sets in ((1, [f"--set={nic}=1.5625 GB/s"]), (3, ["--set=cluster.nodes=1", "--set=allreduce.grid=null"])):
            step = answer("predict", self.job, "-banalytic", *sets)["step_s"]
            self.assertAlmostEqual(numbers[one]["step_s"] / step, 1, delta=1e-9)
        self.assertEqual((found[0]["nameless"], found[1]["words"], found[1]["heard"]), (0, "1.562 GB/s", "1.562 GB/s"))
        self.assertEqual((found[0]["grid"], found[3]["grid"]), ("used: 4x4", "used: 2x2"))
        self.assertEqual(found[1]["lines"], ["this job", "with the sliders"])
        self.assertEqual([one["bars"] for one in found[1:5]], [2, 1, 2, 1])  # of memory; what is refused has none
        self.assertEqual(numbers[4], {})
        self.assertIn("grid", found[4]["said"])  # a grid of 16 for the devices of one node
        self.assertEqual([one["said"].startswith("It is ") for one in found], [True, True, True, True, False, True, False])

    def test_rounds_of_an_all_reduce_are_played(self):
        path = self.directory / "motion.html"
        run("show", "collective", "--algorithm=torus2d", "--grid=4x2", "--animate", path)
        for after, said in (("", "torus2d: round 1 of 8, reduce-scatter in rows"),
                            ("#5", "torus2d: round 5 of 8, all-reduce in columns")):
            self.browser.open(path, place=after)
            self.assertIn(said, self.browser.run("document.body.textContent"))
            self.assertEqual(self.browser.run("document.querySelectorAll('path.way').length"), 16)  # a message of each rank, twice
            self.assertGreater(self.controls(), 5)
            self.browser.run("document.querySelectorAll('button')[2].click()")  # next
            while self.browser.run("document.querySelectorAll('button')[1].textContent") == "pause":
                pass
            self.assertIn(f"torus2d: round {int(after[1:] or 1) + 1} of 8", self.browser.run("document.querySelector('input').ariaValueText"))
            self.silent()

    def test_it_has_text_and_tables_without_scripts_and_on_paper(self):
        for command, path in self.made.items():
            for _, result in self.measure(path, script=False):
                self.assertEqual((result["ran"], result["figures"]), (False, 0), command)
            self.assertIn("the text and tables below do not", self.browser.run("document.body.innerText"))
            self.assertTrue(self.browser.paper().startswith(b"%PDF"))

    def found_out(self, name, text):
        """The page in @text is opened; what it says and asks for."""
        self.browser.look()
        self.browser.open(self.write(name, text))
        return self.browser.heard()

    def test_a_page_that_was_tampered_with_is_found_out(self):
        good = self.made["predict"].read_text(encoding="utf-8")
        outside, free = '<img src="http://spy.invalid/spy">', re.sub("<meta http-equiv.*?>", "", good)
        console, asked = self.found_out("blocked.html", good.replace(
            "</main>", outside + "<script>document.title = 1</script></main>"))
        self.assertEqual(len(console), 2, console)  # the picture and the script
        self.assertTrue(all("Content Security Policy" in line for line in console), console)
        self.assertEqual(asked, [])
        self.assertNotEqual(self.browser.run("document.title"), "1")
        said = self.found_out("changed.html", good.replace('"use strict";', '"use strict"; ', 1))[0]
        self.assertEqual(sum("Content Security Policy" in line for line in said), 1)
        self.assertEqual(self.found_out("open.html", free.replace("</main>", outside + "</main>"))[1], ["http://spy.invalid/spy"])
        wide = self.write("wide.html", good.replace("<h1>", "<h1><svg width='2000'></svg>"))
        self.assertGreater(next(self.measure(wide))[1]["wide"], 0)
        cut = self.write("cut.html", free.replace("margin-left: 4.6rem", "margin-left: 2rem"))
        self.assertIn("compute", dict(self.measure(cut))[1200]["cut"])
