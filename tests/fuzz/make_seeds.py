#!/usr/bin/python3
"""Write what the harnesses of training data start from.  usage: make_seeds.py FOLDER"""
import io
import pathlib
import struct
import sys
import tarfile

import yaml  # package python3-yaml
from PIL import Image  # which torchvision brings

BAD = pathlib.Path(__file__).resolve().parents[1] / "bad"


def tar(form):
    """Two images with their classes; one name is long."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=form, bufsize=512) as archive:
        for name, content in (("a.jpg", b"image"), ("a.cls", b"1"),
                              (f"b/{'c' * 120}.jpg", b"image"), (f"b/{'c' * 120}.cls", b"0\n")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return data.getvalue()


def pack():
    """A header, an entry and the size of a file of one image of 2 x 2 pixels."""
    header = struct.pack("<8sIIIIQQQQ", b"ftpack\r\n", 1, 10, 0, 256, 1, 8192, 0, 0)
    return header + struct.pack("<QQIIII", 4096, 0, 2, 2, 3, 0) + struct.pack("<q", 8192 + 32)


def jpeg(mode, **options):
    """A picture of 24 x 16 pixels, no two alike."""
    picture = Image.linear_gradient("L").resize((24, 16)).convert(mode)
    data = io.BytesIO()
    picture.save(data, "JPEG", **options)
    return data.getvalue()


def merged(below, above):
    """What a file means that extends another."""
    return {**below, **{key: merged(below[key], value) if isinstance(value, dict)
                        and isinstance(below.get(key), dict) else value
                        for key, value in above.items()}}


def whole(path):
    """A faulty file without `extends`, which works only in files."""
    content = path.read_bytes()
    try:
        document = yaml.safe_load(content)
        base = yaml.safe_load((path.parent / document.pop("extends")).read_bytes())
        return yaml.safe_dump(merged(base, document)).encode()
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, yaml.YAMLError):
        return content


def main():
    """Write each seed into the folder of its harness."""
    folder = pathlib.Path(sys.argv[1])
    seeds = {"tar/pax.tar": tar(tarfile.PAX_FORMAT), "tar/gnu.tar": tar(tarfile.GNU_FORMAT),
             "pack/header": pack(), "cifar10/two": bytes(3073) + bytes([9]) + bytes(3072),
             "jpeg/grey": jpeg("L"), "jpeg/progressive": jpeg("RGB", progressive=True),
             "jpeg/inks": jpeg("CMYK"), "jpeg/restarts": jpeg("RGB", restart_marker_blocks=1)}
    for kind, folders in {"scenario": ("scenario", "job"), "platform": ("platform",)}.items():
        for path in (path for folder in folders for path in (BAD / folder).iterdir()):
            seeds[f"{kind}/{path.name}"] = whole(path)
    for name, content in seeds.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
