#!/usr/bin/python3
"""Three calls that show what matters, each within acceptance.py's nine minutes.

Usage: acceptance.sh --calls
"""
import pathlib

import machine

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Seconds of each part with one H100 or H200 and 16 cores, at most.  None was measured there.
# search: 151 plans, for each of which engines are tried for at most a second (PATIENCE in
# exec/cuda/conv/conv_cudnn_search.c): estimated as 45 to 80 s at 256 images, up to 110 s at 512, and 0.03 s
# per image of 224 x 224 for what the host computes to check them (measured: 6.5 s of one core for all shapes
# and ops at 256, 9.9 s at 512).  lanes: estimated as 90 to 140 s for all, plans still to be found; the
# longest lane takes that.  limit: what the part may take.
SECONDS = {
    "build": (60, "190 s on one busy core"),
    "pytorch": (120, "estimated: four variants, while the other lane builds"),
    "plans 64": (80, "search"),
    "kernels": (40, "lanes"), "whole device": (100, "lanes"), "convolutions": (100, "lanes"),
    "gradients fp16": (70, "lanes"), "losses": (70, "lanes"),
    "gradients bf16": (100, "lanes"), "small net": (40, "lanes"),
    "learning": (60, "limit"), "memcheck": (60, "limit"),
    "four ranks": (90, "limit"),
    "plans 256": (88, "search"), "plans 512": (126, "search"),
    "plans 256 bf16": (43, "search, of 73 plans"),
    "throughput 256": (100, "estimated: 3 windows of 40 steps, of five ways to train"),
    "throughput 512": (120, "likewise"),
    "throughput 256 bf16": (35, "likewise, of one way"),
    "layers": (40, "one run with steps issued one by one"),
    "tuned 256": (45, "settings of 70 plans, half a second each at most; two windows"),
    "input": (60, "limit"),
    "racecheck": (60, "limit"),
    "predicted": (113, "search for 96 images, 83 s; the other plans were found before"),
    "predicted all": (780, "search for 7 batches"),
}
# What a call asks, the seconds that it takes by these estimates, and its parts.
CALLS = [
    ("is it right?", 490,
     ["build", "plans 64", "kernels", "whole device", "gradients fp16", "losses", "gradients bf16",
      "small net", "learning", "memcheck", "convolutions", "four ranks", "input", "racecheck"]),
    ("how fast is it at 256 images, beside PyTorch, and where does the time go?", 471,
     ["build", "plans 256", "throughput 256", "layers", "tuned 256", "plans 256 bf16",
      "throughput 256 bf16"]),
    ("how fast at 512, and was the step predicted?", 479,
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
