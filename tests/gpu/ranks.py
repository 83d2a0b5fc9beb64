"""Four ranks on one GPU, over loopback sockets, against one rank.

NCCL refuses two ranks on one GPU of one machine, so foretrain-exec gives each a NCCL_HOSTID of its
own, and they talk as if from machine to machine.  That shows that rows, columns and blocks are
right; it says nothing of speed.
"""
import os
import shutil

from report import Outcome, Skip

COLUMNS, ROWS = 2, 2
# As on the CPU (tests/exec/test_learning.py): what is left is the order of summation.
TOLERANCE = 2e-3
# Source: NVIDIA's NCCL user guide, environment variables; getHostHash() in NCCL 2.28.9.
LOOPBACK = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
            "NCCL_IB_DISABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_DEBUG": "WARN"}
# Open MPI refuses root, and in containers copies between processes fail ("Read -1, expected ...").
# Source: https://github.com/open-mpi/ompi/issues/4948
IN_CONTAINERS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                 "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def command(program, job, device, steps, threads, columns, rows):
    """Words that train on a grid."""
    torus = f"{{algorithm: torus2d, grid: {{columns: {columns}, rows: {rows}}}}}"
    grid = ["--set", f"cluster.nodes={rows}", "--set", f"cluster.devices_per_node={columns}",
            "--set", f"allreduce={torus}"]
    return [program, "train", job, "--device", device, "--steps", steps, "--threads", threads,
            "--quiet", "--json", *(grid if columns * rows > 1 else [])]


def mpirun(environment, count):
    """Words that start so many ranks."""
    program = shutil.which("mpirun", path=environment.get("PATH", os.defpath))
    if not program:
        raise Skip("no mpirun was found: install openmpi-bin")
    return [program, "-q", "--oversubscribe", "--bind-to", "none", "-n", count]


def losses_of(said):
    """Of each step."""
    return [step["loss"] for step in said["step"]]


def compare(runner, program, job, device, steps, threads):
    """Train on one rank and on four; losses must agree."""
    alone, together = (losses_of(runner.json(
        [*mpirun(runner.environment, columns * rows),
         *command(program, job, device, steps, threads, columns, rows)], **LOOPBACK,
        **IN_CONTAINERS)) for columns, rows in ((1, 1), (COLUMNS, ROWS)))
    apart = max(abs(a / b - 1) for a, b in zip(together, alone))
    good = len(together) == len(alone) == steps and apart <= TOLERANCE
    return Outcome("pass" if good else "fail",
                   f"losses of {len(together)} steps on {COLUMNS}x{ROWS} within {apart:.2g}",
                   f"<= {TOLERANCE}", {"one": alone, "four": together})
