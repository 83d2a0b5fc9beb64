#!/usr/bin/python3
"""Pack app/readers into one program that Debian's Python runs.  usage: pack_readers.py PROGRAM

The same sources give the same bytes.
"""
import io
import pathlib
import sys
import zipfile

import project


def main():
    """Write it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((project.ROOT / "app" / "readers").glob("*.py")):
            archive.writestr(zipfile.ZipInfo(path.name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    program = pathlib.Path(sys.argv[1])
    program.write_bytes(b"#!/usr/bin/python3 -I\n" + packed.getvalue())
    program.chmod(0o755)


if __name__ == "__main__":
    main()
