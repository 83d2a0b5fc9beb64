#!/usr/bin/python3
"""Training on JPEG files, on GPUs in software: who crops and who decodes does not matter.

test_train_pictures.py TRAIN_CUDA MAKE_PICTURES LIBRARY_FOLDER MPIRUN_PY"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = MAKE = LIBRARY = ""
MPIRUN = ""
MISSING = "warning: nvJPEG is not installed"


class TrainPictures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for name, smallest, largest in (("small", 17, 31), ("large", 20, 120)):
            os.mkdir(os.path.join(cls.folder.name, name))
            subprocess.run([MAKE, os.path.join(cls.folder.name, name), str(smallest),
                            str(largest)], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    @functools.lru_cache(maxsize=None)
    def train(cls, name, how, ranks=1, library=True):
        """Losses of a run, and what was said on stderr."""
        environment = dict(os.environ)
        environment.pop("LD_LIBRARY_PATH", None)
        if library:
            environment["LD_LIBRARY_PATH"] = LIBRARY
        done = subprocess.run([sys.executable, MPIRUN, str(ranks), PROGRAM, str(ranks), "1", "torus2d", "fp32",
                               os.path.join(cls.folder.name, name), how], capture_output=True,
                              encoding="utf-8", timeout=1000, check=False, env=environment)
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
    PROGRAM, MAKE, LIBRARY, MPIRUN = sys.argv[1:]
    del sys.argv[1:]
    if not shutil.which("mpirun"):
        print("mpirun (package openmpi-bin) is not installed")
        sys.exit(77)
    unittest.main(verbosity=2)
