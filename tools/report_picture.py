#!/usr/bin/python3
"""Write docs/report.png and docs/report-dark.png: the first pictures of a page, which README.md shows.

Needs chromium and build/foretrain; FORETRAIN names another.
"""
import os
import pathlib
import subprocess
import tempfile

import project

PROGRAM = os.environ.get("FORETRAIN", str(project.ROOT / "build" / "foretrain"))
JOB = "experiments/01_sony_abci/v1-1088.yaml"
WIDTH, HEIGHT = 760, 1180
FRAME = f"""<body style="margin:0"><iframe src="report.html" style="border:0;width:{WIDTH}px;height:{HEIGHT}px"
onload="contentDocument.getElementById('h2').scrollIntoView()"></iframe></body>"""


def main():
    """Predict once, then draw by day and by night."""
    with tempfile.TemporaryDirectory() as directory:
        frame = pathlib.Path(directory, "frame.html")
        frame.write_text(FRAME, encoding="utf-8")
        subprocess.run([PROGRAM, "predict", JOB, "--published", "91.62%", "--report", frame.with_name("report.html")],
                       cwd=project.ROOT, stdout=subprocess.DEVNULL, check=True)
        for name, scheme in (("report", 1), ("report-dark", 0)):
            subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                            "--allow-file-access-from-files", f"--user-data-dir={directory}/profile",
                            f"--window-size={WIDTH},{HEIGHT}", f"--blink-settings=preferredColorScheme={scheme}",
                            f"--screenshot={project.ROOT / 'docs' / name}.png", frame.as_uri()],
                           stderr=subprocess.DEVNULL, check=True)


main()
