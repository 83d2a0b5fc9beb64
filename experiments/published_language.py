"""Published runs of transformers on a mesh of tensor, context, pipeline and data parallelism as jobs.

The columns are those of experiments/08_language_models/runs.csv.  Rows of one node are for calibration, of
several for checks.  What a job cannot say is refused by name.  Scored apart: a row that does not state what is
computed again, and is predicted as if nothing were, as recipes for speed do; and one whose shape is looked up.
"""
import collections
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
# Megatron Core of rounds 3.0 and 3.1 is that of 2023.
SOURCES = (("training_results_v3", "MLPerf", "megatron-2023", False), ("mlcommons", "MLPerf", "megatron-core", False),
           ("Megatron-LM@", "Megatron-LM", "megatron-core", False),
           ("vTrain", "vTrain", "megatron-2022", True), ("calculon", "Selene", "megatron-2022", True),
           ("llm-foundry", "llm-foundry", "llm-foundry", False), ("torchtitan", "torchtitan", "pytorch-flash", False),
           ("nanotron", "nanotron", "nanotron", False),
           ("Megatron-Bridge", "Megatron-Bridge", "megatron-core", False), ("nemo", "NeMo", "megatron-core", False),
           ("", "others", "pytorch-flash", False))
# Patterns of column zero_fsdp and the stage of ZeRO; MLPerf's NeMo shards its optimizer (distributed_fused_adam).
SHARDING = ((r"full_shard|fsdp.*|.*zero-3.*", 3), (r"shard_grad_op|zero-2", 2), (r"zero-1|distributed optimizer|see config", 1),
            (r"0?|none|ddp", 0))
# Patterns of column precision: compute, products, gradients.  Recipes of fp8 and fp4 of NVIDIA exchange bf16.
PRECISIONS = ((r"fp16", "fp16", "compute", "fp16"), (r"bf16/pure", "bf16", "compute", "bf16"),
              (r"bf16|amp_bf16/default", "bf16", "compute", "fp32"),
              (r"amp_fp8/default|fp8 (tensor|row)wise", "bf16", "fp8", "fp32"),
              (r".*fp8.*", "bf16", "fp8", "bf16"), (r".*fp4.*", "bf16", "fp4", "bf16"))
# What published names begin with, without case and separators, and networks of that shape.
SHAPES = ((r"gpt3175b", "gpt3-175b"), (r"llama3\d?8b", "llama-3-8b"), (r"llama3\d?70b", "llama-3-70b"),
          (r"llama3\d?405b", "llama-3-405b"), (r"mixtral8x7b", "mixtral-8x7b"), (r"mixtral8x22b", "mixtral-8x22b"),
          (r"qwen330ba3b", "qwen3-30b-a3b"), (r"qwen3moe30b", "qwen3-30b-a3b"), (r"qwen3235ba22b", "qwen3-235b-a22b"),
          (r"deepseekv3wmtp", "deepseek-v3, further: 1"), (r"deepseekv3wo|deepseekv3671b", "deepseek-v3"),
          (r"deepseekv3", "deepseek-v3, further: 1"), (r"kimik2", "kimi-k2"),
          (r"gptoss120b", "gpt-oss-120b"), (r"gptoss20b", "gpt-oss-20b"))
LLAMAS = "llama|mi[sx]tral|qwen|deepseek"  # RMS norms, rotary positions, gates, no biases
# Bus bandwidth [GB/s] of all-reduces by nodes, means of 256 MB on the cluster of nanotron's layouts, whose cards have 400 GB/s a
# node (Hugging Face, Ultra-Scale Playbook, "Communication Bandwidth by Number of Nodes").
REACHED = {2: 361.7, 4: 160.1, 8: 99.6, 16: 84.7, 32: 64.9, 64: 32.9}
Source = collections.namedtuple("Source", "name software after")  # a row of SOURCES
RECOMPUTE = {"none": "none", "full": "full", "selective": "selective", "selective+seqparallel": "selective"}
# What recipes of Megatron-Bridge say of networks with experts: network, device, release of the container, keys of `parallel`, of
# which a later row replaces an earlier one's.  scripts/performance/configs/*/*workload_base_configs.py and what reads them, of
# tags v0.2.0 (25.11), v0.3.0 (26.02), v0.3.1 (26.02.01), v0.4.0 (26.04) and v0.4.2 (26.04.01); of 25.09 configs/*/*.yaml and
# run_script.py, tag v0.1.0rc3.  nodes: moe_flex_dispatcher_backend, deepep or hybridep; slots: moe_pad_expert_input_to_capacity;
# latent: mla_up_proj; norms: layernorm and moe_act; selective: no module named.  Left out: `mlp` (three dense blocks of 61),
# moe_act alone.  Meshes of 26.02.01 of Qwen3 30B on H100 and 235B on B300 are those of v0.3.0, whose values are taken.
BRIDGE = ((r"gpt oss", r"GB200|B200|H100", r".*", {"recompute": "norms"}),
          (r"gpt oss", r"GB200|B[23]00", r"26\.04 .*", {"expert_by": "nodes"}),
          (r"gpt oss", r"B300", r"26\.04\.01.*", {"expert_by": "nodes"}),
          (r"gpt oss", r"GB200", r"26\.04.*", {"expert_overlap": "true"}),
          (r"deepseek|kimi", r".*", r".*", {"expert_by": "nodes", "recompute": "latent"}),
          (r"deepseek", r"H100", r"25.*", {"expert_overlap": "true"}),
          (r"deepseek", r"B200", r"26\.04\.01.*", {"expert_overlap": "true"}),
          (r"deepseek", r"GB300", r"25\.11.*", {"recompute": "none"}),
          (r"deepseek", r"GB200", r"26\.04.*", {"recompute": "none"}),
          (r"deepseek", r"B200", r"25.*", {"expert_by": "copies"}),
          (r"deepseek", r"B200", r"25\.09.*", {"recompute": "selective"}),
          (r"qwen3", r"GB.*", r".*", {"expert_by": "nodes"}),
          (r"qwen3 235b", r"H100", r"25\.11.*|26.*", {"expert_overlap": "true"}),
          (r"qwen3 235b", r"B200", r"25\.11.*", {"expert_overlap": "true"}),
          (r"qwen3 235b", r"B300", r"26\.02.*", {"expert_overlap": "true"}),
          (r"qwen3 235b", r"H100", r"26\.02\.01.*", {"expert_by": "nodes"}),
          (r"qwen3 235b", r"B300", r"26\.04\.01.*", {"expert_by": "nodes"}),
          (r"qwen3 30b", r"H100", r"25\.11.*|26\.02.*", {"expert_overlap": "true"}),
          (r"qwen3 30b", r"H100|B300", r"26.*", {"expert_by": "nodes"}),
          (r"qwen3 30b", r"B200", r"26\.02\.01.*|26\.04.*", {"expert_by": "nodes"}),
          (r".*tokendrop.*", r".*", r".*", {"expert_by": "slots"}))


def source_of(row):
    """The first that fits.  llm-foundry on 128 devices and more was measured in 2024, with FlashAttention 2."""
    found = next(Source(*rest) for words, *rest in SOURCES if words.lower() in row["source"].lower())
    return found._replace(software="pytorch-flash") if "Large Scale" in row["remarks"] else found


def shape_of(row):
    """The network that foretrain builds where a row does not give its shape, or None."""
    plain = re.sub(r"[^a-z0-9]", "", row["network"].lower())
    return next((name for pattern, name in SHAPES if re.match(pattern, plain)), None)


def find(rules, text, what):
    """The values of the first rule whose pattern is the whole text."""
    found = next((values for pattern, *values in rules if re.fullmatch(pattern, text.strip().lower())), None)
    if not found:
        raise Refused(f"{what} '{text}' is not known")
    return found


def fill(row):
    """Parts that are not given are one, the rest of the devices has data of its own, and racks of 72 are nodes of those in use."""
    for key in ("tp", "pp", "vp", "cp", "ep"):
        row[key] = max(1, row[key]) if row[key] > 0 else 1
    if not row["dp"] > 0:
        row["dp"] = row["gpus"] // (row["tp"] * row["pp"] * row["cp"])
    if row["device"].startswith("GB") and row["gpus_per_node"] < 8:
        each = next((size for size in (72, 64, 36, 32, 18, 16, 8, 4, 2, 1)
                     if row["gpus"] % size == 0 and size % row["tp"] == 0), row["gpus_per_node"])
        card = 800 if "300" in row["device"] else 400
        row.update(nodes=row["gpus"] / each, gpus_per_node=each, interconnect=f"{each:.0f}x{card} Gb/s")


def check(row):
    """Refuse what no job can say."""
    for key in ("layers", "hidden", "heads"):
        if not row[key] > 0 and not shape_of(row):
            raise Refused(f"the row does not give {key}")
    for key in ("seq_len", "global_batch", "micro_batch"):
        if not row[key] > 0:
            raise Refused(f"the row does not give {key}")
    if row["tp"] * row["pp"] * row["cp"] * row["dp"] != row["gpus"] or row["global_batch"] % (row["dp"] * row["micro_batch"]):
        raise Refused("devices or batch do not divide evenly")


def network_text(row):
    """The keys of the network: Llama and its kin by name, MPT without biases and learned positions, otherwise GPT."""
    name, tp = row["network"].lower(), row["tp"]
    if not row["layers"] > 0 or re.search("deepseek|kimi", name):  # latent attention, which no row gives
        return f"network: {shape_of(row)}, sequence: {row['seq_len']:.0f}"
    words = 128 * tp * math.ceil((row["vocab"] if row["vocab"] > 0 else 50257) / (128 * tp))
    keys = {"network": "transformer", "layers": int(row["layers"]), "hidden": int(row["hidden"]), "heads": int(row["heads"]),
            "vocab": int(words), "sequence": int(row["seq_len"])}
    keys.update({key: int(row[key]) for key in ("kv_heads", "ffn") if row[key] > 0})
    found = re.match(r"mixtral\D*(\d+)x", name)
    keys.update({"experts": int(found[1]), "active": 2} if found else {})
    keys.update({"lora": 32} if "lora" in name else {})  # adapter_dim of NeMo's configuration files
    keys.update({"document": 200} if "packed squad" in name else {})  # tokens, assumed: 150 and 300 say the same
    if re.search(LLAMAS, name):
        keys.update(norm="rms", position="rotary", gated="true", bias="false")
        keys.update({"tied": "true"} if row["source"] == "nanotron" and row["ffn"] < 10000 else {})
    elif name.startswith("nemotron"):
        keys.update(position="rotary", bias="false")
    elif name.startswith("mpt"):
        keys.update(position="none", bias="false", tied="true")
    else:
        keys.update(dropout="true", tied="true")
    return ", ".join(f"{key}: {value}" for key, value in keys.items())


def recipe_of(row):
    """What is known of a network with experts beside its row.  Blocks: set_deepseek_v3_pipeline_model_parallel_layout() of the
    tags above, and layouts beside; of 61 each part but the last has as many."""
    name, keys = re.sub("[-_]", " ", row["network"].lower()), {}
    if "Megatron-Bridge" not in row["source"]:
        return {"expert_by": "nodes"} if re.search("deepseek|kimi", name) else {}  # AutoModel's table: DeepEP
    for network, device, release, says in BRIDGE:
        if re.match(network, name) and re.match(device, row["device"]) and re.match(release, row["date"]):
            keys.update(says)
    if row["pp"] > 1 and re.search("deepseek|kimi", name):
        keys["blocks"] = math.ceil(61 / (row["pp"] * row["vp"]))
    return keys


def bucket_bytes(row, sharding, size):
    """Gradients of one exchange, of @size bytes each: of a layer where these are sharded, else Megatron Core's bucket_size."""
    if sharding < 2 or not row["layers"] > 0:
        return int(max(40e6, 1e6 * row["dp"]) * size)
    gated = 3 if re.search(LLAMAS, row["network"].lower()) else 2
    kv_heads = row["kv_heads"] if row["kv_heads"] > 0 else row["heads"]
    ffn = row["ffn"] if row["ffn"] > 0 else 4 * row["hidden"]
    return int((2 * row["hidden"] ** 2 * (1 + kv_heads / row["heads"]) + gated * row["hidden"] * ffn) / row["tp"] * size)


def cards_of(row):
    """Cards of a node as words that published_networks reads: of 200 Gb/s where a row gives their sum alone."""
    text = row["interconnect"].replace("400/800", "800" if "300" in row["device"] else "400")
    found = re.search(r"(\d+)x(\d+) Gb/s", text)
    if found:
        return f"{found[1]}x IB {found[2]} Gb"
    found = re.search(r"(\d+) Gb/s \w+ per node", text)
    if found:
        return f"{int(found[1]) // 200}x IB 200 Gb"
    found = re.search(r"(\d+) Gb/s (?:RDMA )?per GPU", text)
    return f"8x IB {found[1]} Gb" if found else text


def with_reached(platform, row):
    """The platform, its cards at what all-reduces reach over the nodes of those that share layers, if these are several, else of
    those that sum gradients."""
    ranks = row["tp"] * (row["dp"] if row["tp"] <= row["gpus_per_node"] else 1)
    nodes = next(count for count in REACHED if count >= min(max(REACHED), ranks / row["gpus_per_node"]))
    reached = f"{100 * REACHED[nodes] / 400:.4g} %, source: \"all-reduces over {nodes} nodes, Ultra-Scale Playbook\""
    return re.sub(r"(nic:\n.*\n +efficiency: {value: )[^\"]*\"[^\"]*\"", rf"\g<1>{reached}", platform)


def exchange_of(row, source, sharding, gradients):
    """How gradients are summed.  nanotron: without a sharded optimizer in DDP's buckets of 25 MiB of bf16, summed in fp32 beside
    backward; with one, all behind it in one all-reduce, and weights gathered at once (repository huggingface/nanotron,
    trainer.py of commit 004a89cae000, gradient_accumulator.py and zero.py; examples: ddp_bucket_cap_mb 25)."""
    if source.name == "nanotron":
        return [] if row["dp"] == 1 else ["overlap: none"] if sharding else [f"bucket: {2 * 25 * 2**20} B"]
    alone = "Megatron-Bridge" in row["source"] and re.match("deepseek.*H100", row["network"].lower() + row["device"])
    exchange = ["overlap: none"] * bool(source.after or alone)  # cfg.comm_overlap.overlap_grad_reduce
    if sharding >= 2 or not source.after:
        exchange += [f"bucket: {bucket_bytes(row, sharding, 4 if gradients == 'fp32' else 2)} B"]
    return exchange


def job_text(row, source):
    """The job."""
    compute, products, gradients = find(PRECISIONS, row["precision"], "precision")
    if row["ep"] > 1 and "Megatron-Bridge" in row["source"]:
        gradients = "bf16"  # its recipes of networks with experts: grad_reduce_in_fp32 False
    sharding, tp = find(SHARDING, row["zero_fsdp"], "sharding")[0], int(row["tp"])
    if row["pp"] > 1:  # FSDP keeps what it has gathered for a step (torchtitan's fsdp.py, b5bcd76c6: reshard_after_forward)
        sharding = min(sharding, 1)
    keys = {"recompute": RECOMPUTE.get(row["recompute"], "none")}
    apart = tp > 1 and (source.software != "megatron-2022" or "seqparallel" in row["recompute"])
    keys.update({"tensor": tp} if tp > 1 else {}, **({"sequence": "true"} if apart else {}))
    keys.update({key: int(row[name]) for key, name in (("pipeline", "pp"), ("chunks", "vp"), ("context", "cp"),
                                               ("expert", "ep"))
                 if row[name] > 1 and (name != "vp" or row["pp"] > 1)})
    keys.update(recipe_of(row) if row["ep"] > 1 else {})
    # Of Megatron-Bridge's *_workload_base_configs.py (01b2977e518f): expert_tensor_parallel_size.
    keys.update({"expert_tensor": 1} if row["ep"] > 1 and apart else {})
    keys.update({"balance": "greedy"} if row["pp"] > 1 and source.name == "nanotron" else {})
    keys.update({"sharding": sharding} if sharding and row["dp"] > 1 else {})
    exchange = ["algorithm: nccl"] + exchange_of(row, source, sharding, gradients)
    return "\n".join([
        "version: 1", f"model: {{{network_text(row)}, precision: {{compute: {compute}, products: {products}, "
        f"gradients: {gradients}, master: fp32}}}}", f"cluster: {{platform: ./platforms/{row['line']:04d}.yaml, "
        f"nodes: {row['nodes']:.0f}, software: {source.software}}}",
        "training:", f"  dataset: {{train_images: {max(1000000, int(row['global_batch']))}}}",
        f"  phases: [{{epochs: 1, global_batch: {row['global_batch']:.0f}, micro_batch: {row['micro_batch']:.0f}}}]",
        "  optimizer: {name: adamw, clip: 1}", f"baseline: {{nodes: {row['nodes']:.0f}}}",
        f"parallel: {{{', '.join(f'{key}: {value}' for key, value in keys.items())}}}",
        *[f"allreduce: {{{', '.join(exchange)}}}"] * (row["dp"] > 1 or (source.software != "megatron-2022" and tp > 1))]) + "\n"


def write(row):
    """The row as a job."""
    source, several = source_of(row), row["nodes"] > 1
    fill(row)
    check(row)
    device = networks.device_of(re.sub(r"-96GB.*", "", row["device"]), row["system"], "80")
    if row["gpus"] > 1 and not networks.is_gpu(device):
        raise Refused(f"the collectives of {device} are not known")
    passes = int(row["global_batch"] / (row["dp"] * row["micro_batch"]))
    step = row["iteration_s"] if row["iteration_s"] > 0 else row["global_batch"] * row["seq_len"] / row["tokens_per_s"]
    hardware = networks.Run(row["line"], "", row["submitter"], row["system"], row["nodes"], row["gpus_per_node"], device,
                            row["network"], 0, 0, "", 0, step, 0, cards_of(row), "")
    name = f"{row['line']:04d}.yaml"
    anchor = (source.software == "megatron-core" and row["gpus"] <= 8 and row["pp"] == 1 and
              "lora" not in row["network"].lower())
    apart = (row["split"] if row["split"] not in ("calibration", "check", "check-1node") else
             "shape looked up" if not row["layers"] > 0 else
             None if row["recompute"] in RECOMPUTE else f"recompute '{row['recompute']}'")
    slow = {"device.memory_bandwidth": "2.4 TB/s"} if "HBM2e" in row["device"] else {}
    platform = networks.platform_of(hardware, device)
    platform = with_reached(platform, row) if source.name == "nanotron" else platform
    return mlperf.Mapped(
        files={name: job_text(row, source), f"platforms/{name}": platform}, names=[name],
        memory=2**30 * row.get("memory_gb", math.nan),
        refused=None, without_extra={}, measured=step, steps=math.nan,
        role="anchor" if anchor else "apart" if apart else "check" if several else "calibration", open=apart, nodes=int(row["nodes"]),
        devices=int(row["gpus"]), batch=int(row["micro_batch"]) * passes, software=source.software, family=source.name,
        measured_evaluation=math.nan, measured_train=math.nan, network=row["network"], device=device,
        precision=row["precision"], sets={"device.memory": "1000 TB", **slow})


def read(row):
    """The row as a job, refused by its network."""
    try:
        return write(row)
    except Refused as refused:
        raise Refused(f"network '{row['network'] or '?'}': {refused}") from refused


class Layouts:
    """layouts_h100.csv: meshes that nanotron ran, or that crashed or did not fit; sequences of 4096 tokens, one global batch."""
    NEEDED = {"model", "gpu", "dp", "pp", "tp", "zero", "micro_batch", "memory_gb", "outcome"}
    TEXTS = ("model", "gpu", "outcome", "consistent")
    NUMBERS = ("nodes", "gpus", "dp", "pp", "tp", "zero", "micro_batch", "grad_accumulation", "global_batch", "sequence",
               "iteration_s", "memory_gb")
    SIGNED, IGNORED, BACKEND, Refused = (), ("mfu_percent", "tokens_per_s_gpu", "tokens_per_s"), "analytic", Refused
    # Layers, hidden, heads and inner features, derived from their FLOP; no grouped heads.  Words are tied: what ZeRO-1 saves on
    # one stage is 12 bytes of 1.1 to 1.3, 3.5 to 3.8 and 7.8 to 8.3 billion parameters where many ranks have data of their own.
    SHAPES = {"1B": (16, 2048, 32, 8192), "3B": (28, 3072, 24, 8192), "8B": (32, 4096, 32, 14336)}

    @staticmethod
    def read(row):
        """The row as a job."""
        if row["model"] not in Layouts.SHAPES:
            raise Refused(f"network '{row['model']}' is not known")
        shape = dict(zip(("layers", "hidden", "heads", "ffn"), Layouts.SHAPES[row["model"]]))
        return read({**dict.fromkeys(TEXTS, ""), **dict.fromkeys(NUMBERS, math.nan), **row, **shape, "source": "nanotron",
                     "device": row["gpu"].replace(" ", "-"), "system": "nanotron", "gpus_per_node": row["gpus"] / row["nodes"],
                     "interconnect": "400 Gb/s RDMA per GPU", "network": f"llama {row['model']}", "vocab": 131072,
                     "seq_len": row["sequence"], "precision": "bf16", "zero_fsdp": "ZeRO-1" if row["zero"] else "0",
                     "recompute": "none", "split": "check" if row["consistent"] == "yes" else "not consistent"})
