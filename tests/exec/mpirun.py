"""Run a program on N ranks of this machine: mpirun.py N PROGRAM [ARGUMENT...]."""

import os
import shutil
import sys

if not shutil.which("mpirun"):
    print("mpirun (package openmpi-bin) is not installed")
    sys.exit(77)
os.environ.update({
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
})
os.execvp("mpirun", ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", *sys.argv[1:]])
