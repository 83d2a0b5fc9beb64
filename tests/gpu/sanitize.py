"""A small net under compute-sanitizer."""
import glob
import os
import re
import shutil

from report import Failure, Outcome, Skip, gist, run

# racecheck judges our kernels; what it says of cuDNN's is told beside.
OPTIONS = {"memcheck": ["--report-api-errors", "no"], "racecheck": []}


def our_kernels(root):
    """Names of all kernels of ours."""
    names = set()
    for path in glob.glob(f"{root}/exec/cuda/kernels/*.cu"):
        with open(path, encoding="utf-8") as file:
            names.update(re.findall(r"__global__\s+(?:__launch_bounds__\([^)]*\)\s*)?"
                                    r"void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(",
                                    file.read()))
    return names


def judge(text, tool, ours):
    """(errors in our code, in others') from what compute-sanitizer printed."""
    start = {"memcheck": r"Invalid |Program hit|Misaligned|Leaked",
             "racecheck": r"Error: |Warning: "}[tool]
    mine = others = 0
    # An error is one line that says what, and lines with more blanks that say where.
    for block in re.split(r"^========= (?! )", text, flags=re.MULTILINE)[1:]:
        if not re.match(start, block):
            continue
        if tool == "memcheck" or any(re.search(rf"\b{name}\b", block) for name in ours):
            mine += 1
        else:
            others += 1
    return mine, others


def train(tool, program, job, root):
    """Three steps of a small net."""
    sanitizer = shutil.which("compute-sanitizer")
    if not sanitizer:
        raise Skip("compute-sanitizer is not installed")
    words = [program, "train", job, "--device", "cuda", "--steps", "3", "--threads", "1",
             "--quiet", "--timeout", "0", "--set", "training.phases=[{epochs: 1, global_batch: 8}]",
             "--set", "model.image=16"]
    run(words)  # finds plans at full speed, which a file keeps
    done = run([sanitizer, "--tool", tool, "--print-limit", "1000", *OPTIONS[tool], *words], check=False)
    text = done.stdout + done.stderr
    if re.search(r"Device not supported|not supported on this|unable to (?:attach|launch)", text,
                 re.IGNORECASE):
        raise Skip("compute-sanitizer refuses this device: "
                   + re.search(r".*(?:supported|unable).*", text, re.IGNORECASE)[0].strip())
    summary = re.findall(r"=+ (?:ERROR|RACECHECK) SUMMARY: .*", text)
    if not summary:
        raise Failure(f"no summary, exit {done.returncode}: {gist(text)}")
    mine, others = judge(text, tool, our_kernels(root))
    if done.returncode and not mine:
        raise Failure(f"the trainer ended with exit {done.returncode}")
    return Outcome("fail" if mine else "pass", f"{mine} errors, {others} in libraries' kernels",
                   "0", {"summary": summary[-1], "tool": os.path.basename(sanitizer)})
