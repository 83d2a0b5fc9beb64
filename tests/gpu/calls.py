#!/usr/bin/python3
"""Three calls that show what matters, each within acceptance.py's nine minutes.

Usage: acceptance.sh --calls
"""
import pathlib

import machine

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Seconds of each part with one H100 or H200 and 16 cores, at most.  measured: on an H200, 2026-11-27, rounded
# up.  search: estimated from that run, in which 31 s found 68 plans; more plans are to be found, for each of
# which engines are tried for at most a second (PATIENCE in exec/cuda/conv/conv_cudnn.c).  lanes:
# estimated, plans still to be found.  limit: what the part may take.
SECONDS = {
    "build": (15, "measured"),
    "pytorch": (125, "measured: 55 s of torch.compile for each of two variants"),
    "plans 64": (50, "search"),
    "kernels": (20, "measured"),
    "whole device": (120, "measured, with engines searched that are gone"),
    "convolutions": (100, "lanes"), "losses": (70, "lanes"), "gradients bf16": (60, "lanes"),
    "gradients fp16": (50, "measured, plans included"), "small net": (30, "measured"),
    "learning": (5, "measured"), "memcheck": (5, "measured"), "four ranks": (6, "measured"),
    "plans 256": (60, "search"), "plans 512": (90, "search"),
    "plans 256 bf16": (45, "search"),
    "throughput 256": (50, "measured: 3 windows of 40 steps, of five ways to train"),
    "throughput 512": (80, "likewise"),
    "throughput 256 bf16": (35, "likewise, of one way"),
    "layers": (6, "measured"),
    "tuned 256": (45, "settings of 70 plans, half a second each at most; two windows"),
    "input": (60, "limit"),
    "racecheck": (60, "limit"),
    "predicted": (90, "search for 96 images; the other plans were found before"),
    "predicted all": (780, "search for 7 batches"),
}
# What a call asks, the seconds that it takes by these estimates, and its parts.
CALLS = [
    ("is it right?", 331,
     ["build", "plans 64", "kernels", "whole device", "gradients fp16", "losses", "gradients bf16",
      "small net", "learning", "memcheck", "convolutions", "four ranks", "input", "racecheck"]),
    ("how fast is it at 256 images, beside PyTorch, and where does the time go?", 366,
     ["build", "plans 256", "throughput 256", "layers", "tuned 256", "plans 256 bf16",
      "throughput 256 bf16"]),
    ("how fast at 512, and was the step predicted?", 385,
     ["build", "plans 512", "throughput 512", "predicted"]),
]


def carried():
    """What lies in carried/, in words."""
    files = [path for path in (ROOT / "carried").glob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    return (f"carried/ ({len(files)} files, {size:.1f} MB)" if files else
            "carried/ (empty: tests/gpu/carry.sh carried)")


def main():
    """Print the calls."""
    print(f"# Take along each time: the files that git knows, and {carried()}.\n"
          "# Bring home each time: the folder call-N; then cp call-N/convolutions* carried/, and go on.")
    for number, (what, seconds, parts) in enumerate(CALLS, 1):
        print(f"\n# {number}: {what}  At most {seconds} s, estimated for 16 cores.\n"
              f"FORETRAIN_COMMIT={machine.commit(ROOT)} tests/gpu/acceptance.sh "
              f'--out "${{OUT:-build-gpu-acceptance}}/call-{number}" --only "{",".join(parts)}"')


if __name__ == "__main__":
    main()
