#!/usr/bin/python3
"""Inputs of `foretrain import`: what tools printed, and what is made up from the numbers named here.
usage: import_data.py FOLDER"""
import json
import pathlib
import shutil
import sys
import tempfile

SIZES = [2 ** i for i in range(3, 31)]


def fixed(value, width):
    """A number as nccl-tests prints it."""
    for digits in (2, 1, 0):
        text = f"{value:.{digits}f}"
        if len(text) <= width - 1 or not digits:
            return text.rjust(width)
    return text


def all_reduce(ranks, seconds, hosts=1, model="NVIDIA A40", sizes=tuple(SIZES)):
    """The text of all_reduce_perf when a size takes seconds(size)."""
    share = ranks // hosts
    lines = ["# nThread 1 nGpus 8 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 "
             "iters: 20 agg iters: 1 validation: 1 graph: 0", "#", "# Using devices"]
    lines += [f"#  Rank {rank:2d} Group  0 Pid  {4000 + rank} on     node{rank // share:02d} device "
              f"{rank % share:2d} [0000:{7 + 8 * (rank % share):02x}:00.0] {model}"
              for rank in range(ranks)]
    lines += ["#",
              "#                                                              out-of-place          "
              "             in-place          ",
              "#       size         count      type   redop    root     time   algbw   busbw #wrong "
              "    time   algbw   busbw #wrong",
              "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)        "
              "    (us)  (GB/s)  (GB/s)       "]
    for size in sizes:
        time = seconds(size)
        rate = size / time * 1e-9
        part = (f"  {fixed(time * 1e6, 7)}  {fixed(rate, 6)}  "
                f"{fixed(rate * 2 * (ranks - 1) / ranks, 6)}       0")
        lines.append(f"{size:12d}  {size // 4:12d}     float     sum      -1{part}{part}")
    lines = [line.rstrip() for line in lines]
    return "\n".join([*lines, "# Out of bounds values : 0 OK",
                      "# Avg bus bandwidth    : 61.5", "#", ""])


def ring(ranks, latency, bandwidth):
    """Seconds of a ring whose messages take `latency` and whose links carry `bandwidth`."""
    return lambda size: 2 * (ranks - 1) * (latency + size / ranks / bandwidth)


def protocols(size):
    """Three protocols, each with a latency and a bandwidth of its own."""
    latency, bandwidth = ((20e-6, 2e9) if size <= 65536 else (40e-6, 20e9) if size <= 1 << 23
                          else (100e-6, 110e9))
    return latency + size / bandwidth


def report(ranks, seconds):
    """The JSON of nccl-tests -J."""
    devices = [{"rank": rank, "group": 0, "pid": 4000 + rank, "hostname": "node00", "device": rank,
                "device_hex": f"0000:{7 + 8 * rank:02x}:00.0",
                "device_info": "NVIDIA A40"} for rank in range(ranks)]
    results = []
    for size in SIZES:
        time = seconds(size)
        body = {"time": round(time * 1e6, 6), "alg_bw": round(size / time * 1e-9, 6),
                "bus_bw": round(size / time * 1e-9 * 2 * (ranks - 1) / ranks, 6), "nwrong": 0.0}
        results.append({"size": size, "count": size // 4, "type": "float", "redop": "sum",
                        "root": "    -1", "out_of_place": body, "in_place": body,
                        "actual_iterations": 20, "experiment_name": "AllReduce"})
    return json.dumps({"version": 2, "start_time": "2026-01-01 00:00:00", "args": [], "env": [],
                       "nccl_version": 22800, "config": {"devices": devices},
                       "results": results}, indent=1) + "\n"


def address(number):
    """A bus address."""
    return f"0000:{number:02x}:00.0"


def gpu(dev, bus, links, sm=80):
    """A GPU and its NVLinks, pairs of target and count."""
    lines = [f'<pci busid="{address(bus)}" class="0x030200" link_speed="16.0 GT/s PCIe" '
             'link_width="16">', f'<gpu dev="{dev}" sm="{sm}" rank="{dev}" gdr="1">']
    lines += [f'<nvlink target="{target}" count="{count}" tclass="{kind}"/>'
              for target, count, kind in links]
    return [*lines, "</gpu>", "</pci>"]


def card(dev, bus, speed):
    """A network card [Mb/s]."""
    return [f'<pci busid="{address(bus)}" class="0x020700" link_speed="16.0 GT/s PCIe" '
            'link_width="16">', "<nic>", f'<net name="mlx5_{dev}" dev="{dev}" speed="{speed}" '
            f'port="1" latency="0.000000" guid="0x{dev + 1:x}" maxconn="131072" gdr="1"/>',
            "</nic>", "</pci>"]


def system(cpus):
    """NCCL's topology: a list of lines per CPU."""
    lines = ['<system version="1">']
    for numa, inside in enumerate(cpus):
        lines += [f'<cpu numaid="{numa}" affinity="ffff" arch="x86_64" vendor="AuthenticAMD" '
                  'familyid="143" modelid="49">', *inside, "</cpu>"]
    return "\n".join([*lines, "</system>", ""])


def behind_switch(number, inside):
    """A PCI switch with what is behind it."""
    return [f'<pci busid="{address(number)}" class="0x060400" link_speed="16.0 GT/s PCIe" '
            'link_width="16">', *inside, "</pci>"]


def nvswitch_node():
    """Eight GPUs with twelve links each to six NVSwitches, eight cards, a slow one for storage."""
    plane = [(address(0xc4 + i), 2, "0x068000") for i in range(6)]
    switches = [behind_switch(0x40 + i, gpu(2 * i, 16 * i + 1, plane)
                              + gpu(2 * i + 1, 16 * i + 2, plane)
                              + card(2 * i, 16 * i + 3, 200000)
                              + card(2 * i + 1, 16 * i + 4, 200000)) for i in range(4)]
    return system([switches[0] + switches[1], switches[2] + switches[3] + card(8, 0xe0, 25000)])


def cube_node():
    """Four GPUs joined pair by pair, two links each; speeds of PCI unknown, no cards."""
    buses = [1, 2, 3, 4]
    gpus = [gpu(i, buses[i], [(address(bus), 2, "0x030200") for bus in buses if bus != buses[i]],
                sm=70) for i in range(4)]
    return system([gpus[0] + gpus[1], gpus[2] + gpus[3]]).replace(
        'link_speed="16.0 GT/s PCIe" link_width="16"', 'link_speed="" link_width="0"')


OSU_SIZES = [2 ** i for i in range(23)]


def osu(title, columns, value, sizes=tuple(OSU_SIZES)):
    """A table of the OSU micro-benchmarks."""
    return "\n".join([f"# {title} v7.3", "# Datatype: MPI_CHAR.", f"# Size {columns}",
                      *(f"{size:<10d}{value(size):15.2f}" for size in sizes), ""])


def osu_pair():
    """Latency of 2 us and 12 GB/s, then a bandwidth that saturates at 12.1 GB/s."""
    return (osu("OSU MPI Latency Test", "      Avg Latency(us)", lambda size: 2 + size / 12e3)
            + osu("OSU MPI Bandwidth Test", "   Bandwidth (MB/s)",
                  lambda size: 12100 * size / (size + 20000)).replace(
                      f"{OSU_SIZES[-1]:<10d}{12100 * OSU_SIZES[-1] / (OSU_SIZES[-1] + 2e4):15.2f}",
                      f"{OSU_SIZES[-1]:<10d}{12100:15.2f}"))


def infiniband(leaves, hosts, spines):
    """What ibnetdiscover prints of leaves with hosts, each with two cables to each spine."""
    lines = ["#", "# Topology file: generated on Thu Jan  1 00:00:00 2026", "#"]
    for leaf in range(leaves):
        lines += ["", f'Switch 40 "S-a{leaf:03d}"  # "leaf{leaf}" enhanced port 0 lid {leaf} lmc 0']
        lines += [f'[{i + 1}] "H-b{leaf:03d}{i:02d}"[1](b{i})  # "node{leaf * hosts + i} HCA-1" lid '
                  f"{100 + i} 4xHDR" for i in range(hosts)]
        lines += [f'[{hosts + i + 1}] "S-c{i // 2:03d}"[{leaf * 2 + i % 2 + 1}]  # "spine{i // 2}" lid '
                  f"{50 + i} 4xHDR" for i in range(2 * spines)]
    for spine in range(spines):
        lines += ["", f'Switch 40 "S-c{spine:03d}"  # "spine{spine}" enhanced port 0 lid 9 lmc 0']
        lines += [f'[{i + 1}] "S-a{i // 2:03d}"[{hosts + 2 * spine + i % 2 + 1}]  # "leaf{i // 2}" '
                  "lid 1 4xHDR" for i in range(2 * leaves)]
    lines += ["", 'Ca 1 "H-b00000"  # "node0 HCA-1"',
              '[1](b0)  "S-a000"[1]  # lid 100 lmc 0 "leaf0" lid 0 4xHDR', ""]
    return "\n".join(lines)


def hwloc(packages, cores, inside=()):
    """lstopo --of xml of packages with cores; inside[i] are the lines of package i's PCI devices."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>',
             '<!DOCTYPE topology SYSTEM "hwloc2.dtd">', '<topology version="2.0">',
             '<object type="Machine" os_index="0" gp_index="1">']
    for package in range(packages):
        lines += [f'<object type="Package" os_index="{package}">',
                  f'<object type="NUMANode" os_index="{package}" local_memory="68719476736"/>']
        lines += [f'<object type="Core" os_index="{i}"><object type="PU" os_index="{i}"/></object>'
                  for i in range(cores)]
        lines += [*(inside[package] if package < len(inside) else ()), "</object>"]
    return "\n".join([*lines, "</object>", "</topology>", ""])


def pci(kind, speed, name=""):
    """A PCI device of hwloc."""
    return [f'<object type="PCIDev" pci_type="{kind}" pci_link_speed="{speed}">',
            f'<info name="PCIDevice" value="{name}"/>', "</object>"]


def bridge(inside):
    """A PCI bridge of hwloc."""
    return ['<object type="Bridge" bridge_type="1-1" pci_link_speed="15.753846">', *inside,
            "</object>"]


def gpu_host():
    """Two packages, each with a PCI switch with two GPUs and a card, and a screen that is none."""
    part = bridge(bridge(pci("0302 [10de:1db1] [10de:1212] a1", 15.753846,
                             "GV100GL [Tesla V100 SXM2 16GB]"))
                  + bridge(pci("0302 [10de:1db1] [10de:1212] a1", 15.753846))
                  + pci("0207 [15b3:1013] [15b3:0008] 00", 15.753846))
    root = ['<object type="Bridge" bridge_type="0-1">', *part,
            *pci("0300 [1a03:2000] [1a03:2000] 30", 0), "</object>"]
    return hwloc(2, 20, [root, root])


def profile():
    """Two steps of a product of fp16 matrices at 124.8 TFLOP/s, a copy and an all-reduce."""
    events, size = [], 4096
    for step in range(2):
        time = 2 * size ** 3 / 124.8e12 * 1e6
        events += [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1,
             "tid": 1, "ts": 5000 * step, "dur": 4000},
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5000 * step,
             "dur": 20, "args": {"External id": 10 + step, "Input Dims": [[size, size]] * 2,
                                 "Input type": ["c10::Half", "c10::Half"]}},
            {"ph": "X", "cat": "kernel", "name": "ampere_fp16_s16816gemm", "pid": 0, "tid": 7,
             "ts": 5000 * step + 30, "dur": time, "args": {"External id": 10 + step, "stream": 7}},
            {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7,
             "ts": 5000 * step, "dur": 10},
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f16_RING_LL",
             "pid": 0, "tid": 20, "ts": 5000 * step + 2000, "dur": 500}]
    return json.dumps({"schemaVersion": 1, "deviceProperties": [
        {"id": 0, "name": "NVIDIA A100-SXM4-80GB"}], "traceEvents": events}, indent=1) + "\n"


def write(folder):
    """Write all of them."""
    shutil.copytree(pathlib.Path(__file__).resolve().parents[1] / "data" / "import", folder,
                    dirs_exist_ok=True)
    for name, text in {
            "all_reduce_8.txt": all_reduce(8, ring(8, 1.5e-6, 230e9)),
            "all_reduce_16.txt": all_reduce(16, ring(16, 5e-6, 22e9), hosts=2),
            "all_reduce_protocols.txt": all_reduce(8, protocols),
            "all_reduce_8.json": report(8, ring(8, 1.8e-6, 360e9)),
            "nccl_nvswitch.xml": nvswitch_node(),
            "nccl_mesh.xml": cube_node(),
            "osu_pair.txt": osu_pair(),
            "osu_allreduce.txt": osu("OSU MPI Allreduce Latency Test", "      Avg Latency(us)",
                                     lambda size: 1e6 * ring(4, 3e-6, 10e9)(size), OSU_SIZES[2:]),
            "hwloc_gpus.xml": gpu_host(),
            "hwloc_cores.xml": hwloc(2, 4),
            "profile.json": profile(),
            "ibnetdiscover.txt": infiniband(4, 6, 2),
    }.items():
        (folder / name).write_text(text, encoding="utf-8")


LASTING = tempfile.TemporaryDirectory()  # as long as the program


def made():
    """A folder with all of them."""
    folder = pathlib.Path(LASTING.name)
    if not any(folder.iterdir()):
        write(folder)
    return folder


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
