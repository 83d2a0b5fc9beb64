"""Networks that are files: the same as ours, counted by hand, checked, trained or refused."""
import unittest

import support
from support import answer, good, run

SMALL = """\
version: 1
name: small
input: 3x8x8
layers:
  - {name: conv1, kind: convolution, channels: 4, kernel: 3, padding: 1}
  - {name: bn1, kind: batch-norm, relu: true}
  - {name: conv2, kind: convolution, channels: 4, kernel: 3, padding: 1}
  - {name: bn2, kind: batch-norm, add: bn1, relu: true}
  - {name: avgpool, kind: average-pool}
  - {name: fc, kind: linear, channels: 5, bias: true}
"""

# A block of a transformer: 4 positions of 6 features in 2 heads of 3.
BLOCK = """\
version: 1
name: block
input: 1x1x4
layers:
  - {name: words, kind: embedding, channels: 6, rows: 100}
  - {name: places, kind: add, parameters: 24}
  - {name: norm, kind: layer-norm}
  - {name: q, kind: convolution, inputs: [norm], channels: 6, kernel: 1, bias: true}
  - {name: k, kind: convolution, inputs: [norm], channels: 6, kernel: 1, bias: true}
  - {name: v, kind: convolution, inputs: [norm], channels: 6, kernel: 1, bias: true}
  - {name: scores, kind: matmul, inputs: [q, k], inner: 3, out: 2x4x4}
  - {name: softmax, kind: softmax}
  - {name: mixed, kind: matmul, inputs: [softmax, v], inner: 4, out: 6x1x4}
  - {name: sum, kind: add, inputs: [mixed, places]}
  - {name: up, kind: convolution, channels: 24, kernel: 1}
  - {name: gelu, kind: gelu}
  - {name: rest, kind: other, flops: 1000, elements: 50, parameters: 7}
"""

# An embedding whose table is also the head's, and a convolution that runs twice.
SHARED = """\
version: 1
name: shared
input: 1x1x4
layers:
  - {name: words, kind: embedding, channels: 6, rows: 100}
  - {name: mix, kind: convolution, channels: 6, kernel: 1, bias: true}
  - {name: again, kind: convolution, channels: 6, kernel: 1, weights_of: mix, bias: true}
  - {name: head, kind: convolution, channels: 100, kernel: 1, weights_of: words, bias: true}
"""

TRAINED = """\
version: 1
model: {network: %s}
cluster: {platform: t1-torus, nodes: 1}
training:
  dataset: {source: procedural, train_images: 12}
  phases: [{epochs: 1, global_batch: 4}]
"""


class Networks(support.Case):
    """`show model FILE`, `model.network: FILE`."""

    def test_what_reads_no_pictures_has_samples(self):
        """In text; keys of JSON stay."""
        text = TRAINED.replace("global_batch", "batch_per_device")
        job = self.write("job.yaml", text % self.write("block.yaml", BLOCK))
        other = self.write("other.yaml", text % "toy")
        rate = ("--set=input.workers=1", "--set=input.rate=350 samples/s")
        for words, noun in ((("predict", job, *rate), "samples/s at 4 a step"),
                            (("explain", job), "with 4 samples in a step"),
                            (("explain", job, "--set=model.network=gpt2", "--set=cluster.platform=dgx-a100", "--set=parallel.tensor=4"), "8 devices with 8 samples in"),
                            (("compare", job, job), "samples/s")):
            said = run(*words, "-banalytic").stdout
            self.assertIn(noun, said)
            self.assertNotIn("images", said)
        self.assertIn("images/s", run("compare", job, other, "-banalytic").stdout)
        self.assertGreater(answer("predict", job, "-banalytic")["samples_per_s"], 0)

    def test_a_built_in_network_as_a_file_is_the_same_network(self):
        predicted = "gpt2", "vit_b_16", "bert-base", "maskrcnn_r50_fpn", "llama-3-405b", "kimi-k2"  # and not trained
        for name in ("resnet50", "resnet18_v1", "resnet20", "vgg16", "toy", *predicted):
            path = self.write("mine.yaml", run("show", "model", name, "--yaml").stdout)
            self.assertEqual(answer("show", "model", path), answer("show", "model", name))
            self.assertEqual(run("show", "model", path, "--yaml").stdout, path.read_text())
            if name not in predicted:
                hashes = [answer("show", "schedule", self.job, "--set", f"model.network={network}",
                                 *words)["schedule_hash"]
                          for network, words in ((name, ()), (path, ("--set", "model.image=null")))]
                self.assertEqual(*hashes, name)

    def test_the_path_of_a_file_is_relative_to_the_job(self):
        self.write("small.yaml", SMALL)
        job = self.write("with.yaml", support.JOB.replace("resnet50, image: 224", "small.yaml"))
        steps = answer("show", "schedule", job)["steps"]
        self.assertIn("bn2 forward", [step["name"] for step in steps])

    def test_a_transformer_is_counted_by_hand(self):
        model = answer("show", "model", self.write("block.yaml", BLOCK))
        layers = {layer["name"]: layer for layer in model["layers"]}
        flops = {name: layer["flops"]["forward"] for name, layer in layers.items()}
        self.assertEqual(flops["q"], 2 * 6 * 6 * 4)
        self.assertEqual(flops["scores"], 2 * 4 * 4 * 6)
        self.assertEqual(flops["mixed"], 2 * 4 * 4 * 6)
        self.assertEqual(flops["up"], 2 * 6 * 24 * 4)
        self.assertEqual(flops["rest"], 1000)
        self.assertEqual(layers["scores"]["flops"]["backward_data"], 2 * flops["scores"])
        self.assertEqual(layers["scores"]["inputs"], ["q", "k"])
        self.assertEqual(model["parameters"], 600 + 24 + 12 + 3 * 42 + 144 + 7)

    def test_the_loss_is_of_all_positions_and_words(self):
        """GPT-2 has scores of 50257 words at 1024 positions; the loss passes over them three times."""
        job = self.write("job.yaml", TRAINED % "gpt2")
        steps = {step["name"]: step for step in answer("show", "schedule", job)["steps"]}
        scores = steps["words forward"]["flop"] // (2 * 768)
        self.assertEqual(scores % (1024 * 50257), 0)
        self.assertGreater(scores, 0)
        self.assertEqual(steps["loss"]["bytes"], 3 * 4 * scores)

    def test_the_layout_of_convolutions_slows_no_transformer(self):
        vit = BLOCK.replace("input: 1x1x4", "input: 3x4x4").replace(
            "{name: words, kind: embedding, channels: 6, rows: 100}",
            "{name: patches, kind: convolution, channels: 6, kernel: 2, stride: 2}\n"
            "  - {name: words, kind: other, out: 6x1x4}")
        networks = {"bert": self.write("bert.yaml", BLOCK), "vit": self.write("vit.yaml", vit), "cnn": "resnet50"}
        for name, network in networks.items():
            job = self.write("job.yaml", TRAINED.replace("t1-torus", "dgx-a100") % network)
            last, first = (answer("predict", job, "-banalytic", f"--set=cluster.software={software}",
                                  "--set=cluster.devices_per_node=1")
                           for software in ("pytorch", "pytorch-nchw"))
            said = any("convolutions' layout" in line for line in first["assumptions"])
            self.assertEqual(first["step_s"] == last["step_s"], name != "cnn", name)
            self.assertEqual(said, name != "cnn", name)

    def test_weights_that_two_layers_use_are_counted_once_and_ready_after_the_first(self):
        path = self.write("shared.yaml", SHARED)
        self.assertEqual(run("show", "model", path, "--yaml").stdout.count("weights_of"), 2)
        model = answer("show", "model", path)
        self.assertEqual([layer["parameters"] for layer in model["layers"]], [600, 42, 0, 100])
        self.assertEqual([layer["flops"]["backward_filter"] for layer in model["layers"]],
                         [0, 2 * 36 * 4, 2 * 36 * 4, 2 * 600 * 4])
        job = self.write("job.yaml", TRAINED.replace("nodes: 1", "nodes: 2") % path)
        bucket = ("--set=allreduce.bucket=400B", "--set=model.precision.gradients=fp32")
        steps = answer("show", "schedule", job, *bucket)["steps"]
        names = [step["name"] for step in steps]
        waits = [(step["bytes"], names[step["after"][0]["step"]]) for step in steps
                 if step["kind"] == "collective"]
        self.assertEqual(waits[:3], [(400, "head backward-filter"), (400, "words backward-data"),
                                     (400, "words backward-data")])
        self.assertEqual(sum(size for size, _ in waits), 4 * model["parameters"])

    def test_sizes_that_a_file_says_are_not_said_otherwise(self):
        path = self.write("small.yaml", SMALL)
        self.assertIn("'foretrain import onnx", self.refused(65, "predict", self.job, "--set=model.network=./own.onnx"))
        self.assertIn("has 5 outputs", self.refused(65, "show", "schedule", self.job, f"--set=model.network={path}",
                                                    "--set=model.classes=6"))
        shapes = [answer("show", "model", path, *words)["layers"][0]["height"] for words in ((), ("--image=16",))]
        self.assertEqual(shapes, [8, 16])
        self.assertIn("model.tokens", self.refused(65, "predict", self.job, "--set=model.tokens=5"))

    def test_tokens_are_those_of_a_sample(self):
        """bert-large at 128 positions, half of them padding."""
        text = TRAINED.replace("epochs: 1, global_batch", "tokens: 64000, batch_per_device")
        job = self.write("bert.yaml", text % "bert-large, sequence: 128")
        found = [answer("predict", job, "-banalytic", *("--set=" + word for word in words))
                 for words in ((), ("model.tokens=64",), ("model.tokens=64", "model.padded=false"))]
        for result, tokens in zip(found, (128, 64, 64)):
            self.assertAlmostEqual(result["tokens_per_s"] / result["samples_per_s"], tokens)
            self.assertAlmostEqual(sum(phase["epochs"] * 12 for phase in result["phases"]), 64000 / tokens)
        self.assertEqual(found[0]["step"]["compute_s"], found[1]["step"]["compute_s"])
        self.assertLess(found[2]["step"]["compute_s"], found[1]["step"]["compute_s"])
        for word in ("document", "window"):
            self.assertIn("attends to the positions of a window or document alone",
                          self.refused(69, "train", job, "-n1", f"--set=model.{word}=64", "--set=model.network=gpt2"))
        self.assertIn("another number of rows", self.refused(69, "train", job, "-n1", "--dry-run"))
        self.assertIn("beyond 64 bits", self.refused(65, "predict", job, *("--set=" + word for word in (
            "model.network=llama-3-405b", "model.sequence=8192", "training.phases.0.batch_per_device=1000000",
            "training.dataset.train_images=1000000000000"))))
        self.assertIn("64 a sample", run("predict", job, "-banalytic", "--set=model.tokens=64").stdout)
        for words, message in ((("training.phases.0.samples=5",), "epochs, samples or tokens, not two"),
                               (("training.phases.0.tokens=0",), "'0' is out of range"),
                               (("model.tokens=129",), "128 positions"),
                               (("model.heads=65536", "model.head_size=65536"), "features of all heads of attention are more than"),
                               (("model.network=llama-3-8b", "model.sequence=16777216"), "FLOP of a sample are beyond 64 bits"),
                               (("model.network=mixtral-8x7b", "model.experts=65536", "model.active=65536", "model.sequence=65536"),
                                "at all its experts are more than"),
                               (("model.document=129",), "a part of model.sequence, 128 positions"),
                               (("model.document=64", "cluster.software=pytorch"), "all scores are computed"),
                               (("model.network=gpt2", "model.window=64", "cluster.software=pytorch"), "all scores are computed"),
                               (("model.window=64",), "does not predict the next token: model.window has no effect"),
                               (("model.network=gpt2", "model.full_every=2"), "has no window: model.full_every has no effect"),
                               (("model.network=gpt2", "model.expert_groups=3"), "no experts: model.expert_groups has no effect"),
                               (("model.network=mixtral-8x7b", "model.expert_groups=3"), "model.expert_groups divides model.experts"),
                               (("model.network=deepseek-v3", "model.active_groups=9"), "model.expert_groups divides model.experts"),
                               (("model.padded=false",), "no effect without model.tokens"),
                               (("model.network=resnet50", "model.sequence=null"), "pictures, which have no tokens")):
            self.assertIn(message, self.refused(65, "predict", job, *("--set=" + word for word in words)))

    def test_a_length_in_tokens_needs_no_data_set(self):
        """300M tokens of 128 in each of two phases: twice 2343750 samples, which are one epoch."""
        job = self.write("long.yaml", TRAINED.replace("  dataset: {source: procedural, train_images: 12}\n", "").replace(
            "{epochs: 1, global_batch: 4}", "{tokens: 300M, global_batch: 8, micro_batch: 2}, {tokens: 0.3B, global_batch: 4}")
            % "bert-base, sequence: 128")
        phases = answer("predict", job, "-banalytic")["phases"]
        self.assertEqual([(phase["epochs"], phase["steps"]) for phase in phases], [(0.5, 292969), (0.5, 585938)])
        passes = [step for step in answer("show", "schedule", job, "--phase=1")["steps"] if step["name"] == "loss"]
        self.assertEqual(len(passes), 8 // 2)
        for words, message in ((("training.micro_batch=2",), "no effect beside training.micro_batch"),
                               (("training.accumulate=2",), "no effect beside training.accumulate"),
                               (("training.phases.1.micro_batch=1",), "the same in each phase, here 2"),
                               (("training.phases.1.tokens=null", "training.phases.1.epochs=1"),
                                "long.yaml:5:3: error: missing key 'training.dataset', which counts epochs")):
            self.assertIn(message, self.refused(65, "predict", job, *("--set=" + word for word in words)))

    def test_jobs_of_any_network_are_drafted(self):
        """Files and sequences say their own size."""
        for network in (self.write("small.yaml", SMALL), "bert-large", "efficientnet-b0"):
            job = self.directory / "drafted.yaml"
            run("new", "job", "--platform=dgx-h100", "--nodes=2", f"--network={network}", f"--to={job}", "--overwrite")
            self.assertGreater(answer("predict", job, "-banalytic")["step"]["compute_s"], 0, network)
            self.assertEqual("image" in job.read_text().split("precision")[0], network == "efficientnet-b0")

    def agreed(self, job, *sets):
        """The answer in closed form, which the simulator gives, too, in both grains."""
        words = ["--set=" + word for word in sets]
        closed, folded, full = (answer("predict", job, *more, *words) for more in (
            ("-banalytic",), ("--grain=folded",), ("--grain=full",)))
        self.assertAlmostEqual(folded["step_s"] / closed["step_s"], 1, delta=0.001, msg=words)
        self.assertAlmostEqual(full["step_s"] / folded["step_s"], 1, delta=1e-9, msg=words)
        return closed

    def test_devices_of_a_node_share_layers(self):
        """Two nodes of 8: the simulator says what the closed form does, and what cannot be split is refused."""
        job = self.write("shared.yaml", TRAINED.replace("global_batch: 4", "batch_per_device: 1").replace(
            "t1-torus, nodes: 1", "dgx-a100, nodes: 2") % "gpt2" + "parallel: {tensor: 4}\n")
        for words in ((), ("parallel.sequence=true",), ("parallel.tensor=2",), ("allreduce.algorithm=nccl",),
                      ("parallel.recompute=full",), ("allreduce.algorithm=hierarchical",), ("allreduce.algorithm=torus2d",),
                      ("parallel.tensor=8", "model.heads=16"), ("parallel.tensor=16", "model.heads=16"),
                      ("parallel.tensor=16", "model.heads=16", "allreduce.algorithm=nccl"),
                      ("allreduce.channels=all", "training.micro_batch=1", "training.phases.0.batch_per_device=3")):
            closed = self.agreed(job, *words)
            self.assertGreater(closed["step"]["exposed_tensor_s"], 0)
        self.assertEqual(closed["phases"][0]["global_batch"], 3 * 4)
        self.assertIn("inside of layers", run("explain", job).stdout)
        self.assertIn("4 of which share each layer", run("show", "job", job).stdout)
        self.assertIn("tensor reduce-scatter", run("show", "schedule", job, "--set=parallel.sequence=true").stdout)
        for *words, message in (("parallel.tensor=6", "do not fill a node of 8"),
                               ("parallel.sequence=true", "parallel.tensor=3", "model.sequence, 1024"),
                               ("parallel.tensor=8", "model.heads, 12, cannot be split"),
                               ("model.network=toy", "layers of toy are not split"),
                               ("parallel.tensor=null", "parallel.sequence=true", "no effect without"),
                               ("model.network=toy", "parallel.tensor=null", "parallel.recompute=full", "toy has no blocks"),
                               ("cluster.platform=t1-torus", "2 devices are no multiple of the 4")):
            self.assertIn(message, self.refused(65, "predict", job, *("--set=" + word for word in words)))
        self.assertIn("do not fill a job of 1", self.refused(65, "train", job, "-n1", "--dry-run"))
        self.assertIn("parallel.recompute=none", self.refused(69, "train", job, "-n1", "--dry-run",
                                                              "--set=parallel={recompute: selective}"))

    def test_a_vocabulary_that_would_be_padded_is_told(self):
        job = self.write("job.yaml", TRAINED.replace("t1-torus", "dgx-h200") % "gpt2" + "parallel: {tensor: 2}\n")
        for words, padded in ((50257, 50432), (50264, 50432), (50272, None)):
            told = [line for line in answer("predict", job, "-banalytic", f"--set=model.vocab={words}")["assumptions"] if "vocabulary" in line]
            self.assertEqual([f"one of {padded}," in line for line in told], [True] if padded else [])

    def test_what_never_fits_has_no_more_passes_to_advise(self):
        job = self.write("job.yaml", TRAINED % "llama-3-405b, sequence: 1024")
        self.assertIn("even with one sample", self.refused(65, "predict", job, "--set=training.accumulate=2"))

    def test_a_refusal_for_memory_names_what_would_fit(self):
        job = self.write("job.yaml", TRAINED.replace("t1-torus", "dgx-h200").replace("dataset: {source: procedural, train_images: 12}",
                         "optimizer: {name: adamw}").replace("epochs: 1, global_batch: 4", "tokens: 1T, global_batch: 16, micro_batch: 1")
                         % "llama-3-70b, sequence: 8192" + "parallel: {tensor: 8, pipeline: 2, sharding: 1}\n")
        for words, advised in (((), "--set parallel.recompute=full"),
                               (("parallel=null", "training.phases.0.global_batch=128"), "--set parallel.sharding=3 --set parallel.recompute=full"),
                               (("model.network=llama-3-405b",), "--set parallel.pipeline=16 --set parallel.recompute=full")):
            sets = ["--set=" + word for word in ("cluster.nodes=16", *words)]
            self.assertIn(f"it does with {advised};", self.refused(65, "check", job, *sets))
            run("check", job, *sets, *advised.split())
        for words, hope in ((("parallel=null",), "; a larger parallel.tensor or"), ((), "; more nodes may help")):
            self.assertIn(hope, self.refused(65, "predict", job, "--set=model.network=llama-3-405b", "--set=cluster.nodes=2", *("--set=" + word for word in words)))

    def test_devices_keep_shards_of_gradients_and_weights(self):
        """The simulator says what the closed form does; a shard takes less memory; refusals say where and why."""
        job = self.write("shards.yaml", TRAINED.replace("global_batch: 4", "batch_per_device: 1").replace(
            "t1-torus, nodes: 1", "dgx-a100, nodes: 2").replace("12}", "1200}") % "gpt2" +
            "parallel: {sharding: 3}\nallreduce: {bucket: 25 MB}\n")
        for words in ((), ("parallel.sharding=2",), ("allreduce.algorithm=nccl",), ("parallel.tensor=2",),
                      ("allreduce.algorithm=nccl", "training.accumulate=3"), ("model.network=resnet50",)):
            self.assertGreater(self.agreed(job, *words)["step"]["exposed_communication_s"], 0)
        fits = [int(run("show", "job", job, "--set=model.network=gpt2-xl", "--set=model.sequence=64", f"--set=parallel.sharding={stage}"
                        ).stdout.split("at most ")[-1].split()[0])
                for stage in ("null", 1, 2, 3)]
        self.assertEqual(fits, sorted(set(fits)))
        self.assertIn("with gradients and weights", run("show", "job", job).stdout)
        for *words, message in (("parallel.sharding=4", "4"),
                                ("allreduce.algorithm=tree", "must be ring, torus2d or nccl"),
                                ("training.optimizer.name=adafactor", "whole matrices"),
                                ("allreduce.overlap=none", "allreduce.overlap must be backward")):
            self.assertIn(message, self.refused(65, "predict", job, *("--set=" + word for word in words)))
        run("train", job, "-n1", "--dry-run")

    def test_faults_are_told_where_they_are(self):
        faults = [
            ("conv2, kind: convolution", "conv1, kind: convolution", "7:12:.*two layers"),
            ("kind: linear", "kind: lineal", "did you mean 'linear'"),
            ("kind: average-pool", "kind: average-pool, inputs: [fc]",
             "9:50:.*'fc' does not come before 'avgpool'"),
            ("kind: average-pool", "kind: average-pool, inputs: [bn9]", "did you mean 'bn"),
            ("add: bn1", "add: bn2", "adds itself"),
            ("add: bn1", "add: fc", "'fc' is added to it|complete once"),
            ("add: bn1", "add: input", "has 192 values, not 256"),
            ("channels: 5, ", "", "linear needs the key 'channels'"),
            ("kind: average-pool", "kind: average-pool, groups: 2", "no effect on average-pool"),
            ("input: 3x8x8", "input: 3x8", "is no shape"),
            ("input: 3x8x8", "input: 3x0x8", "is no shape"),
            ("input: 3x8x8", "input: 99999999x9999999x999", "is no shape"),
            ("kernel: 3, padding: 1}\n  - {name: bn1", "kernel: 30}\n  - {name: bn1",
             "a window of 30 does not fit"),
            ("padding: 1}\n  - {name: bn1", "padding: 3}\n  - {name: bn1", "less than the kernel"),
            ("channels: 5", "channels: 16000000, in: 4x1x2", "has 4 values, not 8"),
            ("name: fc", "name: 'f c'", "no name of a layer"),
            ("name: small", "name: 'a b'", "no name"),
            ("bias: true}", "bias: true}\n  - {name: m, kind: matmul, inputs: [fc], inner: 5, "
             "out: 1x1x1}", "reads 2 values, not 1"),
            ("bias: true}", "bias: true}\n  - {name: m, kind: matmul, inputs: [fc, fc], inner: 2, "
             "out: 1x1x1}", "not made of sums of 2"),
            ("padding: 1}\n  - {name: bn2", "padding: 1, weights_of: conv1}\n  - {name: bn2",
             "'conv1' has 108 weights, not 144"),
            ("bias: true}", "bias: true, weights_of: fc}", "'fc' is no layer above"),
            ("relu: true}", "relu: true, weights_of: input}", "'input' is no layer above"),
            ("bias: true}", "weights_of: bn2}\n  - {name: l, kind: linear, channels: 5, "
             "weights_of: fc}", "'bn2' has 4 weights, not 20"),
            ("bias: true}", "bias: true}\n  - {name: n, kind: batch-norm, weights_of: bn2}",
             "'bn2' has 4 weights, not 5"),
            ("{name: bn2, kind: batch-norm, add: bn1, relu: true}",
             "{name: bn2, kind: batch-norm, weights_of: bn1}\n"
             "  - {name: bn3, kind: batch-norm, weights_of: bn2}",
             "'bn2' itself uses the weights of 'bn1'"),
            ("kind: average-pool", "kind: average-pool, weights_of: conv1", "no effect on average"),
        ]
        for old, new, message in faults:
            self.assertIn(old, SMALL)
            path = self.write("faulty.yaml", SMALL.replace(old, new, 1))
            stderr = self.refused(65, "show", "model", path)
            self.assertRegex(stderr, message)
            self.assertRegex(stderr, r"faulty\.yaml:\d+:\d+: error: ")
        self.refused(66, "show", "model", "./nowhere.yaml")

    def test_nothing_counts_beyond_64_bits(self):
        for layers in ("{name: a, kind: linear, channels: 16777216}",
                       "{name: a, kind: convolution, channels: 16777216, kernel: 4096, "
                       "padding: 4095}",
                       "{name: a, kind: other, out: 16777216x16777216x16777216}",
                       "{name: a, kind: embedding, channels: 16777216, rows: 1000000000000}",
                       "{name: a, kind: matmul, inputs: [input, input], inner: 3, "
                       "out: 4000x4000x4000}\n"
                       "  - {name: b, kind: linear, channels: 100000}"):
            path = self.write("huge.yaml", "version: 1\nname: huge\ninput: 3x1000x1000\nlayers:\n"
                              f"  - {layers}\n")
            self.refused(65, "show", "model", path)

    def test_a_network_without_parameters_is_nothing_to_train(self):
        path = self.write("none.yaml", "version: 1\nname: none\ninput: 3x8x8\nlayers:\n  - {name: a, kind: relu}\n")
        job = self.write("job.yaml", TRAINED % path)
        for words in (("check",), ("predict", "-banalytic"), ("show", "job"), ("explain", "-banalytic"),
                      ("compare", job, "-banalytic"), ("train", "--dry-run"),
                      ("sweep", "--scan=cluster.nodes=1..2", "-banalytic"),
                      ("plan", "--within=1h", "--nodes=1..2", "-banalytic")):
            done = run(*words, job)
            self.assertEqual(done.returncode, 65, words)
            self.assertRegex(done.stderr, r"none\.yaml:5:3: error: .*nothing to train")

    def test_a_layer_that_nothing_reads_is_told(self):
        path = self.write("unread.yaml", SMALL.replace("avgpool, kind: average-pool",
                                                       "avgpool, kind: average-pool, inputs: [bn1]"))
        done = good("show", "model", path)
        self.assertIn("warning: nothing reads layer 'bn2'", done.stderr)

    def test_a_residual_network_of_a_file_trains_as_the_built_in_one(self):
        model = run("show", "model", "resnet8", "--image", "16", "--yaml").stdout
        self.write("mine.yaml", model.replace("channels: 1000", "channels: 4"))
        losses = []
        for network in ("resnet8, image: 16, classes: 4", "mine.yaml"):
            losses.append(self.losses(self.write("train.yaml", TRAINED % network), 3))
        self.assertRegex(losses[0][0], r"loss +\d\.\d+")
        self.assertEqual(*losses)

    @unittest.skipUnless(support.has_executor(), "this build has no foretrain-exec")
    def test_what_no_device_trains_is_refused_by_name(self):
        path = self.write("train.yaml", TRAINED % "x.yaml")
        refusals = [
            (SMALL.replace("relu: true", "relu: 6", 1), "GPUs train .*without groups, gates, ReLU6"),
            (SMALL.replace("kernel: 3, padding: 1}\n  - {name: bn2",
                           "kernel: 3, padding: 1, groups: 4}\n  - {name: bn2"),
             "GPUs train convolutional networks without "),
            (SMALL.replace("relu: true", "relu: true}\n  - {name: convs, kind: convolution, channels: 4, "
                           "kernel: 3}\n  - {name: bns, kind: batch-norm, weights_of: bn1, relu: true", 1)
             .replace("add: bn1, ", ""), "'bns' .*weights of another layer"),
            (SMALL.replace("  - {name: avgpool", "  - {name: act, kind: silu}\n  - {name: avgpool"),
             "'act' .silu. is a gate of a kind that its network does not say"),
            (BLOCK, "another number of rows than the network has outputs"),
        ]
        for text, message in refusals:
            self.write("x.yaml", text)
            device = "cuda" if "GPUs" in message else "cpu-naive"
            self.assertRegex(self.refused(69, "train", path, "--dry-run", f"--device={device}"), message)
        self.write("x.yaml", SMALL)
        self.assertEqual(run("train", path, "--dry-run", "--device=cpu-naive").returncode, 0)
