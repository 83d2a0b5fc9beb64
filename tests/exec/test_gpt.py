"""CPUs train small transformers: as PyTorch does in fp64, on any number of ranks, and on after a stop.

Usage: test_gpt.py
"""
import csv
import json
import math
import re
import struct

try:
    import numpy as np
except ImportError:  # nor is there PyTorch
    np = None

import harness
import training
from training import read_tensors

VOCAB, LENGTH, SEQUENCES, LAYERS, HIDDEN, HEADS = 61, 24, 8, 2, 32, 4
JOB = f"""version: 1
model:      {{network: transformer, layers: {LAYERS}, hidden: {HIDDEN}, heads: {HEADS}, vocab: {VOCAB}, sequence: {LENGTH}}}
cluster:    {{platform: t1-torus, nodes: 1}}
training:
  dataset: {{train_images: {SEQUENCES}, source: tokens, path: words.bin, augment: false}}
  phases:
    - {{epochs: 50, global_batch: {SEQUENCES}}}
  optimizer: {{name: adamw, weight_decay: 0.1, beta2: 0.95, clip: 1}}
  learning_rate: {{base: 3e-4}}
allreduce:  {{algorithm: ring, bucket: 20 KiB, overlap: backward}}
"""
# A constant that is added to all keys changes no weight of attention: the gradient is rounding alone.
ZERO_GRADIENTS = [f"layer{i}.key.bias" for i in range(LAYERS)]
TOLERANCE_LOSS, TOLERANCE_WEIGHTS = 1e-6, 1e-5
DEVICES = ["cpu-naive", "cpu"]
BF16 = "--set=model.precision.compute=bf16"
LAMB = "--set=training.optimizer={name: lamb, weight_decay: 0.1, beta2: 0.95, clip: 1}"


def words(count, vocab=VOCAB):
    """A file's bytes: numbers that repeat themselves, but not exactly."""
    return struct.pack(f"<{count}H", *((i * i // 7 + 3 * i + i // 5) % vocab for i in range(count)))


def wide(content):
    """The same numbers in 32 bits."""
    return b"".join(content[i:i + 2] + bytes(2) for i in range(0, len(content), 2))


def head(number, count, version=1):
    """That of a file of so many tokens, as llm.c writes it."""
    return struct.pack("<256i", number, version, count, *[0] * 253)


def mix(x):
    """Scramble 64-bit numbers: splitmix64."""
    x = x + np.uint64(0x9e3779b97f4a7c15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return x ^ (x >> np.uint64(31))


def kept(name, step, count):
    """Factors of the values that the dropout @name has in a step: a function of their numbers."""
    layer = 0xcbf29ce484222325
    for byte in name.encode():
        layer = (layer ^ byte) * 1099511628211 % 2**64
    x = mix(np.ones(count, np.uint64))  # the seed
    for number in (np.uint64(step), np.uint64(layer), np.arange(count, dtype=np.uint64)):
        x = mix(x ^ number)
    return np.where(x >> np.uint64(12) < 0.1 * 2**52, 0, 1 / 0.9)


def rounded_products(torch):
    """A function of a, b and a factor: their product, forward and backward of operands in bf16, as the executor rounds them."""

    def narrow(x):
        return x.float().bfloat16().double()

    class Rounded(torch.autograd.Function):
        """(..., m, k) times (..., n, k) across."""

        @staticmethod
        def forward(ctx, a, b, factor):  # pylint: disable=arguments-differ
            ctx.save_for_backward(a, b)
            ctx.factor = factor
            return narrow(a * factor) @ narrow(b).transpose(-1, -2)

        @staticmethod
        def backward(ctx, dy):  # pylint: disable=arguments-differ
            a, b = ctx.saved_tensors
            dy = narrow(dy * ctx.factor)
            return dy @ narrow(b), dy.transpose(-1, -2) @ narrow(a), None

    return Rounded.apply


class Gpt(training.Run):
    """Runs on a file of a few sequences, all of which make each batch."""

    JOB = JOB

    def setUp(self):
        super().setUp()
        (self.directory / "words.bin").write_bytes(words(SEQUENCES * LENGTH + 1))
        self.source = f"--set=training.dataset.path={self.directory / 'words.bin'}"

    def fit(self, name, *more, **others):
        """Train; the directory of the run."""
        return super().fit(name, self.source, "--threads=1", *more, **others)


class AgainstPyTorch(Gpt):
    """Steps of AdamW with clipping, from the same weights: fifty of the job, fewer of its variants."""

    def setUp(self):
        super().setUp()
        try:
            import torch  # pylint: disable=import-outside-toplevel
        except ImportError as missing:
            self.skipTest(f"needs PyTorch (python3-torch): {missing}")
        torch.set_num_threads(1)
        self.torch = torch
        self.rounded, self.moments = None, {}

    def weights(self, run):
        """In fp64, to be trained."""
        return {name: self.torch.tensor(numbers, dtype=self.torch.float64).reshape(shape).requires_grad_()
                for name, (shape, numbers) in self.tensors(run).items()}

    def tokens(self):
        """Of all sequences, and those that follow them."""
        numbers = self.torch.tensor(struct.unpack(f"<{SEQUENCES * LENGTH + 1}H", (self.directory / "words.bin").read_bytes()))
        return numbers[:-1].view(SEQUENCES, LENGTH), numbers[1:].view(SEQUENCES, LENGTH)

    def forward(self, w, tokens, step):
        """The scores of the next tokens, written from the papers alone; with no step nothing is dropped."""
        function = self.torch.nn.functional

        def drop(x, name):
            return x if step is None else x * self.torch.tensor(kept(name + ".dropout", step, x.numel())).view(x.shape)

        def product(a, b, factor=1.0):
            return self.rounded(a, b, factor) if self.rounded else a @ b.transpose(-1, -2) * factor

        def linear(x, name):
            return product(x.flatten(0, -2), w[name + ".weight"]).view(*x.shape[:-1], -1) + w.get(name + ".bias", 0)

        def norm(x, name):
            if name + ".bias" not in w:
                return x / (x.square().mean(2, keepdim=True) + 1e-5).sqrt() * w[name + ".weight"]
            return function.layer_norm(x, (HIDDEN,), w[name + ".weight"], w[name + ".bias"])

        def heads(x):
            x = x.view(len(tokens), LENGTH, -1, HIDDEN // HEADS).transpose(1, 2)
            return x.repeat_interleave(HEADS // x.shape[1], 1)

        def turned(x):
            if "positions.weight" in w:
                return x
            pairs = HIDDEN // HEADS // 2
            angle = self.torch.outer(self.torch.arange(LENGTH, dtype=x.dtype),
                                     10000 ** (-self.torch.arange(pairs, dtype=x.dtype) / pairs))
            a, b = x[..., :pairs], x[..., pairs:]
            return self.torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), 3)

        hidden = drop(w["embedding.weight"][tokens] + w.get("positions.weight", 0), "embedding")
        later = self.torch.ones(LENGTH, LENGTH, dtype=bool).triu(1)
        for i in range(LAYERS):
            at = f"layer{i}."
            x = norm(hidden, at + "attention.norm")
            scores = product(turned(heads(linear(x, at + "query"))), turned(heads(linear(x, at + "key"))),
                             (HIDDEN // HEADS) ** -0.5).masked_fill(later, float("-inf"))
            x = product(drop(scores.softmax(3), at + "softmax"), heads(linear(x, at + "value")).transpose(2, 3))
            hidden = hidden + drop(linear(x.transpose(1, 2).reshape(hidden.shape), at + "output"), at + "attention")
            x = norm(hidden, at + "ffn.norm")
            gate = at + "gate"
            x = (function.silu(linear(x, gate)) * linear(x, at + "up") if gate + ".weight" in w
                 else function.gelu(linear(x, at + "up")))
            hidden = hidden + drop(linear(x, at + "down"), at + "ffn")
        return product(norm(hidden, "norm").flatten(0, 1), w.get("words.weight", w["embedding.weight"]))

    def lamb_step(self, w, moments, number):
        """Algorithm 2 of You et al. 2020, with PyTorch's arithmetic; what has no decay has no trust ratio, as in apex."""
        with self.torch.no_grad():
            for name, t in w.items():
                first, second = moments.setdefault(name, (self.torch.zeros_like(t), self.torch.zeros_like(t)))
                first.lerp_(t.grad, 0.1)
                second.lerp_(t.grad.square(), 0.05)
                u = first / (1 - 0.9 ** number) / ((second / (1 - 0.95 ** number)).sqrt() + 1e-6)
                u = (u + 0.1 * t) if t.dim() > 1 else u
                t -= 3e-4 * u * (t.norm() / u.norm() if t.dim() > 1 else 1)

    def their_losses(self, w, steps, drops, lamb):
        """Train @w."""
        torch = self.torch
        tokens, wanted = self.tokens()
        decayed = [t for name, t in w.items() if t.dim() > 1]
        others = [t for name, t in w.items() if t.dim() == 1]
        optimizer = torch.optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0}],
                                      lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
        losses, moments = [], {}
        for step in range(steps):
            optimizer.zero_grad()
            scores = self.forward(w, tokens, step if drops else None)
            loss = torch.nn.functional.cross_entropy(scores, wanted.flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(w.values()), 1)
            if lamb:
                self.lamb_step(w, moments, step + 1)
            else:
                optimizer.step()
            losses.append(float(loss))
        self.moments = {name: optimizer.state[t].get("exp_avg") for name, t in w.items()}
        return losses

    def compare(self, device, *more, steps=10):
        """The largest differences of losses and, relative to their tensor, of weights."""
        more = ("-n1", *more)
        begin = self.fit(f"begin-{device}", "--set=training.learning_rate.base=0", "--steps=1", *more, device=device)
        w = self.weights(begin)
        theirs = self.their_losses(w, steps, "--set=model.dropout=true" in more, LAMB in more)
        run = self.fit(f"run-{device}", f"--steps={steps}", *more, device=device)
        ours = self.losses(run)
        loss = max(abs(a - b) / b for a, b in zip(ours, theirs))
        apart = {}
        for name, (_, numbers) in self.tensors(run).items():
            want = w[name].detach().flatten()
            apart[name] = float((self.torch.tensor(numbers, dtype=want.dtype) - want).norm() / want.norm())
        worst = max((value, name) for name, value in apart.items() if name not in ZERO_GRADIENTS)
        print(f"{device} {' '.join(more)}: losses {ours[0]:.4f} to {ours[-1]:.4f}, within {loss:.2g}; "
              f"weights within {worst[0]:.2g} ({worst[1]})")
        self.assertEqual(len(ours), steps)
        self.assertLess(ours[-1], ours[0] * (0.9 if steps == 50 else 1))
        self.assertLessEqual(loss, TOLERANCE_LOSS)
        self.assertLessEqual(worst[0], TOLERANCE_WEIGHTS)

    def test_losses_and_weights(self):
        for device in DEVICES:
            with self.subTest(device=device):
                self.compare(device, steps=50)

    def test_lamb(self):
        self.compare("cpu", LAMB)

    def their_gradients(self, start, rounded=None):
        """PyTorch's losses and first moments of two steps from the weights of the run @start."""
        self.rounded, w = rounded, self.weights(start)
        return self.their_losses(w, 2, False, False), {name: t.flatten() for name, t in self.moments.items()}

    def test_bf16(self):
        """Against fp64, and fp64 with the operands of each product rounded.

        A gradient comes through at most 26 products: six of each block and the words, forward and back.  Each of their two
        operands is off by at most 2^-8 of itself, at random: sqrt(2 * 26) 2^-8 = 2.8 % of a tensor's norm.  A token's scores
        have a norm of about 0.9, and the mean loss of 192 tokens, 4.1, moves by that error / sqrt(192): 0.05 %.
        What rounds the same numbers is nearer than what rounds none: they differ only where sums in another order cross a tie.
        """
        more = (BF16, "--set=model.tied=true", "-n1")
        if self.train("--dry-run", self.source, *more, device="cpu", code=(0, 69)).returncode:
            self.skipTest("this CPU has no instructions for bf16")
        start = self.fit("start", "--set=training.learning_rate.base=0", "--steps=1", *more, device="cpu")
        run = self.fit("run", "--steps=2", *more, device="cpu")
        losses, exact = self.their_gradients(start)
        _, near = self.their_gradients(start, rounded_products(self.torch))
        for a, b in zip(self.losses(run), losses, strict=True):
            self.assertAlmostEqual(a / b, 1, delta=5e-4)
        ours = self.tensors(run, "optim")
        worst = {"exact": 0, "near": 0}
        for name in sorted(set(exact) - set(ZERO_GRADIENTS)):
            got = self.torch.tensor(ours[name][1], dtype=exact[name].dtype)
            worst["exact"] = max(worst["exact"], float((got - exact[name]).norm() / exact[name].norm()))
            worst["near"] = max(worst["near"], float((got - near[name]).norm() / (near[name] - exact[name]).norm()))
        print("gradients:", worst)
        self.assertLess(worst["exact"], 0.028)
        self.assertLess(worst["near"], 0.75)

    def test_hugging_face_loads_it(self):
        """Its GPT-2 by its own names, with weights across and one matrix for three, has our loss; and back it comes to the bit."""
        for tied in ("true", "false"):
            more = ("-n1", f"--set=model.tied={tied}", "--set=training.optimizer.clip=null")
            run = self.fit(f"run-{tied}", "--steps=3", *more, device="cpu")
            there, back = self.directory / f"there-{tied}", self.directory / f"back-{tied}"
            tool = harness.ROOT / "tools" / "hugging_face.py"
            self.execute(0, tool, "to", run / "ckpt-000003", there)
            self.execute(0, tool, "from", there / "model.safetensors", run / "ckpt-000003", back)
            self.assertEqual(read_tensors(back / "model.safetensors"), read_tensors(run / "ckpt-000003" / "model.safetensors"))
            on = self.fit(f"on-{tied}", "--steps=1", "--resume", back, *more, device="cpu")
            w = {name: self.torch.tensor(numbers, dtype=self.torch.float64).view(shape)
                 for name, (shape, numbers) in read_tensors(there / "model.safetensors").items()}
            self.assertEqual("lm_head.weight" in w, tied == "false")
            self.assertAlmostEqual(self.losses(on)[0] / self.loss_of_gpt2(w), 1, delta=TOLERANCE_LOSS)

    def loss_of_gpt2(self, w):
        """Of modeling_gpt2.py's network."""
        function, (tokens, wanted) = self.torch.nn.functional, self.tokens()
        x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"]

        def norm(x, name):
            return function.layer_norm(x, (HIDDEN,), w[name + ".weight"], w[name + ".bias"])

        def conv1d(x, name):
            return x @ w[name + ".weight"] + w[name + ".bias"]

        for i in range(LAYERS):
            at = f"transformer.h.{i}."
            query, key, value = (part.view(SEQUENCES, LENGTH, HEADS, -1).transpose(1, 2)
                                 for part in conv1d(norm(x, at + "ln_1"), at + "attn.c_attn").split(HIDDEN, dim=2))
            scores = query @ key.transpose(2, 3) / (HIDDEN // HEADS) ** 0.5
            scores = scores.masked_fill(self.torch.ones(LENGTH, LENGTH, dtype=bool).triu(1), float("-inf"))
            x = x + conv1d((scores.softmax(3) @ value).transpose(1, 2).flatten(2), at + "attn.c_proj")
            x = x + conv1d(function.gelu(conv1d(norm(x, at + "ln_2"), at + "mlp.c_fc")), at + "mlp.c_proj")
        scores = norm(x, "transformer.ln_f") @ w.get("lm_head.weight", w["transformer.wte.weight"]).T
        return float(function.cross_entropy(scores.flatten(0, 1), wanted.flatten()))

    def test_tied_weights_have_one_gradient(self):
        self.compare("cpu-naive", "--set=model.tied=true")

    def test_gates_rotary_positions_and_shared_keys(self):
        self.compare("cpu", *(f"--set=model.{key}" for key in (
            "norm=rms", "gated=true", "position=rotary", "bias=false", "kv_heads=2")))

    def test_what_is_dropped_follows_from_its_numbers(self):
        every = words(LENGTH)  # each sequence the same, so that their order does not matter
        (self.directory / "words.bin").write_bytes(every * SEQUENCES + every[:2])
        self.compare("cpu", "--set=model.dropout=true", "--set=training.micro_batch=4")

    def test_micro_batches_add_up(self):
        self.compare("cpu", "--set=model.tied=true", "--set=training.micro_batch=2")


class Ranks(Gpt):
    """Several ranks, and runs in parts."""

    def test_two_ranks_train_as_one(self):
        one = self.fit("one", "-n1", device=DEVICES[-1])
        two, again = (self.fit(name, "-n2", device=DEVICES[-1]) for name in ("two", "again"))
        self.same_bits(two, again)
        for a, b in zip(self.losses(one), self.losses(two)):
            self.assertAlmostEqual(a / b, 1, delta=1e-5)

    def test_its_pace_is_of_samples_and_tokens(self):
        done = self.execute(0, harness.PROGRAM, "train", self.job, self.source, "--device=cpu", "-n1", "--steps=2")
        for said, start in ((done.stderr, "2 steps in .*: "), (done.stdout, "speed +")):
            found = re.search(start + r"(\S+) samples/s, (\S+) tokens/s", said)
            self.assertAlmostEqual(float(found[2]), LENGTH * float(found[1]), delta=0.051 * LENGTH + 0.51)  # tenths, and ones

    def test_it_goes_on_bit_for_bit(self):
        words_ = ("-n2", "--set=model.tied=true", "--set=training.phases=[{epochs: 12, global_batch: 8}]")
        whole = self.fit("whole", *words_)
        self.fit("parts", *words_, "--steps=5")
        parts = self.fit("parts", *words_, "--resume", self.directory / "parts")
        self.same_bits(whole, parts)

    def test_predict_and_train_walk_the_same_steps(self):
        """`validate` joins them by step and refuses another schedule; how long steps take is not judged here."""
        done = self.execute((0, 1, 75), harness.PROGRAM, "validate", self.job, self.source, "-n2", "--steps=3", "--json")
        answer = json.loads(done.stdout)
        planned = harness.answer("show", "schedule", self.job, self.source, "--set=cluster.nodes=2")
        self.assertEqual(answer["schedule_hash"], planned["schedule_hash"])
        self.assertTrue({"forward", "backward", "optimizer"} <= {row["name"] for row in answer["rows"] if row["measured_s"] > 0})

    def test_a_sharded_adamw_has_the_bits_of_the_whole(self):
        words_ = ("-n2", "--set=training.optimizer.clip=null", "--steps=5")
        self.same_bits(self.fit("whole", *words_), self.fit("shards", *words_, "--set=parallel.sharding=1"))

    def test_text_becomes_tokens(self):
        text = self.write("a.txt", "Ah! " * 300)
        path = self.directory / "text.bin"
        harness.good("data", "tokens", text, "--to", path)
        self.assertEqual(path.read_bytes(), ("Ah! " * 300).encode("utf-16-le"))
        run = self.fit("text", f"--set=training.dataset={{source: tokens, path: {path}, validation_path: {path}, "
                       "train_images: 49, validation_images: 49, augment: false}", "--set=model.vocab=256",
                       "--set=training.evaluate_every=50", device="cpu")
        with open(run / "evaluations.csv", encoding="utf-8") as file:
            row = list(csv.DictReader(file))[-1]
        self.assertGreater(float(row["top1"]), 0.9)
        loss = float(row["loss"])
        self.assertIn(f"{49 * LENGTH} tokens: top-1 {100 * float(row['top1']):.2f} %", said := harness.good("evaluate", run).stdout)
        self.assertIn(f"loss {loss:.4f}, perplexity {math.exp(loss):.4g}", said)

    def test_it_learns_a_rule(self):
        """Seven of eight tokens follow from the two before them, where guesses are right once in five.

        A vocabulary that is no prime has simpler rules within, such as odd and even, with which some runs are content."""
        run = self.fit("rule", "--set=training.dataset={source: procedural, train_images: 2048, validation_images: 64}",
                       "--set=model.vocab=5", "--set=training.phases=[{epochs: 4, global_batch: 32}]",
                       "--set=training.learning_rate.base=0.005", "--set=training.evaluate_every=4",
                       "--set=training.optimizer.weight_decay=0", "-n1", device=DEVICES[-1])
        with open(run / "evaluations.csv", encoding="utf-8") as file:
            row = list(csv.DictReader(file))[-1]
        self.assertGreater(float(row["top1"]), 0.75)
        self.assertEqual(row["images"], "64")


class Files(Gpt):
    """Tokens as others write them."""

    def test_heads_and_widths(self):
        """Of 16 bits or 32, with a head or none: the same tokens train the same weights."""
        count, path = SEQUENCES * LENGTH + 1, self.directory / "words.bin"
        for i, (vocab, files) in enumerate((
                (VOCAB, (words(count), head(20240520, count) + words(count), head(20240801, count, 7) + wide(words(count)))),
                (70000, (wide(words(count)), head(20240520, count) + words(count))))):
            runs = []
            for k, content in enumerate(files):
                path.write_bytes(content)
                runs.append(self.fit(f"{i}-{k}", "-n1", "--steps=2", f"--set=model.vocab={vocab}", device=DEVICES[-1]))
            for run in runs[1:]:
                self.same_bits(runs[0], run)


class Refused(Gpt):
    """What no device trains ends with a name."""

    def refused(self, code, *more, device="cpu-naive"):
        """The message."""
        return self.train("-n1", self.source, *more, code=code, device=device).stderr

    def test_bad_files(self):
        path = self.directory / "words.bin"
        path.write_bytes(words(100)[:-1])
        self.assertIn("words.bin: 199 bytes are no whole number of tokens", self.refused(65))
        path.write_bytes(words(LENGTH))
        self.assertIn("words.bin: 24 tokens are fewer than a sequence", self.refused(65, "--set=training.dataset.train_images=8"))
        path.write_bytes(words(SEQUENCES * LENGTH + 1, VOCAB + 9))
        self.assertIn(f"is beyond a vocabulary of {VOCAB}", self.refused(65, "--strict-data"))
        self.assertIn("words.bin: cannot be read", self.refused(66, "--set=training.dataset.path=/nowhere/words.bin"))
        path.write_bytes(wide(words(SEQUENCES * LENGTH + 1)))
        self.assertIn("words.bin: most second numbers of 16 bits are 0", self.refused(65))
        path.write_bytes(head(20240520, 200) + words(199))
        self.assertIn("words.bin: 199 tokens, but its head says 200", self.refused(65))

    def test_kinds_and_devices(self):
        for key, what in (("segments: 2", "adds parameters other than a row for each position"),
                          ("head: span", "has another number of rows")):
            name, value = key.split(": ")
            with self.subTest(key=key):
                self.assertIn(what, self.refused(69, f"--set=model.{name}={value}"))
        message = self.refused(69, "--dry-run", device="cuda")
        self.assertRegex(message, r"job.yaml:2:\d+: error: CPUs alone train transformer")
        self.assertIn("the network reads tokens", self.refused(64, "--set=training.dataset.source=pack"))
