#!/usr/bin/python3
"""Write docs/report.png, docs/report-dark.png and docs/report-narrow.png: the first screen of a page, which README.md shows.

Needs chromium and build/foretrain; FORETRAIN names another.
"""
import os
import pathlib
import subprocess
import tempfile

import project

PROGRAM = os.environ.get("FORETRAIN", str(project.ROOT / "build" / "foretrain"))
JOB = "experiments/01_sony_abci/v1-1088.yaml"
PICTURES = (("report", 1200, 1100, 1), ("report-dark", 1200, 1100, 0), ("report-narrow", 320, 1100, 1))  # light is 1


def main():
    """Predict once, then draw by day and by night."""
    with tempfile.TemporaryDirectory() as directory:
        page = pathlib.Path(directory, "report.html")
        subprocess.run([PROGRAM, "predict", JOB, "--published", "91.62%", "--report", page],
                       cwd=project.ROOT, stdout=subprocess.DEVNULL, check=True)
        for name, width, height, scheme in PICTURES:
            subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                            "--allow-file-access-from-files", f"--user-data-dir={directory}/profile",
                            f"--window-size={width},{height}", "--virtual-time-budget=20000", f"--blink-settings=preferredColorScheme={scheme}",
                            f"--screenshot={project.ROOT / 'docs' / name}.png", page.as_uri()],
                           stderr=subprocess.DEVNULL, check=True)


main()
