"""Four ranks on one GPU, over loopback sockets, against one rank.

NCCL refuses two ranks on one GPU of one machine, so each gets a NCCL_HOSTID of its own and they
talk as if from machine to machine.  That shows that rows, columns and blocks are right; it says
nothing of speed.
"""
import os
import socket
import subprocess
import time

from report import Failure, Outcome, end_group, gist, last_object

COLUMNS, ROWS = 2, 2
# As on the CPU (tests/exec/test_learning.py): what is left is the order of summation.
TOLERANCE = 2e-3
# Source: NVIDIA's NCCL user guide, environment variables; getHostHash() in NCCL 2.28.9.
LOOPBACK = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
            "NCCL_IB_DISABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_DEBUG": "WARN"}


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environments(base, ranks, port):
    """One environment per rank."""
    return [{**base, **LOOPBACK, "NCCL_HOSTID": f"foretrain-{rank}",
             "FORETRAIN_RANK": str(rank), "FORETRAIN_RANKS": str(ranks),
             "FORETRAIN_LOCAL_RANK": str(rank), "FORETRAIN_LOCAL_RANKS": str(ranks),
             "FORETRAIN_ADDRESS": f"127.0.0.1:{port}"} for rank in range(ranks)]


def command(program, job, device, steps, threads, columns, rows):
    """One rank's words."""
    torus = f"{{algorithm: torus2d, grid: {{columns: {columns}, rows: {rows}}}}}"
    grid = ["--set", f"cluster.nodes={rows}", "--set", f"cluster.devices_per_node={columns}",
            "--set", f"allreduce={torus}"]
    return [str(word) for word in (
        program, "train", job, "--device", device, "--steps", steps, "--threads", threads,
        "--quiet", "--json", *(grid if columns * rows > 1 else []))]


def start_all(words, each, folder):
    """A process per environment, its output in a file."""
    processes = []
    for rank, environment in enumerate(each):
        path = os.path.join(folder, f"rank-{rank}.txt")
        with open(path, "wb") as out:
            processes.append(subprocess.Popen(  # pylint: disable=consider-using-with
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env=environment, start_new_session=True))
    return processes


def wait_all(processes, clock):
    """Until all have ended, one has failed, or time is over.  @return exit codes; None: killed."""
    while any(process.poll() is None for process in processes):
        failed = any(process.returncode for process in processes)
        if failed:
            time.sleep(2)  # the others end by themselves and say why
        if failed or clock.left() <= 0:
            break
        time.sleep(0.05)
    codes = [process.poll() for process in processes]
    for process in processes:
        if process.poll() is None:
            end_group(process)
    return codes


def read(folder, rank):
    """What a rank printed."""
    with open(os.path.join(folder, f"rank-{rank}.txt"), encoding="utf-8", errors="replace") as file:
        return file.read()


def losses_of(said):
    """Of each step."""
    return [step["loss"] for step in said["step"]]


def compare(runner, program, job, device, steps, threads):
    """Train on one rank and on four; losses must agree."""
    alone = losses_of(runner.json(command(program, job, device, steps, threads, 1, 1)))
    words = command(program, job, device, steps, threads, COLUMNS, ROWS)
    each = environments(runner.environment, COLUMNS * ROWS, free_port())
    codes = wait_all(start_all(words, each, runner.directory), runner.clock)
    if any(code != 0 for code in codes):
        worst = next(rank for rank, code in enumerate(codes) if code != 0)
        raise Failure(f"rank {worst}: exit {codes[worst]}: {gist(read(runner.directory, worst))}")
    together = losses_of(last_object(read(runner.directory, 0)))
    apart = max(abs(a / b - 1) for a, b in zip(together, alone))
    good = len(together) == len(alone) == steps and apart <= TOLERANCE
    return Outcome("pass" if good else "fail",
                   f"losses of {len(together)} steps on {COLUMNS}x{ROWS} within {apart:.2g}",
                   f"<= {TOLERANCE}", {"one": alone, "four": together})
