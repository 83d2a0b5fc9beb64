#!/usr/bin/python3
"""Run a command in a lab: the network of a cluster platform, built on this machine out of namespaces.

Usage: lab.py PLATFORM COMMAND...

    tools/lab.py platforms/lab/flat-4.yaml mpirun sh -c 'hostname; sleep 1'
    tools/lab.py platforms/lab/flat-4.yaml on h0 ping -c 3 h3
    tools/lab.py platforms/lab/flat-4.yaml build/foretrain collective --platform platforms/lab/flat-4.yaml \\
        --nodes 4 --bytes 1MB --backend sim,exec

Each network card of each node is a host of its own (h0, h1, ...; h0n0, h0n1, ... where nodes have several cards):
a network namespace with a pair of virtual cards to the bridge of its group.  One such pair, with the rate of all its
uplinks together, connects a group to the bridge above.  A token bucket at both ends of every pair limits its rate;
the hosts of one node reach each other without limits.  MPI's own messages take a second network, so that the shaped
one carries only data.  The command finds mpirun set up with a slot per device, `on HOST COMMAND...` in its path,
and in FORETRAIN_LAB the host of each device.

Everything lives in namespaces of one child, which dies with its parent, so nothing is left behind.  No privilege is
needed where user namespaces are allowed.  Exit codes: the command's; 69 where a platform or this machine does not
fit; 70 where the network could not be built; 75 where packets were lost.
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

try:
    import yaml
except ImportError:
    print("error: a lab needs Python's module yaml (package python3-yaml)", file=sys.stderr)
    sys.exit(69)

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("FORETRAIN", ROOT / "build" / "foretrain")
# A frame: IPv4 (RFC 791) has 20 bytes, TCP (RFC 9293) 20 and its timestamps (RFC 7323) 12, Ethernet 14 without the
# checksum, which tbf counts.
MTU = 9000
PAYLOAD, FRAME = MTU - 20 - 20 - 12, MTU + 14
HOSTS_MOST = 64          # as many as two cores can serve
BURST = 20000            # of a token bucket [bytes]: a little more than two frames
WINDOW = 512 * 1024      # in flight of one sender, with what the kernel adds [bytes]
BETWEEN_MOST = 200e-6    # that software adds to a message: in a lab it is already present [s]
INSIDE_LEAST = 10        # cables inside a node are not shaped: times a card, so that they never decide
CEILING_SHARE = 0.2      # of what two hosts reach, for all cards together: beyond, the machine decides
UNLIMITED = 125e9        # [bytes/s]
PORT = 7777
SETTINGS = {
    "net/ipv6/conf/all/disable_ipv6": "1", "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv4/conf/all/rp_filter": "0", "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/tcp_congestion_control": "reno", "net/ipv4/tcp_slow_start_after_idle": "0",
    "net/ipv4/tcp_no_metrics_save": "1", "net/ipv4/tcp_rmem": "4096 131072 262144",
    "net/ipv4/tcp_wmem": "4096 131072 262144"}
# Of Open MPI 4 and 5: hosts are entered, not logged in to; its own messages take the second network; data use one
# TCP connection per pair of ranks, each message at once (a rendezvous would wait behind data in the queues);
# waiting ranks yield.  What starts the ranks of version 5 is PRRTE, which has its own names.
MPI = {
    "OMPI_MCA_plm": "rsh", "OMPI_MCA_plm_rsh_agent": "/run/lab/bin/agent", "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
    "OMPI_MCA_plm_rsh_num_concurrent": "128", "OMPI_MCA_oob": "tcp", "OMPI_MCA_oob_tcp_if_include": "10.78.0.0/16",
    "OMPI_MCA_routed": "direct", "OMPI_MCA_orte_default_hostfile": "/run/lab/hostfile",
    "OMPI_MCA_orte_tmpdir_base": "/run/lab/tmp", "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_rmaps_base_mapping_policy": "slot", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self",
    "OMPI_MCA_btl_tcp_if_include": "10.77.0.0/16", "OMPI_MCA_btl_tcp_links": "1",
    "OMPI_MCA_btl_tcp_eager_limit": "4194304", "OMPI_MCA_mpi_yield_when_idle": "1",
    "PRTE_MCA_plm_ssh_agent": "/run/lab/bin/agent", "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
    "PRTE_MCA_prte_if_include": "10.78.0.0/16", "PRTE_MCA_prte_default_hostfile": "/run/lab/hostfile",
    "PRTE_MCA_prte_tmpdir_base": "/run/lab/tmp", "PRTE_MCA_hwloc_default_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": "slot",
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
ON = """#!/bin/sh
[ $# -gt 1 ] || { echo "usage: on HOST COMMAND..., in a lab" >&2; exit 64; }
host=$1
shift
[ -e "/run/netns/$host" ] || { echo "error: there is no host $host here" >&2; exit 127; }
exec nsenter "--net=/run/netns/$host" "--uts=/run/uts/$host" -- "$@"
"""
# mpirun's words are a line for a remote shell, behind the options of one.
AGENT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec on "$host" sh -c "$*"
"""


def refuse(message, code=69):
    """End with the message."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


# ---- the platform ----

def parts(path):
    """The mapping of a platform file, over those that it extends."""
    mine = yaml.safe_load(pathlib.Path(path).read_text(encoding="utf-8"))
    base = parts(pathlib.Path(path).parent / mine["extends"]) if "extends" in mine else {}
    return {**base, **{key: {**base[key], **value} if isinstance(value, dict) and key in base else value
                       for key, value in mine.items()}}


def read_platform(path):
    """What a lab needs of a platform file, which foretrain has checked."""
    done = subprocess.run([PROGRAM, "show", "platform", path, "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        sys.exit(done.returncode)
    told = json.loads(done.stdout)
    if told["kind"] != "cluster" or told["nodes"] < 2:
        refuse(f"{path}: a lab is a cluster of two or more nodes; this platform is a {told['kind']}")
    if told["routing"] not in (None, "ideal") or told["placement"] not in (None, "contiguous"):
        refuse(f"{path}: the lab's uplinks are one pipe and its nodes stand in order: it cannot build "
               "network.routing and network.placement")
    number = {row["key"]: row["value"] for row in told["numbers"]}
    file = parts(path) if os.path.exists(path) else {}
    tiers = file.get("network", {}).get("tiers", [])
    lab = {"file": path, "nodes": told["nodes"], "devices": told["devices_per_node"],
           "nics": file.get("node", {}).get("nics", 1), "rate": number["network.nic.bandwidth"],
           "tiers": [{"nodes": tier["nodes"], "rate": tier["uplinks"] * number[f"network.tiers[{i}].bandwidth"]}
                     for i, tier in enumerate(tiers)]}
    check(lab, number)
    lab["hosts"] = [f"h{i}" if lab["nics"] == 1 else f"h{i // lab['nics']}n{i % lab['nics']}"
                    for i in range(lab["nodes"] * lab["nics"])]
    lab["slots"] = lab["devices"] // lab["nics"]
    return lab


def check(lab, number):
    """Refuse what a lab would have to pretend."""
    file, faults, card = lab["file"], [], number["network.nic.bandwidth"] * number["network.nic.efficiency"]
    if lab["nodes"] * lab["nics"] > HOSTS_MOST:
        faults.append(f"a lab has at most {HOSTS_MOST} hosts, as many as network cards: describe a miniature, such as "
                      "platforms/lab/abci-mini.yaml")
    if lab["devices"] % lab["nics"]:
        faults.append("its devices stand side by side, as many on each card")
    for key, value in number.items():
        if key.endswith(".latency") and value > 0:
            faults.append(f"{key} is {1e6 * value:g} us: the lab shapes rates and cannot delay; write 0 us")
        if key.startswith("network.") and key.endswith(".efficiency") and abs(value - PAYLOAD / FRAME) > 1e-3:
            faults.append(f"{key} is {100 * value:g} %: the lab's frames carry {100 * PAYLOAD / FRAME:.5g} %; write "
                          "that and put the difference into the bandwidth")
        if key.startswith("node.") and key.endswith(".bandwidth"):
            if value * number[key.replace("bandwidth", "efficiency")] < INSIDE_LEAST * card:
                faults.append(f"{key} is less than {INSIDE_LEAST} cards: the lab does not shape the inside of nodes")
    if number["transport.between"] > BETWEEN_MOST:
        faults.append(f"transport.between is {1e3 * number['transport.between']:g} ms: the lab cannot delay; at most "
                      f"{1e6 * BETWEEN_MOST:g} us are its own")
    for fault in faults[:-1]:
        print(f"error: {file}: {fault}", file=sys.stderr)
    if faults:
        refuse(f"{file}: {faults[-1]}")


# ---- the parent ----

class Ended(Exception):
    """A signal asked this process to end."""


def end(number, _frame):
    """The handler of that signal."""
    raise Ended(number)


def run_lab(lab, command):
    """Build it in a child and run the command there; returns the exit code."""
    os.environ["PATH"] = os.environ.get("PATH", "/usr/local/bin") + ":/usr/sbin:/sbin:/usr/bin:/bin"
    unshare = ["setpriv", "--pdeathsig", "KILL", "unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]),
               "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
    for program in ("ip", "tc"):
        if not any(os.access(f"{folder}/{program}", os.X_OK) for folder in os.environ["PATH"].split(":")):
            refuse(f"a lab needs the program {program} (package iproute2)")
    tried = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        refuse(f"this machine does not allow namespaces: {tried.stderr.strip()}; as root: sysctl -w "
               "user.max_user_namespaces=15000 (and on some systems kernel.unprivileged_userns_clone=1 or "
               "kernel.apparmor_restrict_unprivileged_userns=0; in a container: --security-opt "
               "systempaths=unconfined)")
    signals = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT
    with subprocess.Popen([*unshare, sys.executable, __file__, "--inside", json.dumps(lab), *command]) as process:
        try:
            for number in signals:
                signal.signal(number, end)
            return process.wait()
        except Ended as ended:
            process.kill()
            process.wait()
            signal.signal(ended.args[0], signal.SIG_DFL)
            os.kill(os.getpid(), ended.args[0])
            raise


# ---- the child: first process of the lab ----

def batch(program, lines, host=None):
    """Lines of `ip` or `tc`, in the network of the host or of the first process."""
    done = subprocess.run([program, *(["-n", host] if host else []), "-batch", "-"], input="\n".join(lines) + "\n",
                          capture_output=True, text=True, check=False)
    if done.returncode:
        refuse(f"the lab cannot be built: {program}: {done.stderr.strip()}", 70)


def put(path, text, mode=0o644):
    """Write one of the lab's files."""
    pathlib.Path(path).write_text(text, encoding="ascii")
    os.chmod(path, mode)


def make_hosts(lab):
    """Names, programs and namespaces of all hosts."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755,nosuid,nodev", "lab", "/run"], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        refuse(f"this machine does not allow a private /run: {done.stderr.strip()}")
    for folder in ("netns", "uts", "lab", "lab/bin", "lab/tmp"):
        os.mkdir(f"/run/{folder}")
    put("/run/lab/bin/on", ON, 0o755)
    put("/run/lab/bin/agent", AGENT, 0o755)
    put("/run/lab/hostfile", "".join(f"{host} slots={lab['slots']}\n" for host in lab["hosts"]))
    put("/run/lab/hosts", "127.0.0.1 localhost\n10.78.255.254 head\n" +
        "".join(f"10.77.0.{i + 1} {host}\n" for i, host in enumerate(lab["hosts"])))
    subprocess.run(["mount", "--bind", "/run/lab/hosts", "/etc/hosts"], check=True)
    socket.sethostname("head")
    script = 'hostname "$0"' + "".join(f"; [ ! -e /proc/sys/{key} ] || echo {value} >/proc/sys/{key} || exit 1"
                                       for key, value in SETTINGS.items())
    for host in lab["hosts"]:
        spaces = [f"/run/netns/{host}", f"/run/uts/{host}"]
        for path in spaces:
            put(path, "")
        done = subprocess.run(["unshare", f"--net={spaces[0]}", f"--uts={spaces[1]}", "sh", "-c", script, host],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            refuse(f"this machine does not let the lab make host {host}: {done.stderr.strip()}")


def bridge(name):
    """Lines that make a switch."""
    return [f"link add {name} type bridge stp_state 0 mcast_snooping 0", f"link set {name} mtu {MTU} up"]


def pair(name, master, far):
    """Lines that make a cable from the switch to its far end."""
    return [f"link add {name} mtu {MTU} type veth peer name {far}", f"link set {name} master {master} up"]


def switch(lab, tier, node):
    """The name of a node's switch in a tier; above all tiers is one."""
    return "top" if tier == len(lab["tiers"]) else f"s{tier}g{node // lab['tiers'][tier]['nodes']}"


def make_network(lab):
    """Cards, cables and switches, all of them without limits."""
    for key in list(SETTINGS)[:2]:
        if os.path.exists(f"/proc/sys/{key}"):
            pathlib.Path(f"/proc/sys/{key}").write_text("1", encoding="ascii")
    lines = ["link set lo up", "link add control type bridge stp_state 0", "addr add 10.78.255.254/16 dev control",
             "link set control up", *bridge("top")]
    for tier in reversed(range(len(lab["tiers"]))):
        for group, node in enumerate(range(0, lab["nodes"], lab["tiers"][tier]["nodes"])):
            lines += bridge(switch(lab, tier, node))
            lines += pair(f"u{tier}g{group}", switch(lab, tier, node), f"d{tier}g{group} mtu {MTU}")
            lines.append(f"link set d{tier}g{group} master {switch(lab, tier + 1, node)} up")
    for node in range(lab["nodes"] if lab["nics"] > 1 else 0):
        lines += bridge(f"n{node}")
    for i, host in enumerate(lab["hosts"]):
        node = i // lab["nics"]
        lines += pair(f"v{i}", switch(lab, 0, node), f"eth0 mtu {MTU} address 02:77:00:00:00:{i:02x} netns {host}")
        lines += [f"link add c{i} type veth peer name ctl0 netns {host}", f"link set c{i} master control up"]
        if lab["nics"] > 1:
            lines += pair(f"i{i}", f"n{node}", f"in0 mtu {MTU} address 02:79:00:00:00:{i:02x} netns {host}")
    batch("ip", lines)
    for i, host in enumerate(lab["hosts"]):
        batch("ip", addresses(lab, i), host)


def addresses(lab, i):
    """Lines for the cards of one host.  Neighbours are fixed entries, so that nothing asks for them during a
    measurement; the minimum retransmission timeout is long, because queues are longer than TCP expects."""
    # Two frames pass the buckets in one piece, which halves the timers; the kernel subtracts 321 bytes for the
    # largest headers from this size (MAX_TCP_HEADER + 1).
    lines = ["link set lo up", f"link set eth0 gso_max_size {2 * PAYLOAD + 512} up", "link set ctl0 up",
             f"addr add 10.77.0.{i + 1}/16 dev eth0", f"addr add 10.78.0.{i + 1}/16 dev ctl0",
             f"route change 10.77.0.0/16 dev eth0 src 10.77.0.{i + 1} rto_min 3s quickack 1"]
    lines += ["link set in0 up"] if lab["nics"] > 1 else []
    for other in range(len(lab["hosts"])):
        inside = other // lab["nics"] == i // lab["nics"]
        if other != i:
            lines.append(f"neigh replace 10.77.0.{other + 1} lladdr 02:{'79' if inside else '77'}:00:00:00:{other:02x} "
                         f"dev {'in0' if inside else 'eth0'} nud permanent")
            if inside:
                lines.append(f"route add 10.77.0.{other + 1}/32 dev in0 src 10.77.0.{i + 1}")
    return lines


def bucket(lab, device, rate):
    """A line that limits a device; its queue holds what all hosts may have in flight, and never overflows."""
    return (f"qdisc replace dev {device} root tbf rate {8 * rate:.0f}bit burst {BURST} "
            f"limit {(len(lab['hosts']) + 2) * WINDOW}")


def set_rates(lab, hosts, rate):
    """Limit the cards of some hosts in both directions."""
    batch("tc", [bucket(lab, f"v{i}", rate) for i in hosts])
    for i in hosts:
        batch("tc", [bucket(lab, "eth0", rate)], lab["hosts"][i])


def shape(lab):
    """Give every link its rate."""
    set_rates(lab, range(len(lab["hosts"])), lab["rate"])
    lines = [bucket(lab, f"{side}{tier}g{group}", each["rate"]) for tier, each in enumerate(lab["tiers"])
             for group in range(-(-lab["nodes"] // each["nodes"])) for side in "ud"]
    if lines:
        batch("tc", lines)


def receive():
    """In the second host: print the rate [bytes/s] of the best of several short windows, because other processes
    can only reduce it."""
    with socket.create_server(("10.77.0.2", PORT)) as door:
        print("listening", flush=True)
        wire = door.accept()[0]
    best, count, begin = 0.0, 0, time.monotonic()
    while piece := wire.recv(1 << 16):
        count, passed = count + len(piece), time.monotonic() - begin
        if passed > 0.002:
            best, count, begin = max(best, count / passed), 0, begin + passed
    print(best)


def send():
    """In the first host, for a moment."""
    with socket.create_connection(("10.77.0.2", PORT)) as wire:
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            wire.sendall(bytes(1 << 16))


def check_ceiling(lab):
    """Refuse rates at which this machine decides and not the network.  On a busy machine the two hosts may never
    run at the same time during one trial, so there are five."""
    set_rates(lab, (0, 1), UNLIMITED)
    total, best = lab["rate"] * len(lab["hosts"]), 0.0
    words = [["/run/lab/bin/on", host, sys.executable, __file__, word]
             for host, word in ((lab["hosts"][1], "--receive"), (lab["hosts"][0], "--send"))]
    for _ in range(5):
        with subprocess.Popen(words[0], stdout=subprocess.PIPE, text=True) as receiver:
            receiver.stdout.readline()
            if subprocess.run(words[1], check=False).returncode:
                receiver.kill()
                refuse("the lab's hosts cannot reach each other", 70)
            best = max(best, float(receiver.stdout.read() or 0))
        if total <= CEILING_SHARE * best:
            return
    refuse(f"{lab['file']}: its {len(lab['hosts'])} cards send {total / 1e9:g} GB/s together; this machine carries "
           f"{best / 1e9:.3g} GB/s between two hosts and decides itself beyond {100 * CEILING_SHARE:g} % of that: lower "
           "network.nic.bandwidth, have fewer nodes, or wait until nothing else runs")


def count_drops(lab):
    """Packets that the shaped links dropped."""
    return sum(row.get("drops", 0) for host in (None, *lab["hosts"]) for row in json.loads(subprocess.run(
        ["tc", *(["-n", host] if host else []), "-s", "-j", "qdisc", "show"], capture_output=True, check=True).stdout))


def inside(lab, command):
    """Build the network and run the command; processes without a parent become children of this one."""
    signal.signal(signal.SIGINT, lambda *_: None)  # the parent ends this process
    make_hosts(lab)
    make_network(lab)
    check_ceiling(lab)
    shape(lab)
    environment = {**os.environ, **MPI, "PATH": f"/run/lab/bin:{os.environ['PATH']}", "TMPDIR": "/run/lab/tmp",
                   "SHELL": "/bin/bash", "FORETRAIN_LAB": ",".join(
                       host for host in lab["hosts"] for _ in range(lab["slots"]))}
    try:
        child = subprocess.Popen(command, env=environment)  # pylint: disable=consider-using-with
    except OSError as error:
        refuse(f"cannot start {command[0]}: {error.strerror}", 127)
    pid = 0
    while pid != child.pid:
        pid, status = os.wait()
    code = os.waitstatus_to_exitcode(status)
    if code == 0 and (drops := count_drops(lab)):
        refuse(f"disturbed: the lab's links dropped {drops} packets", 75)
    os._exit(code if code >= 0 else 128 - code)  # child is not asked again


def main():
    """The parent, or the parts of a lab."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    words = sys.argv[1:]
    if words[:1] == ["--inside"]:
        inside(json.loads(words[1]), words[2:])
    elif words in (["--receive"], ["--send"]):
        {"--receive": receive, "--send": send}[words[0]]()
    elif len(words) < 2 or words[0].startswith("-"):
        sys.exit(__doc__)
    else:
        sys.exit(run_lab(read_platform(words[0]), words[1:]))


if __name__ == "__main__":
    main()
