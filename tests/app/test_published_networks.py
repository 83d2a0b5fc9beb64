"""experiments/published.py on tables of other networks: rows become jobs, or are refused by name."""
import csv
import io
import random
import resource
import unittest

import support
from test_published import published, run

ROW = {"source": "made up", "round": "", "submitter": "NVIDIA", "system": "box", "nodes": "1", "gpus_per_node": "1",
       "device": "a100-sxm4-80gb", "network": "resnet50", "batch_per_gpu": "256", "precision": "mixed fp16",
       "sequence_length": "224", "samples_per_second": "2560", "remarks": "PT 21.03; nhwc; SGD"}
BERT = {"source": "made up", "date": "MLPerf Training v2.0", "submitter": "NVIDIA", "system": "dgxa100", "device": "A100-80GB",
        "nodes": "1", "gpus_per_node": "8", "gpus": "8", "interconnect": "NVLink", "network": "BERT-large", "seq_len": "512",
        "precision": "", "micro_batch": "56", "grad_accum": "1", "global_batch": "448", "seq_s_from_ttt": "2400",
        "config": "", "remarks": ""}

LANGUAGE = {"source": "made up", "device": "H100-80GB", "nodes": "2", "gpus_per_node": "8", "gpus": "16", "interconnect": "",
            "network": "LLAMA3-8B", "layers": "32", "hidden": "4096", "heads": "32", "kv_heads": "8", "ffn": "14336", "vocab": "128256",
            "seq_len": "8192", "precision": "bf16", "tp": "2", "pp": "2", "vp": "2", "cp": "1", "dp": "4", "ep": "1",
            "zero_fsdp": "distributed optimizer", "micro_batch": "1", "global_batch": "32", "recompute": "none", "iteration_s": "2",
            "split": "check", "remarks": ""}
LAYOUT = {"model": "1B", "gpu": "H100 80GB", "nodes": "1", "gpus": "8", "dp": "8", "pp": "1", "tp": "1", "zero": "0", "micro_batch": "2",
          "global_batch": "256", "sequence": "4096", "iteration_s": "3.3", "memory_gb": "50.2", "outcome": "measured", "consistent": "yes"}


def table(*changes, base=None):
    """A table of rows like one, but for some cells."""
    out, base = io.StringIO(), base or ROW
    writer = csv.DictWriter(out, list(base), lineterminator="\n")
    writer.writeheader()
    writer.writerows([{**base, **change} for change in changes])
    return out.getvalue()


class Networks(support.Case):
    """Small tables made up, in closed form."""

    def answer(self, *changes, base=None):
        """The answer about rows like one, but for some cells."""
        return published(self.write("table.csv", table(*changes, base=base)))

    def predict(self, *changes):
        """The rows of such a table, none of which is refused."""
        answer = self.answer(*changes)
        self.assertEqual(answer["refused"], [])
        return answer["rows"]

    def refusals(self, *changes, base=None):
        """Why rows are refused, each of them."""
        answer = self.answer(*changes, base=base)
        self.assertEqual(answer["rows"], [])
        return [row["refused"] for row in answer["refused"]]

    def test_a_row_is_a_job_with_what_was_measured(self):
        row = self.predict({})[0]
        self.assertAlmostEqual(row["measured_s"], 0.1)
        self.assertAlmostEqual(row["error"], row["predicted_s"] / 0.1 - 1)
        low, high = row["interval_s"]
        self.assertLess(low, row["predicted_s"])
        self.assertLess(row["predicted_s"], high)
        self.assertEqual((row["line"], row["family"], row["device"], row["precision"], row["software"]),
                         (2, "ResNet", "a100-sxm4-80gb", "fp16", "pytorch"))

    def test_names_are_read_in_any_spelling(self):
        rows = self.predict({}, {"network": "tv_resnet50"}, {"network": "ResNet-50"}, {"network": "resnet50_v1.5"},
                            {"network": "mine", "remarks": f"{ROW['remarks']}; torchvision equivalent resnet50"},
                            {"device": "NVIDIA A100-SXM4-80GB (400W)"}, {"device": "LambdaCloud 1x A100 80GB SXM4"})
        self.assertEqual(len({row["predicted_s"] for row in rows}), 1, rows)
        small = self.predict(*({"network": name} for name in ("deit_small_patch16_224", "DeiT-S", "ViT-S/16", "vit_s_16")))
        self.assertEqual(len({row["predicted_s"] for row in small}), 1, small)
        self.assertIn("is not built in", self.refusals({"network": "swin_base_patch4_window12_384"})[0])  # not Swin-B

    def test_a_layout_is_that_of_the_remarks(self):
        last, first, none = self.predict({}, {"remarks": "PT 20.10 NGC, NCHW"}, {"remarks": ""})
        self.assertEqual([row["software"] for row in (last, first, none)], ["pytorch", "pytorch-nchw", "pytorch-nchw"])
        self.assertLess(last["predicted_s"], first["predicted_s"])

    def test_nvidia_fuses_layers_for_mlperf(self):
        row = self.answer({}, base=BERT)["rows"][0]
        old = self.answer({"date": "MLPerf Training v0.7"}, base=BERT)["rows"][0]
        self.assertEqual((row["software"], old["software"]), ("pytorch-mlperf", "pytorch"))
        self.assertLess(row["predicted_s"], 0.9 * old["predicted_s"])
        detector = {"network": "retinanet-resnext50-32x4d", "batch_per_gpu": "32", "precision": "mixed (submission)"}
        rows = self.predict(*({**detector, "round": number, "submitter": name} for number, name in (
            ("v2.0", "Dell"), ("v2.0", "NVIDIA"), ("v2.1", "Dell"))))
        self.assertLess(rows[1]["predicted_s"], rows[0]["predicted_s"])
        self.assertEqual(rows[2]["predicted_s"], rows[1]["predicted_s"])

    def test_cards_of_storage_are_not_those_of_collectives(self):
        several = {"nodes": "8", "gpus": "64", "global_batch": "2048"}
        cards = ("", "Storage: 2x ConnectX-6 IB HDR 200Gb/sec, Management: 1x Ethernet 1Gb/Sec,", "8x ConnectX-6 IB HDR 200Gb/Sec",
                 "2x ConnectX-6 IB HDR 200Gb/Sec")
        usual, storage, many, few = (self.answer({**several, "interconnect": text}, base=BERT)["rows"][0]["predicted_s"]
                                     for text in cards)
        self.assertEqual((storage, many), (usual, usual))
        self.assertLess(usual, few)

    def test_micro_batches_share_one_exchange(self):
        node = {"gpus_per_node": "8", "batch_per_gpu": "32", "remarks": "nhwc; accumulation 4"}
        apart, together = self.predict(node, {**node, "batch_per_gpu": "128", "remarks": "nhwc; gradient accumulation 4; "
                                                                                    "(accumulation not divided out)"})
        self.assertEqual(apart["predicted_s"], together["predicted_s"])
        self.assertAlmostEqual(apart["measured_s"], 4 * 32 * 8 / 2560)
        single = self.predict({**node, "remarks": "nhwc"})[0]
        self.assertLess(apart["predicted_s"], 4 * single["predicted_s"])

    def test_an_optimizer_is_that_of_the_remarks(self):
        sgd, rmsprop, unknown = self.predict({}, {"remarks": "nhwc; RMSprop"}, {"remarks": "nhwc; Adagrad"})
        self.assertLess(sgd["predicted_s"], rmsprop["predicted_s"])
        self.assertEqual(sgd["predicted_s"], unknown["predicted_s"])

    def test_several_nodes_are_for_checking(self):
        rows = self.predict({}, {"nodes": "4", "gpus_per_node": "8"})
        self.assertEqual([row["role"] for row in rows], ["calibration", "check"])
        self.assertGreater(rows[1]["exposed_communication_s"], 0)

    def test_what_is_another_thing_is_scored_apart(self):
        rows = self.predict({}, {"batch_per_gpu": "8"}, {"remarks": "TF 20.06 XLA"}, {"remarks": "nhwc; DUPLICATE of v2.0"},
                            {"round": "v2.0"}, {"round": "v2.1"}, {"round": "v2.1", "samples_per_second": "2561"})
        self.assertEqual([row["role"] for row in rows], ["calibration", "apart", "apart", "apart", "calibration", "apart",
                                                         "calibration"])

    def test_what_cannot_be_expressed_is_refused_by_name(self):
        cases = (({"network": "3d-unet"}, "network '3d-unet' is not built in"),
                 ({"network": ""}, "network '?' is not built in"),
                 ({"device": "Graphcore IPU GC200"}, "device 'Graphcore IPU GC200' is not in platforms/devices"),
                 ({"device": "GeForce GTX 1080"}, "device 'GeForce GTX 1080'"),
                 ({"device": "TPU v3", "gpus_per_node": "8"}, "the collectives of tpu-v3 are not known"),
                 ({"precision": "int4"}, "precision 'int4' is not known"),
                 ({"remarks": "parameter server on the CPU", "gpus_per_node": "2"}, "parameter servers"),
                 ({"remarks": "less than one sample a device: spatial"}, "spatial or model parallelism"),
                 ({"batch_per_gpu": ""}, "the row does not give the batch"),
                 ({"batch_per_gpu": "0.5"}, "batch is 0.5"), ({"nodes": "0"}, "nodes is 0"),
                 ({"batch_per_gpu": "10", "remarks": "accumulation 3 (accumulation not divided out)"}, "divided evenly"))
        said = self.refusals(*(change for change, _ in cases))
        for (change, words), reason in zip(cases, said):
            self.assertIn(words, reason, change)
            self.assertIn(f"network '{change.get('network', 'resnet50') or '?'}'", reason)

    def test_a_run_without_a_throughput_is_predicted(self):
        row = self.predict({"samples_per_second": ""})[0]
        self.assertEqual((row["measured_s"], row["error"]), (None, None))

    def test_runs_of_bert_have_a_table_of_their_own(self):
        said = self.refusals({"device": "Habana Gaudi"}, {"network": "GPT-9"}, {"tflops_per_gpu_upper": "15424.8"},
                             base={**BERT, "tflops_per_gpu_upper": ""})
        self.assertIn("network 'BERT-large': device 'Habana Gaudi'", said[0])
        self.assertIn("another unit", said[2])

    def test_a_malformed_table_says_where(self):
        for text, message in ((table({"batch_per_gpu": "many"}), "table.csv:2: error: cell 9, batch_per_gpu: not a number: 'many'"),
                              (table({}) + "a,b\n", "table.csv:3: error: cell 3: the row ends here"),
                              (table({"batch_per_gpu": "-1"}), "table.csv:2: error: cell 9, batch_per_gpu: a negative number")):
            done = run(self.write("table.csv", text), "--json")
            self.assertEqual((done.returncode, done.stdout), (65, ""))
            self.assertIn(message, done.stderr)

    def test_a_mesh_of_a_language_model_is_a_job(self):
        whole, narrow, full, unknown = self.answer({}, {"precision": "FP8-CS"}, {"recompute": "full"}, {"recompute": "see recipe"},
                                                   base=LANGUAGE)["rows"]
        self.assertLess(narrow["predicted_s"], 0.9 * whole["predicted_s"])
        self.assertGreater(full["predicted_s"], 1.1 * whole["predicted_s"])
        self.assertEqual((unknown["role"], unknown["predicted_s"]), ("apart", whole["predicted_s"]))

    def test_the_smallest_runs_of_megatron_core_are_anchors(self):
        node = {"source": "NVIDIA-NeMo/Megatron-Bridge", "nodes": "1", "gpus": "8", "precision": "FP8-CS", "recompute": "not stated",
                "pp": "1"}
        rows = self.answer(node, {**node, "network": "LLAMA2-7B LoRA"}, {**node, "nodes": "2", "gpus": "16", "dp": "8"},
                           {**node, "source": "torchtitan"}, {**node, "network": "Qwen3_30B_a3B", "layers": "", "ep": "4"},
                           base=LANGUAGE)["rows"]
        self.assertEqual([(row["role"], row["software"]) for row in rows],
                         [("anchor", "megatron-core"), ("apart", "megatron-core"), ("apart", "megatron-core"),
                          ("apart", "pytorch-flash"), ("anchor", "megatron-core")])

    def test_racks_of_72_are_nodes(self):
        rack = {"device": "GB200", "nodes": "16", "gpus_per_node": "4", "gpus": "64", "dp": "16", "global_batch": "128"}
        narrow, = self.answer({"network": "LLAMA2-7B LoRA", "precision": "fp8", "device": "H100-80GB"}, base=LANGUAGE)["rows"]
        self.assertGreater(narrow["predicted_s"], 0)
        row, experts = self.answer(rack, {**rack, "network": "Qwen3_30B_a3B", "layers": "", "ep": "8"}, base=LANGUAGE)["rows"]
        self.assertEqual((row["nodes"], row["devices"], row["role"], experts["role"]), (1, 64, "check", "apart"))

    def test_a_layout_has_memory(self):
        ran, crashed = self.answer({}, {"pp": "2", "dp": "4", "micro_batch": "32", "outcome": "crashed/oom", "iteration_s": "",
                                        "memory_gb": ""}, base=LAYOUT)["rows"]
        self.assertAlmostEqual(ran["memory_bytes"] / ran["measured_memory_bytes"], 1, delta=0.05)
        self.assertGreater(crashed["memory_bytes"], 80e9)
        self.assertIsNone(crashed["measured_s"])

    def test_cards_of_a_layout_reach_what_collectives_did(self):
        several = [{"nodes": "16", "gpus": "128", **change} for change in ({"dp": "64", "pp": "2"}, {"dp": "8", "tp": "16"})]
        folder = self.directory / "jobs"
        run(self.write("table.csv", table(*several, base=LAYOUT)), "--jobs", folder)
        for line, part in ((2, "24.9 %"), (3, "90.42 %")):
            self.assertIn(f"efficiency: {{value: {part}, source: \"all-reduces over", (folder / f"platforms/{line:04d}.yaml").read_text())

    def test_a_language_model_that_no_job_says_is_refused_by_name(self):
        for change, reason in (({"precision": "int8"}, "precision 'int8'"),
                               ({"layers": "", "network": "Nemotron_3_Nano"}, "does not give layers"), ({"dp": "3"}, "divide evenly"),
                               ({"zero_fsdp": "ZeRO-9"}, "sharding 'ZeRO-9'"), ({"device": "A100-80GB", "precision": "fp8"}, "fp8")):
            self.assertIn(reason, self.refusals(change, base=LANGUAGE)[0])

    def test_no_words_of_a_row_crash(self):
        luck = random.Random(31)
        odd = ("", "?", "\u2028", "{[", "'\"", "accumulation 99999999999999999999", "a" * 500, "\x1b[31m", "8x 8x", "TF", "v2.1",
               "bert", "vit_b_16", "null", "- ~", "SXM", "80GB", "1x", "fp8", "bf16", "tf32", "nhwc nchw", "x/0 accumulation")
        texts = [name for name in ROW if name not in ("nodes", "gpus_per_node", "batch_per_gpu", "sequence_length",
                                                      "samples_per_second")]
        rows = [{name: luck.choice(odd) for name in luck.sample(texts, 3)} for _ in range(150)]
        answer = self.answer(*rows)
        self.assertEqual(len(answer["rows"]) + len(answer["refused"]), len(rows))
        self.assertTrue(all(len(row["refused"]) > 10 for row in answer["refused"]))

    @unittest.skipIf(support.SANITIZED, "slower")
    def test_few_rows_of_known_networks_are_refused_and_soon(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        answer = published(support.ROOT / "experiments" / "07_networks" / "single.csv")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        known = [row for row in answer["refused"] if "not built in" not in row["refused"]]
        self.assertLess(len(known), (len(answer["rows"]) + len(known)) / 5)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.assertLess(seconds, 120 * 252 / 2305)
