#!/usr/bin/python3
"""Commands, options, help and exit codes."""
import csv
import io
import os
import re
import shutil
import sys
import unittest

import harness
import import_data
import support
from support import PROGRAM, answer, good, run


class Usage(support.Case):
    """What the user types."""

    def test_what_is_refused_and_what_is_said(self):
        job = self.job
        for code, said, *words in (
                (64, "predict"),
                (64, "foretrain predict job.yaml", "job.yaml"),
                (64, "foretrain show scenario job.yaml", "show", "job.yaml"),
                (64, "'--json' precedes the command", "--json", "predict"),
                (64, "did you mean 'predict'?", "predcit", job),
                (64, "did you mean 'schedule'?", "show", "shedule", job),
                (64, "did you mean '--backend'?", "predict", job, "--bakend", "sim"),
                (64, "did you mean 'analytic'?", "predict", job, "--backend=analytik"),
                (64, "'--json'", "show", "job", job, "--json"),
                (64, "needs a value", "predict", job, "--set"),
                (64, "takes no value", "predict", job, "--json=1"),
                (64, "whole number", "predict", job, "--iterations=two"),
                (64, "a whole number from 1", "predict", job, "--iterations=0"),
                (64, "--ranks: expected a whole number from 1", "validate", job, "-n", "0"),
                (64, "--steps: expected a whole number from 1", "validate", job, "--steps=0"),
                (64, "missing JOB; usage: foretrain predict JOB", "predict"),
                (64, "missing NAME; usage: foretrain show platform NAME", "show", "platform"),
                (64, "unexpected", "predict", job, job),
                (64, "--json and --csv -", "predict", job, "--json", "--csv=-"),
                (64, "--to -: a file is written", "new", "job", "--platform=dgx-h100", "--to", "-"),
                (64, "--grid: must be 1 to 64 ranks; 'foretrain collective'",
                 "show", "collective", "--text", "--grid=65x1"),
                (64, "--ranks 5: --grid 2x2 has 4",
                 "show", "collective", "--algorithm=torus2d", "--grid=2x2", "--ranks=5"),
                (64, "no phase 3", "show", "schedule", job, "--phase=3"),
                (65, "20", "check", job, "--set=cluster.nodes=5"),
                (66, "abzi", "check", "--platform", "abzi"),
                (66, "gone.yaml", "predict", self.directory / "gone.yaml"),
                (73, "dir", "predict", job, "-banalytic", "--csv", self.directory / "no" / "dir")):
            with self.subTest(words):
                self.assertIn(said, self.refused(code, *words))

    def test_help_goes_to_stdout(self):
        for words in (["--help"], ["help"], ["predict", "--help"], ["help", "predict"],
                      ["show", "--help"], ["show", "model", "-h"]):
            done = run(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("Usage: foretrain", done.stdout)

    def test_every_short_option_means_one_thing(self):
        names = re.compile(r"^  ([a-z][-a-z]*) ", re.MULTILINE)
        commands = [[name] for name in names.findall(run("--help").stdout)]
        self.assertGreater(len(commands), 15)
        for words in commands:
            text = run(*words, "--help").stdout
            if "COMMAND" in text.splitlines()[0]:
                commands += [words + [name] for name in names.findall(text)]
            short = re.findall(r"^  (-[a-zA-Z]), ", text, re.MULTILINE)
            self.assertEqual(len(short), len(set(short)), " ".join(words))
        self.assertGreater(len(commands), 40)

    def test_help_lists_commands_in_groups_and_ends_with_examples(self):
        said = run("--help").stdout
        groups = re.findall(r"^(\w[\w ]*):\n((?:  .*\n)+)", said, re.MULTILINE)
        self.assertEqual([name for name, _ in groups], ["start here", "decide", "run", "measure", "look"])
        self.assertIn("  plan ", dict(groups)["decide"])
        self.assertIn("  calibrate ", dict(groups)["measure"])
        examples = re.findall(r"^  \$ foretrain (.*)", said, re.MULTILINE)
        self.assertEqual(len(examples), 3)
        self.job.unlink()
        for line in examples:  # as they stand, one after the other
            self.execute(0, PROGRAM, *line.split(), cwd=self.directory)

    def test_options_say_what_they_need_and_what_they_do_not_work_with(self):
        for words, needs in ((("train", self.job, "--overwrite"), "without --out"),
                             (("train", self.job, "--device=cpu", "--tune"), "without --device=cuda"),
                             (("train", self.job, "--traced-steps=4"), "without --trace or --spans"),
                             (("predict", self.job, "--published=90%"), "without --report"),
                             (("new", "job", "--overwrite"), "without --to"),
                             (("import", "onnx", "net.onnx", "--overwrite"), "without --to"),
                             (("show", "collective", "--bytes=1MB"), "without --platform")):
            self.assertIn(f"{words[-1].split('=')[0]} has no effect {needs}\n", self.refused(64, *words))
        for words, other in ((("train", self.job, "--out=x", "--resume=x", "--overwrite"), "--resume"),
                             (("train", self.job, "--device", "replay", "--resume=x"), "--device=replay"),
                             (("validate", "-b", "sim", "--predicted=x"), "--backend"),
                             (("show", "model", "toy", "--json", "--yaml"), "--json"),
                             (("show", "convergence", "--batch=64", "--accuracies"), "--batch")):
            option = words[-1].split("=")[0]
            self.assertIn(f"{option} does not work with {other}\n", self.refused(64, *words))
        said = run("train", "--tune", "--help").stdout
        self.assertIn("after the first two (default: 4); needs --trace or --spans\n", said)
        self.assertIn("start anew; needs --out; not with --resume\n", said)

    def test_errors_have_a_colour_on_terminals_that_show_it(self):
        for colour, environment in ((True, {"TERM": "xterm", "NO_COLOR": ""}), (False, {"TERM": "dumb"}),
                                    (False, {"TERM": "xterm", "NO_COLOR": "1"})):
            said = harness.on_terminal(lambda terminal, more=environment: harness.execute(
                PROGRAM, "predict", "no.yaml", stderr=terminal, environment=more))
            self.assertTrue(said.startswith("\033[1;31merror:\033[0m cannot" if colour else "error: cannot"), said)

    def test_help_of_check_explains_the_keys_of_a_job(self):
        self.assertIn("allreduce.bucket", run("check", "--help").stdout)

    def test_version(self):
        for word in ("--version", "-V", "-v"):
            self.assertRegex(run(word).stdout, r"^foretrain \d+\.\d+\.\d+( before its release, commit \S+)?\n")

    def test_lines_of_a_file_that_is_none_of_ours_are_not_shown(self):
        secret = self.write("secret.key", "hunter2\n")
        said = self.refused(65, "predict", self.job, "--set", f"cluster.platform={secret}")
        self.assertIn("secret.key:1:1: keys and values are expected here", said)
        self.assertEqual(said.count("error"), 1)
        self.assertNotIn("hunter2", said)
        shown = self.write("shown.yaml", "hunter2\n")
        self.assertIn("  hunter2\n  ^~~~~~~", self.refused(65, "predict", shown))

    def test_a_file_that_cannot_be_written_whole_keeps_what_it_was(self):
        for option in "trace", "spans", "csv":
            with self.subTest(option):
                path = self.write("out", "as it was\n")
                done = self.execute(74, "sh", "-c", 'ulimit -f 1; exec "$@"', "sh", PROGRAM, "predict", self.job,
                                    "-banalytic", f"--{option}", path, environment=support.NO_COUNTERS)
                self.assertIn(f"{path}: cannot be written: File too large", done.stderr)
                self.assertEqual(path.read_text(encoding="utf-8"), "as it was\n")
                self.assertEqual(sorted(file.name for file in self.directory.iterdir()),
                                 ["job.yaml", "out"])

    def test_no_output_replaces_what_is_read_or_another_output(self):
        job, out = self.job, self.directory / "out"
        platform = self.write("p.yaml", "extends: abci\nname: p\n")
        prices = self.write("prices.yaml", (support.ROOT / "prices/example-h100.yaml").read_text(encoding="utf-8"))
        spans = self.write("spans", good("predict", job, "-banalytic", "--spans=/dev/stdout").stdout)
        table = self.write("t.csv", (support.ROOT / "experiments/02_published_runs/runs.csv").read_text(encoding="utf-8"))
        (self.directory / "link").symlink_to("job.yaml")
        (self.directory / "images").mkdir()
        image = self.write("images/1.jpg", "")
        known = {path: path.read_bytes() for path in self.directory.iterdir() if path.is_file()}
        train = "train", support.ROOT / "experiments/03_learning/procedural.yaml", f"--out={out}"
        for words, option, other in (
                (("predict", job, "--report", job), "report", job),
                (("predict", job, "--csv", self.directory / "link"), "csv", job),
                (("show", "step", job, "--csv", self.directory / "." / ".." / self.directory.name / "job.yaml"), "csv", job),
                (("compare", job, job, "--report", job), "report", job),
                (("predict", job, "--platform", platform, "--trace", platform), "trace", platform),
                (("predict", job, "--prices", prices, "--spans", prices), "spans", prices),
                (("predict", job, "--csv", out, "--report", out), "report", "--csv"),
                (("predict", job, f"--trace={self.directory}/", "--csv", self.directory / "rank-0.json"), "trace", "--csv"),
                (("sweep", job, "--scan=cluster.nodes=1..2", "--csv", job), "csv", job),
                (("plan", job, "--report", job), "report", job),
                (("validate", job, "--measured", spans, "--report", spans), "report", spans),
                (("import", "onnx", table, "--to", table, "--overwrite"), "to", table),
                (("data", "pack", image.parent, "--to", image), "to", image),
                ((*train, f"--trace={train[1]}"), "trace", train[1]),
                ((*train, f"--trace={out}/ckpt-000001/MANIFEST"), "trace", "--out"),
                ((*train, "--set=training.dataset.source=imagefolder", f"--set=training.dataset.path={image.parent}",
                  f"--spans={image}"), "spans", image)):
            with self.subTest(words):
                said = self.refused(64, *words)
                self.assertRegex(said, f"--{option} .* would replace")
                self.assertIn(str(other), said)
                self.assertEqual({path: path.read_bytes() for path in known}, known)
                self.assertFalse(out.exists())

    def test_a_platform_in_place_of_a_job_and_the_reverse(self):
        platform = support.ROOT / "platforms" / "abci.yaml"
        device = support.ROOT / "platforms" / "devices" / "a30.yaml"
        for command in ("predict", "explain"):
            said = self.refused(65, command, platform)
            self.assertIn(f"this is a platform file, not a job; 'foretrain check {platform}'", said)
            self.assertEqual(said.count("error"), 1)
        self.assertIn("this is a device file", self.refused(65, "predict", device))
        own = self.write("own.yaml", "extends: abci\nname: own\n")
        self.assertIn("'foretrain show platform FILE'", self.refused(66, "predict", own))
        self.assertIn("this is a job, not a platform",
                      self.refused(65, "check", "--platform", self.job))

    def test_check_takes_every_kind_of_file(self):
        library = support.ROOT / "platforms"
        network = "version: 1\nname: mine\ninput: 3x8x8\nlayers:\n  - {name: a, kind: linear, channels: 2}\n"
        for file, words in ((library / "abci.yaml", "platform abci"),
                            (library / "devices" / "a30.yaml", "device a30"),
                            (library / "software" / "pytorch.yaml", "software pytorch"),
                            (self.write("soft.yaml", "extends: pytorch\nname: soft\n"), "software soft"),
                            (self.write("net.yaml", network), "network mine"),
                            (support.ROOT / "prices" / "example-v100.yaml", "prices example-v100"),
                            (self.write("own.yaml", "extends: abci\nname: own\n"), "platform own"),
                            (self.write("card.yaml", "extends: a30\nname: card\n"), "device card")):
            self.assertEqual(run("check", file).stdout, f"{file}: ok: {words}\n")
        bad = self.write("bad.yaml", "extends: abci\nnodes: x\nspeed: 3\n")
        said = self.refused(65, "check", bad)
        for place in (f"{bad}:2:8: error", f"{bad}:3:1: error"):
            self.assertIn(place, said)
        self.assertIn("is a platform", self.refused(64, "check", bad, "--explain"))
        for text, said in ((network.replace("kind: linear", "kind: x"), ":5:21: error: unknown word 'x'"),
                           ("version: 1\nname: x\ncurrency: USD\nprice: {node_hour: x}\n", ":4:20: error")):
            self.assertIn(said, self.refused(65, "check", self.write("bad.yaml", text)))
            self.assertNotIn("unknown key", self.refused(65, "check", self.directory / "bad.yaml"))
        self.assertIn("this is a network file, not a job", self.refused(65, "predict", self.directory / "net.yaml"))

    def test_words_name_their_key_and_the_list(self):
        self.assertIn("unknown word 'x' for allreduce.algorithm; it must be one of: ring, tree",
                      self.refused(65, "check", self.job, "--set=allreduce.algorithm=x"))
        said = self.refused(65, "check", self.job, "--set=cluster.devices_per_node=9",
                            "--set=allreduce.grid=null")
        self.assertIn("--set: error", said)
        self.assertIn("cluster.devices_per_node=9\n" + " " * 27 + "^", said)

    def test_names_near_by_and_values_are_pointed_at(self):
        job = self.write("job.yaml", support.JOB)
        self.assertIn("cluster.software=pytroch\n", self.refused(66, "predict", job, "--set=cluster.software=pytroch"))
        self.assertIn("what if it had: --set platform.nodes=2000", self.refused(
            65, "predict", job, "--nodes=2000", "--set=allreduce={algorithm: ring}"))
        grids = [support.answer("predict", job, "-banalytic", f"--set=allreduce.grid={grid}")["step_s"]
                 for grid in ("2x8", "{columns: 2, rows: 8}")]
        self.assertEqual(*grids)

    def test_one_of_a_thing_is_singular(self):
        self.assertIn("1 element on 1 rank by ring: 0 rounds",
                      run("show", "collective", "--ranks=1").stdout)
        phases = "--set=training.phases=[{epochs: 1, batch_per_device: 1}]"
        self.assertTrue(run("check", self.job, phases).stdout.endswith(", 1 phase\n"))
        self.assertTrue(run("check", self.job).stdout.endswith(", 2 phases\n"))

    @unittest.skipIf(support.has_gsl(), "of builds without GSL")
    def test_any_words_of_calibrate_get_one_answer(self):
        for words in (["calibrate"], ["calibrate", "cluster", "--bytes", "1MB"]):
            self.assertIn("built without GSL", self.refused(69, *words))

    def test_options_may_stand_anywhere_and_end_at_two_dashes(self):
        before = answer("predict", "--backend", "analytic", self.job)
        self.assertEqual(before, answer("predict", self.job, "-banalytic"))
        self.assertIn("--json", self.refused(66, "predict", "-b", "analytic", "--", "--json"))


class Streams(support.Case):
    """Files that can be read only once."""

    def piped(self, text, *words, code=0):
        """Run foretrain with @text in a pipe as its standard input; it must end with @code."""
        return self.execute(code, PROGRAM, *words, input=text)

    def test_a_job_may_come_from_standard_input_or_a_pipe(self):
        expected = run("predict", self.job).stdout
        for name in ("-", "/dev/stdin"):
            done = self.piped(support.JOB, "predict", name)
            self.assertEqual((done.stdout, done.stderr), (expected, ""))
        done = self.execute(0, "bash", "-c", '"$0" explain <(cat "$1") <(cat "$1")', PROGRAM, self.job)
        self.assertIn("A: /dev/fd/", done.stdout)

    def test_messages_name_it_and_paths_in_it_start_here(self):
        done = self.piped(support.JOB.replace("nodes: 4", "nodez: 4"), "check", "-", code=65)
        self.assertIn("stdin:3:", done.stderr)
        done = self.execute(0, PROGRAM, "check", "-", input="extends: job.yaml\n", cwd=self.directory)
        self.assertIn("stdin: ok: resnet50 on 16 devices of", done.stdout)

    def test_an_import_may_come_from_standard_input(self):
        table = import_data.made() / "all_reduce_8.txt"
        done = self.piped(table.read_text(encoding="utf-8"), "import", "nccl-tests", "-", code=(0, 69))
        if "built without" in done.stderr:
            self.skipTest("fits need GSL")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("all-reduce of 8 ranks", done.stdout)


class Tables(support.Case):
    """--csv."""

    def assert_table(self, text, rows):
        """@text has a line per row, with the value of each key."""
        found = list(csv.DictReader(io.StringIO(text, newline="")))
        self.assertEqual(len(found), len(rows))
        self.assertTrue(rows)
        for line, row in zip(found, rows):
            for key, value in line.items():
                wanted = row.get(key)
                if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
                    self.assertEqual(float(value), wanted)
                elif isinstance(wanted, list):
                    self.assertEqual([float(item) for item in value.split()], wanted)
                else:
                    self.assertEqual(value, {None: "", True: "true", False: "false"}.get(wanted, wanted))
            self.assertLessEqual(set(row), set(line))

    def test_a_table_is_that_of_the_json(self):
        for words, rows in ((("collective", "--platform=abci", "--nodes=4", "--bytes=1..4MB:x2"),
                             lambda all: all["rows"]),
                            (("collective", "--platform=dgx-h100", "--nodes=4", "--algorithm=nccl"),
                             lambda all: all["rows"]),
                            (("predict", self.job), lambda all: all["exchanges"]),
                            (("show", "step", self.job), lambda all: all["exchanges"]),
                            (("explain", self.job),
                             lambda all: [{"column": "A", **cause} for cause in all["causes"]]),
                            (("explain", self.job, self.job),
                             lambda all: [{"column": column, **cause} for column, causes in
                                          (("A", all["runs"][0]["causes"]),
                                           ("B", all["runs"][1]["causes"]),
                                           ("B - A", all["causes"])) for cause in causes])):
            words = (*words, "-banalytic")
            printed = run(*words, "--csv", "-")
            self.assertEqual((printed.returncode, printed.stderr), (0, ""))
            self.assert_table(printed.stdout, rows(answer(*words)))
            path = self.directory / "table.csv"
            self.assertEqual(run(*words, "--csv", path).stdout, run(*words).stdout)
            self.assertEqual(path.read_bytes().decode(), printed.stdout.replace("\n", "\r\n"))


class Answers(support.Case):
    """The small commands."""

    def test_env_says_what_is_missing_what_is_lost_and_what_brings_it(self):
        env = {part["name"]: part for part in answer("env", FORETRAIN_LIBEXEC=str(self.directory))["parts"]}
        self.assertIsNone(env["foretrain-sim"]["found"])
        for key in "missing", "needed_for", "get":
            self.assertTrue(env["foretrain-sim"][key])
        self.assertTrue(os.path.isdir(env["platforms"]["found"]))
        self.assertIn("to get it: apt-get install libsimgrid-dev",
                      good("env", FORETRAIN_LIBEXEC=str(self.directory)).stdout)
        bare = {part["name"]: part for part in answer("env", PATH=str(self.directory))["parts"]}
        self.assertIsNone(bare["ranks"]["found"])

    def test_check_reports_every_fault_with_its_place(self):
        bad = support.JOB.replace("nodes: 4", "nodez: 4").replace("4 MiB", "4")
        said = self.refused(65, "check", self.write("bad.yaml", bad))
        self.assertIn("bad.yaml:3:", said)
        self.assertIn("nodes", said)
        self.assertIn("bad.yaml:11:", said)

    def test_no_fault_follows_from_another(self):
        said = self.refused(65, "check", self.job, "--set", "training.evaluate_every=4", "--set",
                            "training.phases=[{epochs: 0, batch_per_device: 32}]")
        self.assertEqual(said.count("error: "), 1, said)

    def test_check_explains_where_values_come_from(self):
        done = good("check", self.job, "--explain", "--set", "baseline.nodes=2")
        self.assertRegex(done.stdout, r"cluster\.nodes.*4.*job\.yaml:3")
        self.assertRegex(done.stdout, r"baseline\.nodes.*2.*--set")

    def test_jitter_of_the_software_is_not_told_as_a_default_of_0(self):
        for words in (("check", self.job, "--explain"), ("show", "scenario", self.job)):
            self.assertNotIn("noise.compute_cv", run(*words).stdout)
            self.assertRegex(run(*words, "--set=noise.compute_cv=0").stdout,
                             r"noise\.compute_cv +0 %")

    def test_check_accepts_platforms(self):
        self.assertIn("ok", run("check", "--platform", "abci").stdout)

    def test_rows_and_columns_are_shown_where_there_are_some(self):
        for words in (("check",), ("show", "job")):
            self.assertIn("grid", run(*words, self.job).stdout)
            self.assertNotIn("grid", run(*words, self.job, "--algorithm=nccl", "--set",
                                         "allreduce.grid=null").stdout)

    def test_show_model_counts_resnet50(self):
        model = answer("show", "model", "resnet50")
        self.assertEqual(model["parameters"], 25557032)
        self.assertEqual(model["tensors"], 161)
        self.assertEqual(model["flops"]["forward"], 2 * 4089184256)
        self.assertEqual(sum(layer["parameters"] for layer in model["layers"]), 25557032)
        self.assertIn("25557032", run("show", "model", "resnet50").stdout)

    def test_show_prints_every_stage(self):
        self.assertIn("reduce-scatter", run("show", "schedule", self.job).stdout)
        self.assertIn("V100", run("show", "platform", "abci").stdout)
        self.assertIn("cluster.nodes", run("show", "scenario", self.job).stdout)

    def test_show_collective_prints_textbook_rounds(self):
        done = run("show", "collective", "--algorithm", "ring", "--ranks", "4")
        self.assertEqual(done.stdout.count("round "), 2 * (4 - 1))
        self.assertEqual(done.stdout.count("0 -> 1"), 2 * (4 - 1))

    def test_show_collective_draws_what_each_rank_holds(self):
        words = ("show", "collective", "--text")
        said = run(*words, "--algorithm=torus2d", "--grid=4x2").stdout
        for rounds, phase in ((3, "reduce-scatter in rows"), (2, "all-reduce in columns"),
                              (3, "all-gather in rows")):
            self.assertEqual(said.count(", " + phase + "\n"), rounds)
        states = [state.split("\n", 1)[1] for state in re.split(r"^a(?:t|fter) ", said, flags=re.M)[1:]]
        self.assertEqual([state.count("#") for state in states], [0, 0, 0, 0, 8, 16, 32, 48, 64])
        self.assertEqual(states[3].count("4"), 8 * 2 + 1)  # a quarter of the chunks each; "4" begins a line
        self.assertEqual(states[0], "   0  ........ ........ ........ ........\n"
                                    "   4  ........ ........ ........ ........\n")
        ring = run(*words, "--ranks=4").stdout  # as in textbooks: the chunk that goes round and grows
        self.assertIn("  0  .32. ..32 2..3 32..\n", ring)
        self.assertIn("all-reduce of the rows' first ranks", run(*words, "--algorithm=hierarchical",
                                                                 "--grid=4x2").stdout)
        for name in ("tree", "double-tree", "halving-doubling", "halving-doubling-far"):
            said = run(*words, "--algorithm", name, "--ranks=6").stdout
            self.assertTrue(said.endswith(" ######" * 6 + "\n"), said)

    def test_show_collective_times_rounds(self):
        """Expected by hand: latency and bytes of links of 10 us and 10 GB/s; of 12.5 MB/s, of which
        8948 of 9014 bytes carry data, 20 us a message, and one uplink for four hosts."""
        words = ("show", "collective", "--text", "--grid=4x4")
        said = run(*words, "--algorithm=torus2d", "--platform=torus-4x4").stdout
        self.assertEqual(said.count("busiest link: 25 MB (rank 0 to the next one of its row); 2.51 ms"), 6)
        self.assertEqual(said.count("busiest link: 6.25 MB (rank 0 to the next one of its column); 635 us"), 6)
        self.assertTrue(said.endswith(": 18.87 ms\n"))
        said = run(*words, "--algorithm=ring", "--platform=torus-4x4").stdout
        self.assertTrue(said.endswith(": 19.35 ms\n"))  # the last hop of a row takes two links
        leaves = support.ROOT / "platforms" / "lab" / "leafspine-16-4to1.yaml"
        said = run(*words, "--algorithm=halving-doubling-far", "--platform", leaves, "--bytes=1MB").stdout
        self.assertEqual(said.count("each message 500 kB; busiest link: 2 MB (leaf0.up); 161.2 ms"), 2)
        self.assertTrue(said.endswith(": 513.9 ms\n"))

    def test_show_collective_takes_a_grid_of_the_same_ranks(self):
        grid = ("show", "collective", "--algorithm", "torus2d", "--grid", "2x2")
        self.assertEqual(run(*grid, "--ranks", 4).stdout, run(*grid).stdout)

    def completion(self, shell):
        return self.execute(0, sys.executable, support.ROOT / "tools" / "completion.py", PROGRAM, shell).stdout

    def test_completion_is_a_script_that_bash_accepts_and_answers(self):
        script = self.completion("bash")
        probe = script + """
            complete_for() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _foretrain
                             echo "${COMPREPLY[*]}"; }
            complete_for foretrain pre
            complete_for foretrain show mo
            complete_for foretrain predict --back
            complete_for foretrain predict --backend s
        """
        done = self.execute(0, "bash", "-c", probe)
        self.assertEqual(done.stdout.split("\n")[:4], ["predict", "model", "--backend", "sim"])

    def test_completion_of_zsh_answers(self):
        if not shutil.which("zsh"):
            self.skipTest("zsh is not installed")
        probe = self.completion("zsh").replace("compdef _foretrain", "true") + """
            compadd() { shift; print -- "$@" }
            _files() { : }
            words=(foretrain show mo); CURRENT=3; _foretrain
            words=(foretrain predict --backend s); CURRENT=4; _foretrain
        """
        done = self.execute(0, "zsh", "-f", "-c", probe)
        self.assertIn("scenario job model", done.stdout)
        self.assertTrue(done.stdout.endswith("analytic sim\n"))

    def test_completion_of_fish_and_zsh_names_commands_options_and_words(self):
        fish = self.completion("fish")
        for line in ("complete -c foretrain -n __fish_use_subcommand -f -a predict",
                     "complete -c foretrain -n '__fish_seen_subcommand_from show' -f -a model",
                     "complete -c foretrain -n '__fish_seen_subcommand_from predict' -l backend -s b"
                     " -r -f -a 'analytic sim'"):
            self.assertIn(line + "\n", fish)
        self.assertIn('"show model "*) list="--image --sequence --yaml --json --help"', self.completion("zsh"))
