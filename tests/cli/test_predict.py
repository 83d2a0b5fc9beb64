#!/usr/bin/python3
"""What `predict` answers."""
import json
import shutil
import subprocess
import unittest

import support
from support import answer, has_simulator, run

NUMBER = (int, float)
KEYS = {
    "schema": str, "version": str, "scenario_sha256": str, "schedule_hash": str, "backend": str,
    "grain": str, "devices": int, "grid.columns": int, "grid.rows": int, "step.time_s": NUMBER,
    "step.compute_s": NUMBER, "step.exposed_communication_s": NUMBER, "step.input_wait_s": NUMBER,
    "step.other_s": NUMBER, "images_per_s": NUMBER, "scaling_efficiency": NUMBER,
    "baseline.devices": int, "baseline.images_per_s": NUMBER, "phases": list, "epochs": NUMBER,
    "time_to_train_s": NUMBER, "bound_by": str, "assumptions": list, "warnings": list,
}
PHASE_KEYS = {"epochs": NUMBER, "batch_per_device": int, "global_batch": int, "steps": int,
              "step_time_s": NUMBER}


def look_up(result, path):
    """result["a"]["b"] for "a.b"."""
    for key in path.split("."):
        result = result[key]
    return result


class Predict(support.Case):
    """On every back end this build has."""

    def setUp(self):
        super().setUp()
        self.backends = ["analytic"] + (["sim"] if has_simulator() else [])

    def test_every_key_is_there_and_has_its_type(self):
        for backend in self.backends:
            result = answer("predict", self.job, "--backend", backend)
            for path, kind in KEYS.items():
                self.assertIsInstance(look_up(result, path), kind, path)
            for phase in result["phases"]:
                for key, kind in PHASE_KEYS.items():
                    self.assertIsInstance(phase[key], kind, key)
            self.assertEqual(result["schema"], "foretrain/result/1")
            self.assertEqual(result["backend"], backend)

    def test_the_numbers_agree_with_each_other(self):
        for backend in self.backends:
            result = answer("predict", self.job, "--backend", backend)
            step, phases = result["step"], result["phases"]
            parts = sum(value for key, value in step.items() if key in (
                "compute_s", "exposed_communication_s", "input_wait_s", "other_s"))
            self.assertAlmostEqual(parts / step["time_s"], 1.0, places=9)
            self.assertEqual(result["devices"], 16)
            self.assertEqual([p["global_batch"] for p in phases], [256, 512])
            self.assertEqual(phases[0]["steps"], -(-30 * 1281167 // 256))
            self.assertAlmostEqual(result["images_per_s"], 512 / phases[1]["step_time_s"], places=6)
            stepping = sum(p["steps"] * p["step_time_s"] for p in phases)
            self.assertGreater(result["time_to_train_s"], stepping)
            self.assertLess(result["time_to_train_s"], 1.1 * stepping)
            base = result["baseline"]
            self.assertEqual(base["devices"], 4)
            self.assertAlmostEqual(
                result["scaling_efficiency"],
                result["images_per_s"] / 16 / (base["images_per_s"] / 4), places=12)
            self.assertTrue(0 < result["scaling_efficiency"] <= 1)

    def test_the_simulator_is_never_faster_than_the_closed_form(self):
        if not has_simulator():
            self.skipTest("built without SimGrid")
        closed = answer("predict", self.job, "--backend", "analytic")
        simulated = answer("predict", self.job, "--backend", "sim")
        self.assertGreaterEqual(simulated["step"]["time_s"], closed["step"]["time_s"] * (1 - 1e-9))
        self.assertEqual(simulated["schedule_hash"], closed["schedule_hash"])

    def test_the_same_question_gets_the_same_bytes(self):
        self.assertEqual(run("predict", self.job, "--json").stdout,
                         run("predict", self.job, "--json").stdout)

    def test_set_overrides_a_key_and_changes_the_fingerprint(self):
        words = ("predict", self.job, "-b", "analytic")
        plain = answer(*words)
        other = answer(*words, "--set", "cluster.nodes=8", "--set",
                       "allreduce.grid={columns: 4, rows: 8}")
        self.assertEqual(other["devices"], 32)
        self.assertNotEqual(plain["scenario_sha256"], other["scenario_sha256"])
        self.assertIn("--set", self.refused(65, *words, "--set", "cluster.nodez=8"))

    def test_a_chosen_grid_is_an_assumption(self):
        text = support.JOB.replace("grid: {columns: 4, rows: 4}, ", "")
        result = answer("predict", self.write("free.yaml", text), "-b", "analytic")
        self.assertEqual(result["grid"], {"columns": 4, "rows": 4})
        self.assertTrue(any("grid 4 x 4" in line for line in result["assumptions"]))

    def test_text_tells_the_same_as_json(self):
        done = run("predict", self.job, "-b", "analytic")
        result = answer("predict", self.job, "-b", "analytic")
        self.assertIn(f"{result['bound_by']}-bound", done.stdout)
        self.assertEqual(done.stderr, "")

    def test_a_missing_simulator_is_said_not_hidden(self):
        result = answer("predict", self.job, FORETRAIN_LIBEXEC=str(self.directory))
        self.assertEqual(result["backend"], "analytic")
        self.assertTrue(any("foretrain-sim" in line for line in result["warnings"]))
        self.refused(69, "predict", self.job, "-b", "sim", FORETRAIN_LIBEXEC=str(self.directory))

    def test_a_trace_is_chrome_json_whose_spans_do_not_overlap(self):
        path = self.directory / "trace.json"
        answer("predict", self.job, "--trace", path)
        lanes = {}
        for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]:
            if event["ph"] == "X":
                lanes.setdefault((event["pid"], event["tid"]), []).append(
                    (event["ts"], event["ts"] + event["dur"]))
        self.assertGreaterEqual(len(lanes), 3)
        for spans in lanes.values():
            spans.sort()
            for (_, end), (begin, _) in zip(spans, spans[1:]):
                self.assertLessEqual(end, begin + 2e-3)  # microseconds, printed with three digits

    def test_a_paje_trace_is_read_by_pj_dump(self):
        path = self.directory / "trace.paje"
        answer("predict", self.job, "--paje", path)
        if not shutil.which("pj_dump"):
            self.skipTest("pj_dump (package pajeng) is not installed")
        done = subprocess.run(["pj_dump", path], capture_output=True, text=True, check=True)
        self.assertIn("State", done.stdout)

    def test_a_trace_that_cannot_be_created_is_reported(self):
        done = run("predict", self.job, "-b", "analytic", "--trace", self.directory / "no" / "dir")
        self.assertEqual(done.returncode, 73)


if __name__ == "__main__":
    unittest.main(verbosity=2)
