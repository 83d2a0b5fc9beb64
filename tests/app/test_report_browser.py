#!/usr/bin/env python3
"""Pages of --report in a browser: no request, no message, nothing cut or on top of each other."""
import html
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import unittest

import page as pages
import support
from support import answer, run

BROWSER = next((found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found), None)
LIMIT_S = 300  # only a browser that hangs takes so long

# Measures the page in a frame of each width, and prints what it finds as JSON.
PROBE = """<!DOCTYPE html><meta charset="utf-8"><body><pre id="found"></pre><script>
const widths = [320, 768, 1200], found = {};
const box = (e, f) => { const r = e.getBoundingClientRect(); return { e, l: r.left, r: r.right, t: r.top, b: r.bottom }; };
const name = b => b.e.textContent;
const light = c => { const v = c.match(/[\\d.]+/g).map(Number).slice(0, 3).map(x => x / 255).map(
  x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
function measure(frame) {
  const page = frame.contentDocument, view = frame.contentWindow, paper = view.getComputedStyle(page.body).backgroundColor;
  const result = { wide: page.documentElement.scrollWidth - view.innerWidth, cut: [], over: [], small: [], pale: [], paper };
  for (const svg of page.querySelectorAll("svg.chart")) {
    const frameBox = box(svg.parentElement), texts = [...svg.querySelectorAll("text")].map(e => box(e));
    const scrolls = svg.parentElement.scrollWidth > svg.parentElement.clientWidth;
    for (const t of texts) {
      if (t.l < frameBox.l - 1 || (!scrolls && t.r > frameBox.r + 1) || t.b > frameBox.b + 1) result.cut.push(name(t));
      if (parseFloat(view.getComputedStyle(t.e).fontSize) < 12) result.small.push(name(t));
      if (contrast(view.getComputedStyle(t.e).fill, paper) < 4.5) result.pale.push(name(t));
      for (const o of texts) if (o !== t && t.l < o.r - 1 && o.l < t.r - 1 && t.t < o.b - 2 && o.t < t.b - 2)
        result.over.push(name(t) + " | " + name(o));
    }
    for (const mark of svg.querySelectorAll("[data-value]"))
      if (contrast(view.getComputedStyle(mark).fill, paper) < 3) result.pale.push(mark.outerHTML);
  }
  for (const e of page.querySelectorAll("p, li, td, th, h1, h2, summary"))
    if (contrast(view.getComputedStyle(e).color, paper) < 4.5) result.pale.push(e.textContent);
  result.figures = [...page.querySelectorAll("figure svg.chart")].filter(e => box(e).b > box(e).t + 40).length;
  result.ran = page.querySelectorAll(".tip").length > 0 && typeof view.show === "function";
  const row = page.querySelector("tr[data-bucket]");
  if (row && "SCRIPT" !== "no") {
    page.querySelectorAll("details").forEach(d => d.open = true);
    row.cells[0].dispatchEvent(new view.Event("click", { bubbles: true }));
    result.lit = page.querySelectorAll("rect.on").length;
    const bar = page.querySelector("rect[data-bucket]");
    bar.dispatchEvent(new view.Event("click", { bubbles: true }));
    result.tip = bar.closest("figure").querySelector(".tip").textContent;
  }
  return result;
}
let left = widths.length;
for (const width of widths) {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:900px;border:0`;
  frame.onload = () => {
    try { found[width] = measure(frame); } catch (error) { found[width] = { error: String(error) }; }
    if (--left === 0) document.getElementById("found").textContent = JSON.stringify(found);
  };
  if ("SCRIPT" === "no") frame.sandbox = "allow-same-origin";
  frame.src = "PAGE";
  document.body.append(frame);
}
</script></body>"""

# Moves sliders and prints what the page says before, after, and where the core refuses.
SLIDE = """<!DOCTYPE html><meta charset="utf-8"><body><pre id="found"></pre><iframe src="PAGE"></iframe><script>
const frame = document.querySelector("iframe"), wait = () => new Promise(resolve => setTimeout(resolve, 50));
frame.onload = async () => {
  const page = frame.contentDocument, view = frame.contentWindow, told = [];
  const said = () => page.getElementById("whatif-said").textContent;
  const cells = () => Object.fromEntries([...page.querySelectorAll("[data-now]")].map(cell => [cell.dataset.now, cell.dataset.number]));
  const ready = async () => { for (let i = 0; i < 300 && !page.querySelector("[data-number]") && !said(); i++) await wait(); };
  const move = async (name, value) => {
    const input = page.querySelector(`[name="${name}"]`);
    input.value = value;
    input.dispatchEvent(new view.Event("input", { bubbles: true }));
    await wait(); await wait(); await wait();
    told.push({ name, said: said(), words: input.previousSibling.textContent, ...cells() });
  };
  await ready();
  told.push({ said: said(), ...cells() });
  for (const [name, value] of MOVES) await move(name, value);
  document.getElementById("found").textContent = JSON.stringify(told);
};
</script></body>"""


class Counter(http.server.BaseHTTPRequestHandler):
    """A proxy that notes what is asked for and gives nothing."""
    asked = []

    def do_GET(self):
        """Note it."""
        self.asked.append(self.path)
        self.send_error(404)

    do_CONNECT = do_POST = do_HEAD = do_GET

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        """Say nothing."""


class Browser(support.Case):
    """Each page that is opened must be silent."""

    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counter)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()

    def browse(self, path, *flags):
        """Standard output, what the console and the proxy got."""
        Counter.asked.clear()
        profile = self.directory / "profile"
        command = [BROWSER, "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                   "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions",
                   "--disable-dev-shm-usage", "--allow-file-access-from-files", "--enable-logging=stderr",
                   f"--user-data-dir={profile}", f"--proxy-server=127.0.0.1:{self.server.server_port}",
                   "--proxy-bypass-list=<-loopback>", *(["--no-sandbox"] if os.geteuid() == 0 else []), *flags,
                   path.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        # What the browser itself wants to know of its maker is not the page's.
        asked = [url for url in Counter.asked if not re.search(r"google|gvt1|chromium", url)]
        return done.stdout, console, asked

    def measure(self, path, *flags, script="yes"):
        """What the probe finds at each width."""
        probe = self.write("probe.html", PROBE.replace("PAGE", path.as_uri()).replace("SCRIPT", script))
        dom, console, asked = self.browse(probe, "--dump-dom", "--virtual-time-budget=20000", *flags)
        if script == "no":  # the browser says once a frame that it runs nothing
            console = [line for line in console if "Blocked script execution" not in line]
        self.assertEqual((console, asked), ([], []))
        return json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', dom, re.S)[1]))

    def pages(self):
        """A page of each command."""
        spans = self.directory / "spans"
        learning = support.ROOT / "experiments" / "03_learning" / "procedural.yaml"
        run("predict", self.job, "-banalytic", "--iterations=4", "--spans", spans)
        unknown = ("--set=allreduce.bucket={low: 1 MiB, high: 16 MiB}", "--set=allreduce.grid=null")
        for command, words in (
                ("predict", (self.job, "-banalytic", *unknown, "--nodes=64", "--set=platform.node.mtbf=20h",
                             "--set=training.checkpoint.cost=20 s")),
                ("compare", (self.job, self.job, "-banalytic", "--prices=example-v100", "--set-b=training.startup=30 min")),
                ("sweep", (self.job, "-banalytic", "--scan=cluster.nodes=1..64:x2", "--set=allreduce.grid=null",
                           "--list=allreduce.algorithm=torus2d,ring,tree")),
                ("plan", (self.job, "-banalytic", "--within=10 h", "--platforms=abci,dgx-a100", "--nodes=2..64:x2",
                          "--batch=32", "--buckets=4MiB", "--prices=example-v100")),
                ("validate", (self.job, "--predicted", spans, "--measured", spans)),
                ("train", (learning, "-n1", "--device=cpu-naive", "--steps=5", "-q", "--out", self.directory / "out",
                           "--set=training.dataset.validation_images=8", "--set=training.phases[0].global_batch=8"))):
            if command == "plan" and "not in this build" in run("plan", "--help").stdout:
                continue
            path = self.directory / f"{command}.html"
            if not path.exists():
                done = run(command, *words, "--report", path)
                self.assertEqual(done.returncode, 0, done.stderr)
            yield command, path

    def test_nothing_is_cut_or_pale_or_on_top_of_something_else(self):
        for command, path in self.pages():
            for dark in (False, True):
                found = self.measure(path, *(["--blink-settings=preferredColorScheme=0"] if dark else []))
                for width, result in found.items():
                    told = (command, dark, width)
                    self.assertNotIn("error", result, told)
                    self.assertLessEqual(result["wide"], 0, told)
                    self.assertTrue(result["ran"], told)
                    for fault in ("cut", "over", "small", "pale"):
                        self.assertEqual(result[fault], [], (*told, fault))
                    self.assertEqual(result["paper"] == "rgb(255, 255, 255)", not dark)

    def test_a_bucket_lights_up_in_all_lanes(self):
        path = self.directory / "page.html"
        self.assertEqual(run("predict", self.job, "-banalytic", "--report", path).returncode, 0)
        for result in self.measure(path).values():
            self.assertGreaterEqual(result["lit"], 4)  # backward and three parts of an all-reduce
            self.assertRegex(result["tip"], r"^rank \d+, .*bucket 0: ")

    @unittest.skipUnless(answer("env")["sliders"]["found"], "built without WebAssembly")
    def test_sliders_move_the_prediction(self):
        path = self.directory / "sliders.html"
        run("predict", self.job, "-banalytic", "--report", path)
        whatif = pages.Page(path.read_text(encoding="utf-8")).data("whatif-data")
        places = {control["key"]: control for control in whatif["controls"]}
        nic, algorithm, grid = "platform.network.nic.bandwidth", "allreduce.algorithm", "allreduce.grid"
        moves = [(nic, 0), (nic, places[nic]["start"]), ("cluster.nodes", 0), (grid, 0), ("cluster.nodes", 2), (algorithm, 0)]
        probe = self.write("slide.html", SLIDE.replace("PAGE", path.as_uri()).replace("MOVES", json.dumps(moves)))
        dom, console, asked = self.browse(probe, "--dump-dom", "--virtual-time-budget=60000")
        self.assertEqual((console, asked), ([], []))
        found = json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', dom, re.S)[1]))
        numbers = [{key: float(one[key]) for key in whatif["closed_form"] if one[key]} for one in found]
        self.assertEqual(numbers[0], whatif["closed_form"])
        self.assertEqual(numbers[2], numbers[0])
        for one, sets in ((1, [f"--set={nic}=1.5625 GB/s"]), (3, ["--set=cluster.nodes=1", "--set=allreduce.grid=null"])):
            step = answer("predict", self.job, "-banalytic", *sets)["step"]["time_s"]
            self.assertAlmostEqual(numbers[one]["step_s"] / step, 1, delta=1e-9)
        self.assertEqual(found[1]["words"], "1.562 GB/s")
        self.assertEqual(numbers[4], {})
        self.assertIn("grid", found[4]["said"])  # a grid of 16 for the devices of one node
        self.assertEqual([bool(one["said"]) for one in found], [False, False, False, False, True, False, True])

    def test_rounds_of_an_all_reduce_are_played(self):
        path = self.directory / "motion.html"
        run("show", "collective", "--algorithm=torus2d", "--grid=4x2", "--animate", path)
        for after, said in (("", "torus2d: round 1 of 8, reduce-scatter in rows"),
                            ("#5", "torus2d: round 5 of 8, all-reduce in columns")):
            probe = self.write("probe.html", f'<iframe src="{path.as_uri()}{after}"></iframe>')
            dom, console, asked = self.browse(path, "--dump-dom", "--virtual-time-budget=5000") if not after else \
                self.browse(probe, "--dump-dom", "--virtual-time-budget=5000")
            self.assertEqual((console, asked), ([], []))
            self.assertTrue(after or said in dom)
            self.assertTrue(after or dom.count("<circle") == 16)  # a message of each rank, twice

    def test_it_is_complete_without_scripts_and_on_paper(self):
        for command, path in self.pages():
            figures = path.read_text(encoding="utf-8").count("<figure>")
            for result in self.measure(path, script="no").values():
                self.assertEqual((result["ran"], result["figures"]), (False, figures), command)
            paper = self.directory / "page.pdf"
            self.browse(path, f"--print-to-pdf={paper}")
            self.assertTrue(paper.read_bytes().startswith(b"%PDF"))

    def test_a_page_that_was_tampered_with_is_found_out(self):
        good = next(path for _, path in self.pages()).read_text(encoding="utf-8")
        outside = '<img src="http://spy.invalid/spy">'
        blocked = self.write("blocked.html", good.replace("</main>", outside + "<script>document.title = 1</script></main>"))
        dom, console, asked = self.browse(blocked, "--dump-dom")
        self.assertEqual(len(console), 2, console)  # the picture and the script
        self.assertTrue(all("Content Security Policy" in line for line in console), console)
        self.assertEqual(asked, [])
        self.assertNotIn("<title>1</title>", dom)
        changed = self.write("changed.html", good.replace('"use strict";', '"use strict"; ', 1))
        self.assertEqual(len(self.browse(changed, "--dump-dom")[1]), 1)
        open_page = self.write("open.html", re.sub("<meta http-equiv.*?>", "", good).replace("</main>", outside + "</main>"))
        self.assertEqual(self.browse(open_page, "--dump-dom")[2], ["http://spy.invalid/spy"])
        wide = self.write("wide.html", good.replace("<h1>", "<h1><svg width='2000'></svg>"))
        self.assertGreater(self.measure(wide)["320"]["wide"], 0)
        cut = self.write("cut.html", re.sub("<meta http-equiv.*?>", "", good).replace("margin-left: 4.6rem", "margin-left: 2rem"))
        self.assertIn("compute", self.measure(cut)["1200"]["cut"])


if __name__ == "__main__":
    if not BROWSER:
        print("no browser: install chromium (docs/HACKING.md) to test pages in one")
        sys.exit(77)
    unittest.main()
