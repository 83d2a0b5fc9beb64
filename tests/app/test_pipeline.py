"""Pipelines end to end: random meshes against a replay of their schedule by other code, and what is refused."""
import json
import random
import re
import unittest

import support
from support import answer, has_simulator, run

JOB = """\
version: 1
model: {network: gpt2, layers: 12, sequence: 128, precision: {compute: bf16}}
cluster: {platform: dgx-h100, nodes: 2}
training:
  dataset: {train_images: 100000, validation_images: 0}
  optimizer: {name: adamw}
  micro_batch: 1
  phases: [{epochs: 1, batch_per_device: 8}]
parallel: {pipeline: 4}
allreduce: {algorithm: nccl}
"""
LANES = {"send": "receive", "send-back": "receive-back"}


def replay(steps, seconds):
    """When the last step ends: each waits for those before it on its lane, of what is sent also on the receiver's."""
    lane, end = {}, {}
    for step in steps:
        lanes = [(step.get("stage", 0), step["lane"])]
        if "to_stage" in step:
            lanes.append((step["to_stage"], LANES[step["lane"]]))
        after = [end[dep["step"]] for dep in step["after"] if dep["iterations_ago"] == 0]
        end[step["id"]] = max(after + [lane.get(one, 0) for one in lanes]) + seconds[step["id"]]
        lane.update((one, end[step["id"]]) for one in lanes)
    return max(end.values())


class Pipeline(support.Case):
    def setUp(self):
        super().setUp()
        self.job = self.write("job.yaml", JOB)

    def predicted(self, *words):
        return answer("predict", self.job, "--ignore-memory", "--noise=none", *words)

    def test_parts_of_unequal_blocks_are_an_assumption(self):
        for layers, chunks, told in ((13, 1, "13 blocks in 4 parts of the pipeline: at both ends, the last part first, one fewer than the 4"),
                                     (12, 1, None), (13, 3, "13 blocks in 12 parts")):
            said = str(self.predicted("-banalytic", f"--set=model.layers={layers}", f"--set=parallel.chunks={chunks}")["assumptions"])
            self.assertEqual("parts of the pipeline" in said, bool(told))
            self.assertIn(told or "", said)

    def test_exchanges_of_repeats_count_so_often(self):
        words = ("--set=parallel={tensor: 2, pipeline: 2}", "--set=training.phases.0.batch_per_device=32")
        for result in (self.predicted(*words), self.predicted("--grain=full", *words)) if has_simulator() else ():
            exposed = sum(one["exposed_s"] for one in result["exchanges"])
            self.assertAlmostEqual(exposed / result["step"]["exposed_communication_s"], 1, delta=1e-3, msg=result["grain"])
            self.assertGreater(exposed, 0)

    @unittest.skipUnless(has_simulator() and support.part("foretrain-read"), "this build lacks a part")
    def test_a_trace_that_leaves_micro_batches_out_is_no_profile(self):
        job, path = self.write("long.yaml", JOB.replace("batch_per_device: 8", "batch_per_device: 64")), self.directory / "t.json"
        run("predict", job, "--ignore-memory", "--trace", path)
        self.assertIn("more' micro-batches; trace them with --grain full", self.refused(65, "import", "trace", path, "--job", job))

    def test_random_meshes_take_what_a_replay_says(self):
        dice = random.Random(20)
        for _ in range(6):
            stages, chunks = dice.choice([(2, 1), (4, 1), (8, 1), (2, 3), (4, 3), (2, 2)])
            context, expert = dice.choice([1, 2, 2]), dice.choice([1, 2, 4])
            mesh = {"parallel.pipeline": stages, "parallel.chunks": chunks, "parallel.tensor": dice.choice([1, 2]), "cluster.nodes": 4,
                    "model.experts": 4 if expert > 1 else "null", "parallel.expert": expert,
                    "parallel.imbalance": dice.choice([1, 1.5]) if expert > 1 else "null", "parallel.context": context, "parallel.context_by": dice.choice(["ring", "all-gather"]) if context > 1 else "null",
                    "training.phases.0.batch_per_device": stages * dice.choice([1, 2, 3]),
                    "parallel.sharding": dice.choice(["null", 1]), "model.lora": dice.choice(["null", 8]), "model.layers": dice.choice([12, 13])}
            mesh["parallel.expert_by"] = dice.choice(["copies", "nodes"]) if expert > 1 else "null"
            if mesh["parallel.tensor"] > 1 and expert > 1:
                mesh.update({"parallel.sequence": "true", "parallel.expert_tensor": dice.choice([1, 1, 2])})
            mesh["parallel.expert_overlap"] = "true" if expert > 1 and dice.random() < 0.6 else "null"
            if chunks == 1:
                mesh["parallel.schedule"] = dice.choice(["1f1b", "gpipe"])
            words = [f"--set={key}={value}" for key, value in mesh.items()]
            spans = self.directory / "spans"
            closed = self.predicted("-banalytic", "-i1", f"--spans={spans}", *words)
            seconds = {}
            for line in spans.read_text().splitlines():
                if len(line.split()) == 5:
                    _, _, step, begin, end = line.split()
                    seconds[int(step)] = float(end) - float(begin)
            steps = answer("show", "schedule", self.job, *words)["steps"]
            self.assertAlmostEqual(replay(steps, seconds) / closed["step_s"], 1, delta=1e-9, msg=mesh)
            self.assertGreater(closed["step"]["bubble_s"], 0)
            for axis in ("tensor", "expert"):
                self.assertEqual(mesh[f"parallel.{axis}"] > 1, f"exposed_{axis}_s" in closed["step"], mesh)
            self.assertEqual("exposed_context_s" in closed["step"], mesh["parallel.context_by"] == "all-gather", mesh)
            if not has_simulator():
                continue
            folded, full = (self.predicted("-bsim", "-i1", f"--grain={grain}", *words) for grain in ("folded", "full"))
            self.assertAlmostEqual(folded["step_s"] / closed["step_s"], 1, delta=0.001, msg=mesh)
            self.assertAlmostEqual(full["step_s"] / folded["step_s"], 1, delta=1e-9, msg=mesh)

    @unittest.skipUnless(has_simulator(), "built without SimGrid")
    def test_a_link_has_the_time_for_what_several_groups_send(self):
        """Tensor parallelism over nodes beside gathers of weights: the closed form is at the link's floor, the simulator above."""
        words = ["predict", support.ROOT / "experiments/09_mesh/job.yaml", "--set=cluster.nodes=8", "--set=parallel.sharding=3",
                 "--set=parallel.tensor=4"]
        closed, simulated = (answer(*words, f"--backend={backend}")["step_s"] for backend in ("analytic", "sim"))
        self.assertLess(closed, simulated)
        self.assertGreater(closed, 0.85 * simulated)

    @unittest.skipUnless(has_simulator(), "built without SimGrid")
    def test_alike_micro_batches_are_walked_once(self):
        """Of 24 the closed form and the folded simulator have some, and repeat them; full has all: equal in each part."""
        for words in (("pipeline=4",), ("pipeline=4", "chunks=3"), ("pipeline=2", "tensor=4"),
                      ("pipeline=null", "sharding=3"), ("pipeline=null", "recompute=full")):
            sets = [f"--set=parallel.{word}" for word in words]
            sets += ["--set=training.phases.0.batch_per_device=24", "--set=allreduce.overlap=backward"]
            few, folded, all_of_them = (self.predicted(*how, *sets) for how in (
                ("-banalytic",), ("-bsim",), ("-bsim", "--grain=full")))
            for found in (few, folded):
                for key, value in all_of_them["step"].items():
                    if isinstance(value, float):
                        self.assertAlmostEqual(found["step"][key], value, delta=1e-3 * all_of_them["step_s"], msg=(words, key))
            self.assertAlmostEqual(folded["step_s"] / all_of_them["step_s"], 1, delta=1e-9, msg=words)
            self.assertNotEqual(folded["schedule_hash"], all_of_them["schedule_hash"])

    def test_a_baseline_has_rounds_of_chunks_and_nodes_for_its_passes(self):
        """5 replicas of 4 stages share 48 samples: 10 each, of which 12 are whole rounds, or whole micro-batches of 4."""
        for word in ("parallel.chunks=3", "training.micro_batch=4"):
            found = self.predicted("-banalytic", f"--set={word}", "--set=cluster.nodes=24", "--set=baseline.nodes=20",
                                   "--set=cluster.devices_per_node=1", "--set=training.phases.0.batch_per_device=null",
                                   "--set=training.phases.0.global_batch=48")
            self.assertEqual(found["baseline"]["batch_per_device"], 12)
        words = "--set=training.phases.0.batch_per_device=null", "--set=training.phases.0.global_batch=4096", "--set=cluster.nodes=32"
        self.assertRegex(run("show", "job", self.job, *words).stdout, r"baseline +8 devices in 1 node")
        self.assertEqual(self.predicted(*words, "-banalytic", "--grain=full")["baseline"]["devices"], 128)

    def test_tables_that_two_stages_use_travel_between_them(self):
        """GPT-2's table of 50257 x 768 : its gradient, in fp32, goes from the first stage to the last and back."""
        for sharding, each in (("null", 50257 * 768), (1, (50257 * 768 + 3) // 4)):
            steps = answer("show", "schedule", self.job, f"--set=parallel.sharding={sharding}")["steps"]
            sent = [step for step in steps if step["name"] == "words send"]
            self.assertEqual([(s["stage"], s["to_stage"], s["bytes"]) for s in sent], [(0, 3, 4 * each), (3, 0, 4 * each)])
            self.assertEqual([step["stage"] for step in steps if step["name"] == "optimizer"], [0, 1, 2, 3])

    def test_layers_in_parts_are_evaluated_and_stages_may_have_no_weights(self):
        """Between layers in parts an evaluation has collectives, too; of 16 stages of VGG some have only pools."""
        words = ("-banalytic", "--set=training.dataset.validation_images=1000", "--set=training.evaluate_every=1 epochs")
        whole, parts = (self.predicted(*words, f"--set=parallel.tensor={tensor}")["evaluation_s"] for tensor in (1, 2))
        self.assertTrue(0.5 * whole < parts < 2 * whole, (whole, parts))
        memory = self.predicted("-banalytic", "--set=model={network: vgg16_bn}", "--set=training.optimizer.name=sgd",
                                "--set=parallel.pipeline=16")["memory"]
        self.assertGreater(memory["weights_bytes"], 0)

    def test_stages_are_shown(self):
        shown = run("show", "job", self.job).stdout
        self.assertIn("in 4 stages", shown)
        self.assertRegex(shown, r"stage 0 .*values of up to 4 micro-batches")
        self.assertRegex(shown, r"stage 3 .*values of up to 1 micro-batches")
        picture = run("show", "step", self.job, "-banalytic").stdout
        self.assertRegex(picture, r"stage 3 +f")
        self.assertIn("  in layers ", run("show", "step", self.job, "-banalytic", "--set=parallel.tensor=2").stdout)
        many = run("show", "step", self.job, "-banalytic", "--set=training.phases.0.batch_per_device=64").stdout
        self.assertEqual(len(re.findall(r"^  stage \d +[fb ]*~+[fb ]*o *$", many, re.MULTILINE)), 4, many)
        self.assertIn("bubble", run("predict", self.job, "-banalytic").stdout)
        self.assertIn("waiting for other stages", run("explain", self.job, "-banalytic",
                                                      "--set=training.phases.0.batch_per_device=4").stdout)

    def test_a_dry_run_has_the_memory_of_a_part_of_each_layer(self):
        words = "--set=parallel={tensor: 2}", "--set=cluster={platform: two-core, nodes: 1}", "--set=model={network: gpt2, layers: 1, sequence: 16}"
        words += self.job, "--set=allreduce={algorithm: ring}"
        dry = run("train", "--dry-run", "-n2", "--device=cpu-naive", *words, "--json")
        if dry.returncode == 69:
            self.skipTest("built without MPI, or mpirun (package openmpi-bin) is missing")
        self.assertEqual(json.loads(dry.stdout)["memory"]["weights_bytes"],
                         answer("predict", "-banalytic", *words)["memory"]["weights_bytes"])

    def test_one_of_each_is_a_value_like_others(self):
        """As on an axis of a sweep: what says how to share stays beside it."""
        for one, none in ((("tensor=1", "sequence=true"), ()), (("pipeline=1", "chunks=1"), ("pipeline=null",)),
                          (("context=1", "context_by=all-gather", "sharding=0"), ())):
            first, second = (self.predicted("-banalytic", *(f"--set=parallel.{word}" for word in words)) for words in (one, none))
            self.assertEqual([first[key] for key in ("schedule_hash", "step_s", "memory")],
                             [second[key] for key in ("schedule_hash", "step_s", "memory")], one)

    def test_what_cannot_be_is_refused(self):
        for *words, message in (("parallel.pipeline=3", "error: 16 devices are no multiple of the 3"),
                                ("parallel.pipeline=16", "more than its 12 blocks"),
                                ("parallel.chunks=4", "more than its 12 blocks"),
                                ("parallel.chunks=3", "training.phases.0.batch_per_device=6", "6 micro-batches are no multiple"),
                                ("parallel.chunks=3", "parallel.schedule=gpipe", "gpipe has one chunk"),
                                ("parallel.pipeline=null", "parallel.chunks=2", "no effect without"),
                                ("parallel.sharding=3", "1 shards the optimizer alone"),
                                ("parallel.context=3", "model.sequence=120", "16 devices are no multiple of the 12"),
                                ("parallel.context=4", "model.sequence=132", "model.sequence, 132, cannot be split in 8 equal parts"),
                                ("parallel.pipeline=null", "parallel.context=2", "cluster.nodes=3", "cluster.devices_per_node=3",
                                 "baseline.devices_per_node=3", "9 devices are no multiple of the 2"),
                                ("parallel.context_by=ring", "no effect without"),
                                ("parallel.expert_by=nodes", "no effect without"),
                                ("parallel.expert=2", "gpt2 has no experts"),
                                ("parallel.expert=3", "model.experts=4", "model.experts, 4, cannot be split in 3 equal parts"),
                                ("parallel.expert=8", "model.experts=8", "4 devices hold the same layers, and 8"),
                                ("parallel.expert_tensor=1", "no effect without"),
                                ("parallel.expert_overlap=true", "no effect without"),
                                ("parallel.expert=2", "model.experts=4", "parallel.tensor=2", "parallel.expert_tensor=1", "needs parallel.sequence"),
                                ("parallel.expert=2", "model.experts=4", "parallel.tensor=2", "parallel.expert_tensor=4", "of one device, or"),
                                ("model.window=8", "parallel.context=2", "parallel.context_by=all-gather"),
                                ("model.kv_rank=8", "model.kv_rank needs model.rotary_size"),
                                ("model.kv_rank=8", "model.rotary_size=8", "positions are rotary"),
                                ("model.query_rank=8", "no effect alone"),
                                ("model.further=1", "model.lora=8", "not beside model.lora"),
                                ("model.network=mamba-2.8b", "state-space layers"), ("model.network=qwen", "unknown network"),
                                ("cluster.platform=t1-torus", "cluster.nodes=16", "are not in nodes"),
                                ("cluster.nodes=3", "are neither whole nodes of 8")):
            self.assertIn(message, self.refused(65, "predict", self.job, *("--set=" + word for word in words)))
        self.assertIn("1 devices are no multiple of the 4", self.refused(65, "train", self.job, "-n1", "--dry-run"))
