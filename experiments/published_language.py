"""Published runs of transformers with tensor parallelism and sharded weights as jobs.

The columns are those of experiments/08_language_models/runs.csv.  Rows of one node are for calibration, of
several for checks.  What a job cannot say is refused by name; where a row does not state what is computed
again, it is scored apart.
"""
import dataclasses
import math
import re

import published_mlperf as mlperf
import published_networks as networks

Refused = mlperf.Refused
NEEDED = {"layers", "heads", "tp", "pp", "micro_batch", "recompute", "split"}
TEXTS = ("source", "date", "submitter", "system", "device", "interconnect", "network", "precision", "zero_fsdp", "recompute",
         "optimizer", "split", "remarks")
NUMBERS = ("nodes", "gpus_per_node", "gpus", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq_len", "tp", "pp", "vp",
           "cp", "dp", "ep", "micro_batch", "global_batch", "iteration_s", "tokens_per_s")
SIGNED, IGNORED, BACKEND = (), ("params", "tflops_per_gpu", "mfu"), "analytic"

# What column `source` contains, the source's name, its software profile, and whether gradients wait for the end of
# backward.  Attention: Megatron-DeepSpeed of 2022 and Megatron-LM of arXiv 2205.05198 have a kernel for each product.
SOURCES = (("vTrain", "vTrain", "megatron-2022", True), ("calculon", "Selene", "megatron-2022", True),
           ("llm-foundry", "llm-foundry", "pytorch-flash", False), ("torchtitan", "torchtitan", "pytorch-flash", False),
           ("Megatron-Bridge", "Megatron-Bridge", "pytorch-flash", False), ("nemo", "NeMo", "pytorch-flash", False),
           ("", "others", "pytorch-flash", False))
SHARDING = {"FULL_SHARD": 3, "FSDP2 (ZeRO-3)": 3, "FSDP2": 3, "FSDP": 3, "SHARD_GRAD_OP": 2, "ZeRO-1": 1,
            "distributed optimizer": 1, "0": 0, "": 0}
PRECISIONS = {"fp16": ("fp16", "fp16"), "bf16": ("bf16", "fp32"), "bf16/pure": ("bf16", "bf16"),
              "amp_bf16/default": ("bf16", "fp32")}  # compute, gradients
RECOMPUTE = {"none": "none", "full": "full", "selective": "selective", "selective+seqparallel": "selective"}


@dataclasses.dataclass
class Source:
    """Where a row is from."""
    name: str
    software: str
    after: bool  # gradients wait for the end of backward


def source_of(row):
    """The first that fits."""
    return next(Source(*rest) for words, *rest in SOURCES if words.lower() in row["source"].lower())


def check(row):
    """Refuse what no job can say."""
    for key in ("layers", "hidden", "heads", "seq_len", "global_batch", "micro_batch", "dp"):
        if not row[key] > 0:
            raise Refused(f"the row does not give {key}")
    for key, name in (("cp", "context"), ("ep", "expert")):
        if row[key] > 1:
            raise Refused(f"{name} parallelism cannot be expressed")
    if row["precision"].lower() not in PRECISIONS:
        raise Refused(f"precision '{row['precision']}' is not known")
    if row["zero_fsdp"] not in SHARDING:
        raise Refused(f"sharding '{row['zero_fsdp']}' is not known")
    if "lora" in row["network"].lower():
        raise Refused("frozen weights cannot be expressed")
    if row["tp"] * row["pp"] * row["dp"] != row["gpus"] or row["global_batch"] % (row["dp"] * row["micro_batch"]):
        raise Refused("devices or batch do not divide evenly")


def network_text(row):
    """The keys of the network: Llama and its kin by name, MPT without biases and learned positions, otherwise GPT."""
    name, tp = row["network"].lower(), max(row["tp"], 1)
    words = 128 * tp * math.ceil((row["vocab"] if row["vocab"] > 0 else 50257) / (128 * tp))
    keys = {"network": "transformer", "layers": int(row["layers"]), "hidden": int(row["hidden"]), "heads": int(row["heads"]),
            "vocab": int(words), "sequence": int(row["seq_len"])}
    keys.update({key: int(row[key]) for key in ("kv_heads", "ffn") if row[key] > 0})
    if re.match("llama|mi[sx]tral|qwen|deepseek", name):
        keys.update(norm="rms", position="rotary", gated="true", bias="false")
    elif name.startswith("mpt"):
        keys.update(position="none", bias="false", tied="true")
    else:
        keys.update(dropout="true", tied="true")
    return ", ".join(f"{key}: {value}" for key, value in keys.items())


def block_bytes(row, size):
    """Parameters of a layer on a device, times @size."""
    gated = 3 if re.match("llama|mi[sx]tral|qwen", row["network"].lower()) else 2
    kv_heads = row["kv_heads"] if row["kv_heads"] > 0 else row["heads"]
    ffn = row["ffn"] if row["ffn"] > 0 else 4 * row["hidden"]
    return int((2 * row["hidden"] ** 2 * (1 + kv_heads / row["heads"]) + gated * row["hidden"] * ffn) / max(row["tp"], 1) * size)


def cards_of(text):
    """Cards of a node as words that published_networks reads: of 200 Gb/s where a row gives their sum alone."""
    found = re.search(r"(\d+)x(\d+) Gb/s", text)
    if found:
        return f"{found[1]}x IB {found[2]} Gb"
    found = re.search(r"(\d+) Gb/s \w+ per node", text)
    if found:
        return f"{int(found[1]) // 200}x IB 200 Gb"
    found = re.search(r"(\d+) Gb/s (?:RDMA )?per GPU", text)
    return f"8x IB {found[1]} Gb" if found else ""


def job_text(row, source):
    """The job."""
    compute, gradients = PRECISIONS[row["precision"].lower()]
    sharding, tp = SHARDING[row["zero_fsdp"]], int(max(row["tp"], 1))
    keys = {"recompute": RECOMPUTE.get(row["recompute"], "none")}
    apart = tp > 1 and (source.software != "megatron-2022" or "seqparallel" in row["recompute"])
    keys.update({"tensor": tp} if tp > 1 else {}, **({"sequence": "true"} if apart else {}))
    keys.update({key: int(row[name]) for key, name in (("pipeline", "pp"), ("chunks", "vp")) if row["pp"] > 1 and row[name] > 1})
    keys.update({"sharding": sharding} if sharding and row["dp"] > 1 else {})
    exchange = ["algorithm: nccl"] + ["overlap: none"] * source.after
    if sharding >= 2:
        exchange += [f"bucket: {block_bytes(row, 4 if gradients == 'fp32' else 2)} B"]
    return "\n".join([
        "version: 1", f"model: {{{network_text(row)}, precision: {{compute: {compute}, gradients: {gradients}, master: fp32}}}}",
        f"cluster: {{platform: ./platforms/{row['line']:04d}.yaml, nodes: {row['nodes']:.0f}, software: {source.software}}}",
        "training:", f"  dataset: {{train_images: {max(1000000, int(row['global_batch']))}}}",
        f"  phases: [{{epochs: 1, global_batch: {row['global_batch']:.0f}, micro_batch: {row['micro_batch']:.0f}}}]",
        "  optimizer: {name: adamw, clip: 1}", f"baseline: {{nodes: {row['nodes']:.0f}}}",
        f"parallel: {{{', '.join(f'{key}: {value}' for key, value in keys.items())}}}",
        *[f"allreduce: {{{', '.join(exchange)}}}"] * (row["dp"] > 1)]) + "\n"


def write(row):
    """The row as a job."""
    source = source_of(row)
    check(row)
    device = networks.device_of(re.sub(r"-96GB.*", "", row["device"]), row["system"], "80")
    if row["gpus"] > 1 and not networks.is_gpu(device):
        raise Refused(f"the collectives of {device} are not known")
    passes = int(row["global_batch"] / (row["dp"] * row["micro_batch"]))
    step = row["iteration_s"] if row["iteration_s"] > 0 else row["global_batch"] * row["seq_len"] / row["tokens_per_s"]
    hardware = networks.Run(row["line"], "", row["submitter"], row["system"], row["nodes"], row["gpus_per_node"], device,
                            row["network"], 0, 0, "", 0, step, 0, cards_of(row["interconnect"]), "")
    name = f"{row['line']:04d}.yaml"
    apart = (row["split"] if row["split"] not in ("calibration", "check", "check-1node") else
             None if row["recompute"] in RECOMPUTE else f"recompute '{row['recompute']}'")
    slow = {"device.memory_bandwidth": "2.4 TB/s"} if "HBM2e" in row["device"] else {}
    return mlperf.Mapped(
        files={name: job_text(row, source), f"platforms/{name}": networks.platform_of(hardware, device)}, names=[name],
        refused=None, without_extra={}, measured=step, steps=math.nan,
        role="apart" if apart else "check" if row["nodes"] > 1 else "calibration", open=apart, nodes=int(row["nodes"]),
        devices=int(row["gpus"]), batch=int(row["micro_batch"]) * passes, software=source.software, family=source.name,
        measured_evaluation=math.nan, measured_train=math.nan, network=row["network"], device=device,
        precision=row["precision"], sets={"device.memory": "1000 TB", **slow})


def read(row):
    """The row as a job, refused by its network."""
    try:
        return write(row)
    except Refused as refused:
        raise Refused(f"network '{row['network'] or '?'}': {refused}") from refused
