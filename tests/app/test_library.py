"""libforetrain: foretrain.h, its example, and the Python module over it."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import unittest

import harness
import support
from support import ROOT, answer

harness.needs_library()

BUILD = pathlib.Path(support.PROGRAM).parent
LIBRARY = BUILD / "libforetrain.so.0"
EXAMPLE = os.environ.get("EXAMPLE", "")
os.environ["FORETRAIN_LIBRARY"] = str(LIBRARY)
sys.path.insert(0, str(ROOT / "app" / "library"))
import foretrain  # noqa: E402 pylint: disable=wrong-import-position

SPREAD = "version: 1\nextends: abci\nname: mine\ndescription: mine\n"


def lines(*words):
    """What a program prints, by lines."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()


class Library(support.Case):
    """The answer is that of the command line, from wherever the job is."""

    def test_it_answers_as_the_command_line_does(self):
        self.assertEqual(foretrain.predict(self.job), answer("predict", self.job, "-banalytic"))
        self.assertEqual(foretrain.version, support.run("--version").stdout.split()[1])

    def test_values_are_set(self):
        found = foretrain.predict(self.job, nodes=8, values={"allreduce.grid": None, "device.memory": "80GB"})
        self.assertEqual(found, answer("predict", self.job, "-banalytic", "--set=cluster.nodes=8",
                                       "--set=allreduce.grid=null", "--set=device.memory=80GB"))

    @unittest.skipUnless(support.has_simulator(), "built without SimGrid")
    def test_a_caller_that_starts_programs_has_the_simulator(self):
        self.assertEqual(foretrain.predict(self.job, backend="sim"), answer("predict", self.job))

    def test_a_job_of_memory_is_drawn_again(self):
        text = support.JOB + "input: {workers: 4, rate: {low: 900 images/s, high: 9000 images/s}}\n"
        path = self.write("memory.yaml", text)
        expected = foretrain.predict(path)
        path.unlink()
        self.assertGreater(expected["draws"]["count"], 200)
        self.assertEqual(foretrain.predict(path, text=text), expected)

    def test_documents_are_opened_by_the_caller_alone(self):
        asked = []

        def get(name):
            asked.append(name)
            for folder in ("", "devices"):
                path = ROOT / "platforms" / folder / f"{name}.yaml"
                if path.is_file():
                    return path.read_text("utf-8")
            return {"job": support.JOB.replace("platform: abci", "platform: mine"), "mine": SPREAD}.get(name)
        self.assertEqual(foretrain.predict("job", files=get)["step_s"], foretrain.predict(self.job)["step_s"])
        self.assertEqual(set(asked), {"job", "mine", "abci", "v100-sxm2-16gb"})
        with self.assertRaisesRegex(foretrain.Error, "cannot read 'abci'") as failed:
            foretrain.predict("job", files={"job": support.JOB})
        self.assertEqual(failed.exception.code, 66)

    def test_errors_say_where(self):
        for text, code, where in ((support.JOB.replace("nodes: 4", "nods: 4"), 65, r"^j\.yaml:3:30: error: "),
                                  (support.JOB.replace("abci", "abcj"), 66, r"^j\.yaml:3:24: error: there is no")):
            with self.assertRaisesRegex(foretrain.Error, where) as failed:
                foretrain.predict("j.yaml", text=text)
            self.assertEqual(failed.exception.code, code)
        for words in {"backend": "gpu"}, {"node": 3}:
            with self.assertRaisesRegex(foretrain.Error, "is not known here: ") as failed:
                foretrain.predict(self.job, **words)
            self.assertEqual(failed.exception.code, 64)

    def test_draws_are_those_of_the_interval(self):
        found = foretrain.predict(self.job, draws=True)
        steps = sorted(found["step_draws_s"])
        self.assertEqual(len(steps), found["draws"]["count"])
        at = 0.05 * (len(steps) - 1)
        low = steps[int(at)] + at % 1 * (steps[int(at) + 1] - steps[int(at)])
        self.assertAlmostEqual(found["step_s_low"] / low, 1, 12)

    def test_threads_have_answers_of_their_own(self):
        found = {}

        def predict(nodes):
            found[nodes] = foretrain.predict(self.job, nodes=nodes, values={"allreduce.grid": None})
        threads = [threading.Thread(target=predict, args=(nodes,)) for nodes in (1, 2, 4, 8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for nodes, result in found.items():
            self.assertEqual(result, foretrain.predict(self.job, nodes=nodes, values={"allreduce.grid": None}))

    def test_the_example_prints_three_answers(self):
        job = self.write("free.yaml", support.JOB.replace("grid: {columns: 4, rows: 4}, ", ""))
        documents = [json.loads(line) for line in "".join(lines(EXAMPLE, str(job))).replace("}{", "}\n{").splitlines()]
        self.assertEqual([one["nodes"] for one in documents], [1, 2, 4])
        done = self.execute(66, EXAMPLE, "none.yaml")
        self.assertEqual(done.stdout, "")
        self.assertIn("none.yaml", done.stderr)


    def test_a_copied_tree_works(self):
        tree = self.directory / "tree"
        for source, place in ((LIBRARY, "lib"), (ROOT / "app/library/foretrain.py", "lib/python3")):
            (tree / place).mkdir(parents=True)
            shutil.copy(source, tree / place)
        shutil.copytree(ROOT / "platforms", tree / "share" / "foretrain" / "platforms")
        own = tree / "share" / "foretrain" / "platforms" / "abci.yaml"
        own.write_text(own.read_text("utf-8").replace("name: abci", "name: copied"), encoding="utf-8")
        asked = f"import foretrain; print(foretrain.predict({str(self.job)!r})['platform'])"
        env = {key: value for key, value in os.environ.items() if key not in ("FORETRAIN_LIBRARY", "FORETRAIN_DATADIR")}
        done = subprocess.run([sys.executable, "-c", asked], cwd="/", env={**env, "PYTHONPATH": tree / "lib/python3"},
                              check=True, capture_output=True, text=True)
        self.assertEqual(done.stdout, "copied\n")


class Linked(unittest.TestCase):
    """What the programs and the library need: docs/DESIGN.md, section 1, and NOTICE."""

    MAY = {"foretrain": {"fyaml", "jansson", "md", "xxhash", "z", "m", "jpeg", "png16", "webp", "gsl",
                         "archive", "hwloc", "c"},
           "foretrain-sim": {"fyaml", "jansson", "md", "xxhash", "m", "simgrid", "c"},
           "libforetrain.so.0": {"fyaml", "jansson", "md", "m", "c"}}
    NEVER = {"foretrain-exec": {"gsl", "gslcblas", "simgrid"}, "foretrain-onnx": {"gsl", "simgrid"}}
    SANITIZERS = {"asan", "ubsan", "tsan", "gcov"}

    def needed(self, name):
        """The libraries that a file names, without "lib" and version."""
        found = [line.split("[lib")[1].split(".so")[0] for line in lines("readelf", "-d", BUILD / name)
                 if "(NEEDED)" in line and "[lib" in line]
        self.assertTrue(found)
        return {one.split("-")[0] for one in found} - self.SANITIZERS

    def test_each_links_what_it_may(self):
        for name, may in self.MAY.items():
            if (BUILD / name).exists():
                self.assertLessEqual(self.needed(name), may, name)
        for name, never in self.NEVER.items():
            if (BUILD / name).exists():
                self.assertFalse(self.needed(name) & never, name)

    def test_the_library_shows_its_own_names_alone(self):
        shown = [line.split()[-1] for line in lines("nm", "-D", "--defined-only", LIBRARY)]
        header = (ROOT / "app" / "library" / "foretrain.h").read_text("utf-8")
        self.assertTrue(shown)
        for name in shown:
            self.assertIn(f"{name}(", header)

    @unittest.skipIf(support.SANITIZED, "a sanitizer brings its own")
    def test_the_library_ends_and_starts_nothing_and_keeps_nothing(self):
        asked = {line.split()[-1].split("@")[0] for line in lines("nm", "-D", "--undefined-only", LIBRARY)}
        self.assertFalse(asked & {"exit", "_exit", "fork", "vfork", "posix_spawn", "execv", "execve", "execvp", "system",
                                  "popen", "stdout", "stderr", "printf", "puts", "putchar", "perror", "setenv",
                                  "signal", "sigaction"})
        kept = [line.split()[-1] for line in lines("nm", LIBRARY) if line.split()[-2] in "bBC"]
        self.assertEqual([name for name in kept if not name.startswith("completed.")], [])  # the compiler's own
