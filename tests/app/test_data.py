"""`data pack` and `data check`.  The images are JPEG files as bytes: 16 x 16 and 8 x 8 of grey."""
import io
import json
import pathlib
import tarfile

import support
from support import answer, good, run


def grey_jpeg(side):
    """A baseline JPEG of one grey, put together from its markers; @side is 8 or 16."""
    def segment(marker, *content):
        body = bytes(content)
        return bytes([0xff, marker]) + (len(body) + 2).to_bytes(2, "big") + body
    blocks = (side // 8) ** 2
    # A DC table with one code, 0 for "no difference"; an AC table with one, 0 for "end of block".
    table = [1] + 15 * [0] + [0]
    bits = "00" * blocks
    bits += "1" * (-len(bits) % 8)
    return (b"\xff\xd8" + segment(0xdb, 0, *64 * [1])
            + segment(0xc0, 8, 0, side, 0, side, 1, 1, 0x11, 0)
            + segment(0xc4, 0x00, *table) + segment(0xc4, 0x10, *table)
            + segment(0xda, 1, 1, 0x00, 0, 63, 0)
            + int(bits, 2).to_bytes(len(bits) // 8, "big") + b"\xff\xd9")


class Data(support.Case):
    """A folder of two classes with three images."""

    def setUp(self):
        super().setUp()
        for name, side in ("cat/1.jpg", 16), ("cat/two/3/2.JPEG", 8), ("dog/1.jpg", 16):
            path = self.directory / "f" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(grey_jpeg(side))
        self.pack = self.directory / "a.ftp"

    def test_a_folder_becomes_a_pack(self):
        packed = answer("data", "pack", self.directory / "f", "--to", self.pack, "--image=8")
        self.assertEqual(packed["images"], 3)
        self.assertEqual(packed["classes"], 2)
        self.assertEqual(packed["left_out"], 0)
        self.assertEqual(packed["split"], "train")
        self.assertEqual(packed["shorter_side"], 8)
        self.assertEqual(packed["images_in_smallest_class"], 1)
        self.assertEqual(packed["images_in_largest_class"], 2)
        self.assertEqual(packed["bytes"], self.pack.stat().st_size)
        self.assertEqual(answer("data", "check", self.pack), packed)

    def test_a_tar_file_becomes_a_pack(self):
        with tarfile.open(self.directory / "s-0.tar", "w") as tar:
            for key, label, image in ("a", "1", "jpg"), ("b", "0", "JPEG"):
                for name, content in (f"{key}.{image}", grey_jpeg(8)), (key + ".cls", label.encode()):
                    member = tarfile.TarInfo(name)
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        packed = answer("data", "pack", self.directory / "s-{0..0}.tar", "--to", self.pack,
                        "--split=validation", "--threads=3")
        self.assertEqual((packed["images"], packed["split"]), (2, "validation"))

    def test_text_says_what_was_packed(self):
        done = good("data", "pack", self.directory / "f", "--to", self.pack, "--image=8")
        self.assertEqual(done.stderr, "")
        self.assertIn("3 images of 2 classes for training, shorter side at most 8", done.stdout)
        self.assertIn("1 to 2 images in a class", done.stdout)
        checked = run("data", "check", self.pack)
        self.assertEqual(checked.stdout, done.stdout + "all of it is what was written\n")

    def test_corrupt_images_are_left_out_by_name(self):
        bad = self.directory / "f/cat/3.jpg"
        bad.write_bytes(grey_jpeg(16)[:40])
        done = run("data", "pack", self.directory / "f", "--to", self.pack, "--json")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, rf"warning: {bad}: damaged JPEG: .*; image left out")
        self.assertEqual(json.loads(done.stdout)["left_out"], 1)
        self.pack.unlink()
        message = self.refused(65, "data", "pack", self.directory / "f", "--to", self.pack,
                               "--strict-data")
        self.assertIn(str(bad), message)
        self.assertEqual(sorted(p.name for p in self.directory.iterdir()), ["f", "job.yaml"])

    def test_a_damaged_pack_is_refused(self):
        answer("data", "pack", self.directory / "f", "--to", self.pack)
        content = bytearray(self.pack.read_bytes())
        content[4100] ^= 1
        self.pack.write_bytes(content)
        message = self.refused(65, "data", "check", self.pack)
        self.assertIn(f"{self.pack}: image 0 is not what was written", message)
        self.pack.write_bytes(content[:-1])
        self.assertIn("cut short", self.refused(65, "data", "check", self.pack))

    def test_speed_is_measured(self):
        answer("data", "pack", self.directory / "f", "--to", self.pack)
        for path, source in (self.directory / "f", "imagefolder"), (self.pack, "pack"):
            speed = answer("data", "speed", path, "--image=32", "--threads=2")
            self.assertEqual((speed["source"], speed["image"]), (source, 32))
            self.assertGreater(speed["images_per_s"], 1)
            self.assertGreater(speed["images_per_cpu_s"], 1)
            self.assertEqual(speed["corrupt"], 0)
        self.refused(66, "data", "speed", self.directory / "none")
        self.refused(64, "data", "speed", self.pack, "--image=0")

    def test_faults(self):
        folder = self.directory / "f"
        self.assertIn("--to is needed", self.refused(64, "data", "pack", folder))
        self.refused(64, "data", "pack", folder, "--to", self.pack, "--image=0")
        self.refused(64, "data", "pack", folder, "--to", self.pack, "--split=test")
        self.refused(64, "data", "pack", "--to", self.pack)
        self.refused(64, "data", "unpack", folder)
        self.refused(66, "data", "pack", self.directory / "none", "--to", self.pack)
        self.refused(73, "data", "pack", folder, "--to", "/proc/none/a.ftp")
        self.refused(66, "data", "check", self.directory / "none")
        self.assertIn("not a pack", self.refused(65, "data", "check", pathlib.Path(__file__)))
