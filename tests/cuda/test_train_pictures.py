#!/usr/bin/python3
"""Training on JPEG files, on GPUs in software: who crops and who decodes does not matter.

test_train_pictures.py TRAIN_CUDA MAKE_PICTURES LIBRARY_FOLDER"""

import functools
import os
import sys
import tempfile

import harness

PROGRAM = MAKE = LIBRARY = ""
MISSING = "warning: nvJPEG is not installed"


class TrainPictures(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        for name, smallest, largest in (("small", 17, 31), ("large", 20, 120)):
            os.mkdir(os.path.join(cls.folder, name))
            made = harness.execute(MAKE, os.path.join(cls.folder, name), smallest, largest)
            assert made.returncode == 0, made.stderr

    @classmethod
    @functools.lru_cache(maxsize=None)
    def train(cls, name, how, ranks=1, library=True):
        """Losses of a run, and what was said on stderr."""
        done = harness.execute(*harness.on_ranks(ranks, PROGRAM, ranks, 1, "torus2d", "fp32",
                                                 os.path.join(cls.folder, name), how),
                               environment={"LD_LIBRARY_PATH": LIBRARY if library else ""})
        assert done.returncode == 0, done.stdout + done.stderr
        losses = [float(line) for line in done.stdout.split()]
        assert len(losses) == 12
        return losses, done.stderr

    def compare(self, one, other, limit):
        """Losses of the same images, differently rounded."""
        most = max(abs(a - b) for a, b in zip(one, other))
        print(f"losses differ by at most {most:.3g}")
        self.assertLess(most, limit)

    # The limits are four to eight times what was found.

    def test_the_device_crops_and_decodes_as_the_cpu_does(self):
        images, _ = self.train("small", "images")
        pictures, said = self.train("small", "pictures")
        self.compare(images, pictures, 2e-6)
        self.assertNotIn("nvJPEG", said)
        files, said = self.train("small", "files")
        self.compare(images, files, 2e-6)
        self.assertIn("damaged JPEG", said)

    def test_large_pictures_are_rounded_and_made_smaller_in_another_way(self):
        images, _ = self.train("large", "images")
        for how in ("pictures", "files"):
            self.compare(images, self.train("large", how)[0], 4e-3)

    def test_two_ranks_train_what_one_does(self):
        one, _ = self.train("small", "files")
        two, _ = self.train("small", "files", ranks=2)
        self.compare(one, two, 2e-6)

    def test_without_the_library_the_cpu_decodes(self):
        files, said = self.train("small", "files")
        self.assertNotIn(MISSING, said)
        without, said = self.train("small", "files", library=False)
        if MISSING not in said:
            self.skipTest("nvJPEG is installed here")
        self.assertEqual(said.count(MISSING), 2)  # it trains twice
        self.compare(files, without, 2e-6)


if __name__ == "__main__":
    harness.need_mpi()
    PROGRAM, MAKE, LIBRARY = sys.argv[1:]
    harness.main(argv=sys.argv[:1])
