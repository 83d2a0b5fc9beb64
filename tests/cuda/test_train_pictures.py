"""Training on JPEG files, on GPUs in software: who crops them does not matter.

test_train_pictures.py TRAIN_CUDA MAKE_PICTURES"""

import functools
import os
import sys
import tempfile

import harness

harness.need_mpi()

PROGRAM, MAKE = sys.argv.pop(1), sys.argv.pop(1)


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
    def train(cls, name, how, ranks=1, **settings):
        """Losses of a run, and what was said on stderr."""
        done = harness.execute(*harness.on_ranks(ranks, PROGRAM, ranks, 1, "torus2d", "fp32",
                                                 os.path.join(cls.folder, name), how),
                               environment=settings)
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

    def test_the_device_crops_as_the_cpu_does(self):
        images, _ = self.train("small", "images")
        pictures, said = self.train("small", "pictures")
        self.compare(images, pictures, 2e-6)
        self.assertIn("damaged JPEG", said)

    def test_pictures_that_do_not_fit_are_rounded(self):
        images, _ = self.train("large", "images")
        self.compare(images, self.train("large", "pictures")[0], 4e-3)

    def test_augmentation_ends_with_the_batch_where_the_job_says_so(self):
        """1.6 of 4 epochs before the end: in the second of the batches of 48, however far ahead pictures are read."""
        ends, _ = self.train("small", "pictures")
        never, _ = self.train("small", "pictures", FORETRAIN_TEST_AUGMENT="1")
        self.assertEqual(ends[:9], never[:9])
        self.assertNotEqual(ends[9], never[9])

    def test_two_ranks_train_what_one_does(self):
        one, _ = self.train("small", "pictures")
        two, _ = self.train("small", "pictures", ranks=2)
        self.compare(one, two, 2e-6)
