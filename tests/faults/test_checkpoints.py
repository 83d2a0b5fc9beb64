"""Checkpoints of another job, another number of ranks or another version are taken, or refused by the
name of what differs."""
import ctypes
import json
import shutil
import unittest

import faults

# What is another, the words that make it so, how it ends, and what is said.
SETTINGS = (
    ("network", "model.network=resnet8", "refused", 'model.network: "toy" -> "resnet8"'),
    ("classes", "model.classes=8", "refused", "model.classes: 4 -> 8"),
    ("size of images", "model.image=32", "refused", "model.image: 16 -> 32"),
    ("data set", "training.dataset.train_images=128", "refused", "training.dataset.train_images"),
    ("optimizer", "training.optimizer.name=lars", "refused",
     'training.optimizer.name: "sgd" -> "lars"'),
    ("momentum", "training.optimizer.momentum=0.5", "if allowed", "training.optimizer.momentum"),
    ("learning rate", "training.learning_rate.base=0.1", "if allowed",
     "training.learning_rate.base: 0.05 -> 0.1"),
    ("global batch", "training.phases.0.global_batch=8", "if allowed",
     "training.phases.0.global_batch: 16 -> 8"),
    ("micro-batch", "training.micro_batch=4", "if allowed", "training.micro_batch: 8 -> 4"),
    ("type of gradients", "model.precision={gradients: bf16}", "if allowed",
     "model.precision.gradients"),
    ("seed", "seed=2", "if allowed", "seed: 1 -> 2"),
    ("platform", "cluster.platform=t1-ring", "taken", 'cluster.platform: "t1-torus" -> "t1-ring"'),
    ("bucket", "allreduce.bucket=8 KiB", "taken", "allreduce.bucket"),
    ("interval of checkpoints", "training.checkpoint.keep=7", "taken", "training.checkpoint.keep"),
)


class Hash(ctypes.Structure):
    """XXH128_hash_t."""
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


XXH3 = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
XXH3.restype = Hash
ENDS = {"refused": (65, 66), "taken": (0,)}  # data, or no input


@unittest.skipUnless(faults.HAS_EXECUTOR, "there is no foretrain-exec")
class Checkpoints(faults.Case):
    """Of a run on one rank."""

    def setUp(self):
        super().setUp()
        code, _, talk = self.train("--out", self.place.out / "run")
        self.assertEqual(code, 0, talk)
        self.checkpoint = self.place.out / "run" / "ckpt-000001"

    def train(self, *words, ranks=1):
        """One step."""
        return self.place.run(["train", "-n", ranks, "--device", "cpu-naive", "--quiet", "--steps", "1",
                               self.place.training, *words])

    def go_on(self, what, result, said, *words, ranks=1):
        """From the checkpoint, and record what came of it."""
        code, _, talk = self.train("--resume", self.checkpoint, *words, ranks=ranks)
        failures = len(self.failures)
        self.expect(code in ENDS[result], f"{what}: exit code {code}: {talk}")
        self.expect(said in talk, f"{what}: not said: {said}: {talk}")
        return len(self.failures) - failures

    def record(self, what, result, failures):
        """A row of the page."""
        faults.record("checkpoints", what, 1, failures, result=result)

    def test_other_settings(self):
        for what, setting, result, said in SETTINGS:
            key = setting.split("=")[0]
            if result == "if allowed":
                bad = self.go_on(what, "refused", f"--allow-change {key}", "--set", setting)
                bad += self.go_on(what, "taken", said, "--set", setting, "--allow-change", key)
            else:
                bad = self.go_on(what, result, said, "--set", setting)
            self.record(what, result, bad)
        self.assertEqual(self.failures, [])

    @unittest.skipUnless(faults.HAS_MPI, "built without MPI, or mpirun is missing")
    def test_other_ranks(self):
        bad = self.go_on("ranks", "taken", "written on 1 rank, continued on 2", ranks=2)
        self.record("number of ranks", "taken", bad)
        self.assertEqual(self.failures, [])

    def write_state(self, state):
        """Replace it, with the right checksums."""
        path = self.checkpoint / "state.json"
        path.write_text(json.dumps(state), encoding="utf-8")
        manifest, lines = self.checkpoint / "MANIFEST", []
        for line in manifest.read_text(encoding="utf-8").splitlines()[:-1]:
            name = line.split()[-1]
            content = path.read_bytes() if name == path.name else None
            lines.append(self.line(content, name) if content else line)
        whole = "".join(line + "\n" for line in lines)
        manifest.write_text(whole + self.line(whole.encode(), "MANIFEST") + "\n", encoding="utf-8")

    @staticmethod
    def line(content, name):
        """Of MANIFEST."""
        digest = XXH3(content, ctypes.c_size_t(len(content)))
        return f"xxh3-128 {digest.high:016x}{digest.low:016x} {len(content)} {name}"

    def test_other_versions(self):
        state = json.loads((self.checkpoint / "state.json").read_text(encoding="utf-8"))
        self.write_state(state)
        self.assertEqual(self.go_on("the same", "taken", ""), 0, self.failures)
        for what, changed, said in (
                ("version before", {"schema": "foretrain/checkpoint/1"}, "of another version"),
                ("version after", {"schema": "foretrain/checkpoint/3"}, "of another version"),
                ("key of a later version", {"later": 1}, "does not know"),
                ("key that is missing", {"seed": None}, "seed")):
            new = {key: value for key, value in {**state, **changed}.items() if value is not None}
            self.write_state(new)
            self.record(what, "refused", self.go_on(what, "refused", said))
        self.assertEqual(self.failures, [])

    def test_other_files(self):
        saved = self.place.root / "saved"
        shutil.copytree(self.checkpoint, saved)
        for name in sorted(path.name for path in saved.iterdir()):
            shutil.rmtree(self.checkpoint)
            shutil.copytree(saved, self.checkpoint)
            (self.checkpoint / name).unlink()
            self.record(f"without {name}", "refused", self.go_on(name, "refused", name))
        self.assertEqual(self.failures, [])
