"""A Slurm cluster of one node, as root, on the loopback, below one directory; nothing outside of it is used.

Debian's packages slurmctld, slurmd, slurm-client and munge, without systemd, cgroups and accounting.
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess

import harness

DAEMONS = ("munged", "slurmctld", "slurmd")
TOOLS = (*DAEMONS, "sinfo", "sbatch", "squeue", "srun")
CONF = """\
ClusterName=foretrain
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket
CredType=cred/munge
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MpiDefault=pmix
ReturnToService=2
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def why_not():
    """Why no node can be started, or ""."""
    missing = [tool for tool in TOOLS if not find(tool)]
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    return f"not installed: {', '.join(missing)} (docs/HACKING.md)" if missing else ""


def find(tool):
    """Its path; daemons are in sbin."""
    return shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def free_ports(count):
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Node:
    """The node while a `with` lasts."""

    def __init__(self, directory):
        self.dir = pathlib.Path(directory)
        self.environment = {"SLURM_CONF": str(self.dir / "slurm.conf")}

    def run(self, tool, *words, **options):
        """A finished tool."""
        return harness.execute(find(tool), *words, environment=self.environment, **options)

    def wait(self, what, ready):
        """Until ready() is true."""
        if not harness.wait_until(ready):
            raise TimeoutError(f"{what}\n" + "\n".join(log.read_text() for log in self.dir.glob("*.log")))

    def __enter__(self):
        for name in ("state", "spool", "munge"):
            (self.dir / name).mkdir()
        self.dir.chmod(0o755)  # munged insists
        (self.dir / "munge").chmod(0o700)
        key = self.dir / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        (self.dir / "slurm.conf").write_text(CONF.format(
            host=socket.gethostname().split(".")[0], ports=free_ports(2), dir=self.dir, cpus=max(2, os.cpu_count())))
        self.start("munged", "--force", f"--key-file={key}", f"--socket={self.dir}/munge.socket",
                   f"--pid-file={self.dir}/munged.pid", f"--log-file={self.dir}/munged.log",
                   f"--seed-file={self.dir}/munge/seed")
        for daemon in DAEMONS[1:]:
            self.start(daemon, "-f", self.environment["SLURM_CONF"])
        self.wait("no idle node", lambda: "idle" in self.run("sinfo", "-h", "-o", "%t").stdout)
        return self

    def start(self, daemon, *words):
        """It goes to the background by itself."""
        done = harness.execute(find(daemon), *words, environment=self.environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode:
            self.__exit__()
            raise RuntimeError(f"{daemon} does not start: exit status {done.returncode}")

    def __exit__(self, *_):
        for daemon in reversed(DAEMONS):
            path = self.dir / f"{daemon}.pid"
            pid = int(path.read_text()) if path.exists() else 0
            comm = pathlib.Path(f"/proc/{pid}/comm")
            if pid and comm.exists() and comm.read_text().strip() == daemon:
                os.kill(pid, signal.SIGTERM)
                self.wait(f"{daemon} does not end", lambda comm=comm: not comm.exists())
