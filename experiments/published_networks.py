"""Published runs of any network as jobs: tables of throughput by network and device, and of BERT in MLPerf.

Framework, layout, optimizer and accumulation are words of the remarks, the size of pictures is the
column sequence_length.  NETWORKS maps published names to networks that foretrain builds: a new family
is a row there.  A row that foretrain cannot express is refused by its network, device or precision.

What can be predicted but is known beforehand to be another thing is scored apart (apart_of()).
"""
import dataclasses
import json
import math
import os
import pathlib
import re

import published_mlperf as mlperf

ROOT = pathlib.Path(__file__).resolve().parents[1]
Refused = mlperf.Refused
PASSES = 32  # most micro-batches that a job is written with: what is done once a step is then below 1 % of it
SMALL = 16  # pictures: smaller batches are bound by the host's launches, which differ from host to host
UNPADDED = 256  # mean tokens of a sequence of at most 512 where padding is removed: assumed, about a half
# Deviation of the tokens of a sequence over their mean: nearly a quarter of 512, others between (Krell et al. 2021); assumed.
UNEVEN = 0.7


# ---- networks ----

@dataclasses.dataclass
class Network:
    """What a published name stands for."""
    name: str  # that foretrain builds
    kind: str  # family, for scores
    side: int  # of pictures in pixels where a row does not say it; 0: sequences


# Published names without case and separators (regular expression), the network that foretrain builds, its family,
# (None: as published), and the side of its pictures; the first that fits.  A name of no row is passed on as it is.
NETWORKS = (
    (r"resnet(18|34|50|101|152)(v15)?", r"resnet\1", "ResNet", 224),
    (r"resnet(18|34|50|101|152)v1", r"resnet\1_v1", "ResNet", 224),
    (r"wideresnet(50|101)2?", r"wide_resnet\1_2", "ResNet", 224),
    (r"resnext(50|101)(\d+)x(\d+)d", r"resnext\1_\2x\3d", "ResNeXt", 224),
    (r"resnext50", "resnext50_32x4d", "ResNeXt", 224),
    (r"seresnext(50|101)(\d+)x(\d+)d", r"se_resnext\1_\2x\3d", "ResNeXt", 224),
    (r"regnet([xy])(?:00)?([48])(?:00mf)?", r"regnet_\1_\g<2>00mf", "RegNet", 224),
    (r"regnet([xy])0?(1|3)(6|2)(?:gf)?", r"regnet_\1_\2_\3gf", "RegNet", 224),
    (r"regnet([xy])0?(8|16|32)(?:0|gf)", r"regnet_\1_\2gf", "RegNet", 224),
    (r"vgg(11|13|16|19)(bn)?", r"vgg\1_\2", "VGG", 224),
    (r"alexnet", "alexnet", "VGG", 224),
    (r"densenet(\d+)", r"densenet\1", "DenseNet", 224),
    (r"(inceptionv3|googlenet)", r"\1", "Inception", 224),
    (r"squeezenet1(\d)", r"squeezenet1_\1", "SqueezeNet", 224),
    (r"mobilenetv2(100)?", "mobilenet_v2", "depthwise", 224),
    (r"mobilenetv3(small|large)(100)?", r"mobilenet_v3_\1", "depthwise", 224),
    (r"mnasnet(\d)(\d+?)0?", r"mnasnet\1_\2", "depthwise", 224),
    (r"shufflenetv2x(\d)(\d)", r"shufflenet_v2_x\1_\2", "depthwise", 224),
    (r"efficientnetb(\d)", r"efficientnet_b\1", "depthwise", 224),
    (r"efficientnetwideseb(\d)", r"efficientnet_widese_b\1", "depthwise", 224),
    (r"efficientnetv2([sml])", r"efficientnet_v2_\1", "depthwise", 300),
    (r"convnext(tiny|small|base|large|xlarge)", r"convnext_\1", "ConvNeXt", 224),
    (r"convnext([tsbl]|xl)", r"convnext\1", "ConvNeXt", 224),
    (r"swin([tsbl])(?:iny|mall|ase|arge)?(?:patch4)?(?:window7)?(?:224)?", r"swin_\1", "Swin", 224),
    (r"(?:vit|deit)(ti|s|b|l|h)(?:ny|mall|ase|arge|uge)?(?:patch)?(14|16|32)(224)?", r"vit_\1_\2", "ViT", 224),
    (r"deit(ti|s|b)(?:ny|mall|ase)?", r"vit_\1_16", "ViT", 224),
    (r"ssd300resnet50", "ssd300_resnet50", "detection", 300),
    (r"ssdresnet34", "ssd_resnet34", "detection", 300),
    (r"retinanetresnext5032x4d", "retinanet_resnext50_32x4d", "detection", 800),
    (r"maskrcnn(?:r(?:esnet)?50)?(?:fpn)?", "maskrcnn_r50_fpn", "detection", 1024),
    (r"unet", "unet", "U-Net", 256),
    (r"bert(base|large).*squad.*", r"bert-\1-squad", "BERT", 0),
    (r"bert(base|large).*", r"bert-\1", "BERT", 0),
    (r"gpt2(medium|large|xl)?", r"gpt2-\1", "GPT", 0),
    (r"(gpt\d.*|llama.*|mixtral.*)", None, "GPT", 0),
)
SIDES = {"efficientnet_b1": 240, "efficientnet_b2": 260, "efficientnet_b3": 300, "efficientnet_b4": 380,
         "efficientnet_b5": 456, "efficientnet_b6": 528, "efficientnet_b7": 600, "inceptionv3": 299}
SPELLED = {"inceptionv3": "inception_v3", "convnextt": "convnext_tiny", "convnexts": "convnext_small",
           "convnextb": "convnext_base", "convnextl": "convnext_large", "convnextxl": "convnext_xlarge"}


def network_of(name):
    """The network of a published name."""
    words = name.strip().lower()
    plain = re.sub(r"[^a-z0-9]", "", re.sub(r"^(tv|tf|timm|torchvision|hf|dle)[_-]", "", words))
    for pattern, built, kind, side in NETWORKS:
        found = re.fullmatch(pattern, plain)
        if found:
            built = found.expand(built).rstrip("_-") if built else re.sub(r"\s+", "-", words)
            return Network(SPELLED.get(built, built), kind, SIDES.get(built.replace("_widese", ""), side))
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", words) or words.endswith((".yaml", ".onnx")):
        raise Refused("is not built in")
    return Network(words, re.sub(r"[^a-z].*", "", plain) or "?", 224)


# ---- devices ----

FORM = re.compile(r"(sxm|pcie|nvl|oam)\d*")
MEMORY = re.compile(r"(\d+)gb?")
# Words that make another device of what they follow.
ANOTHER = {"ada", "pro", "ti", "super", "max", "laptop", "cpu"}


def words_of(text):
    """Lower-case words, a count before a name apart: "4xV100" is "v100"."""
    return [re.sub(r"^\d+x(?=[a-z])", "", word) for word in re.split(r"[^a-z0-9.]+", text.lower()) if word]


def device_files():
    """The folder of device files."""
    return pathlib.Path(os.environ.get("FORETRAIN_DATADIR") or ROOT) / "platforms" / "devices"


def is_gpu(device):
    """Whether NCCL may connect several."""
    return "\ncompute_capability:" in (device_files() / f"{device}.yaml").read_text("utf-8")


def fit_device(name, words, hints, memory):
    """How well a device file fits the words of a row, lower is better; None: it is another device."""
    parts = name.split("-")
    form = next((FORM.fullmatch(part)[1] for part in parts if FORM.fullmatch(part)), "")
    size = next((MEMORY.fullmatch(part)[1] for part in parts if MEMORY.fullmatch(part)), "")
    watts = [part for part in parts if re.fullmatch(r"\d+w", part)]
    model = [part for part in parts if not FORM.fullmatch(part) and not MEMORY.fullmatch(part) and part not in watts]
    joined = set(words) | {a + b for a, b in zip(words, words[1:])}
    if not set(model) <= joined and "".join(model) not in joined:
        return None
    if (ANOTHER & set(words)) - set(model):
        return None
    wanted = next((FORM.fullmatch(word)[0] for word in words if FORM.fullmatch(word)), "")
    if wanted and form and not wanted.startswith(form):
        return None
    if not wanted and form == "nvl" and "nvl" not in hints:
        return None
    if not wanted and form and (form == "pcie") != ("pcie" in hints):
        return None
    exact = not wanted or wanted in parts or wanted in ("sxm", "pcie")
    power = 0 if any(watt in words or "dgx2h" in hints for watt in watts) else 2 if watts else 1
    return (-len(model), not exact, size != memory, power, name)


def device_of(text, hints, memory):
    """The device file of a published name, with words of the system as hints, and the memory in GB where the name has
    none."""
    words = words_of(text)
    memory = next((MEMORY.fullmatch(word)[1] for word in words if MEMORY.fullmatch(word)), memory)
    hints = {word for word in words_of(hints)} | ({"dgx2h"} if "dgx2h" in hints.lower().replace("-", "") else set())
    if "v100" in words and "pcie" not in hints and not any(FORM.fullmatch(word) for word in words):
        words = [*words, "sxm3" if "dgx2" in " ".join(hints) else "sxm2"]
    found = [(fit, name) for name in sorted(path.stem for path in device_files().glob('*.yaml'))
             for fit in [fit_device(name, words, hints, memory)] if fit]
    if not found:
        raise Refused(f"device '{text}' is not in platforms/devices")
    return min(found)[1]


NVLINKS = {80: "NVLink1", 150: "NVLink2", 300: "NVLink3", 450: "NVLink4", 900: "NVLink5"}  # by GB/s one way


def link_of(device):
    """The link between the devices of a node, of published_mlperf.LINKS, and GB/s of a device in both directions."""
    text = (device_files() / f"{device}.yaml").read_text("utf-8")
    found = re.search(r"^links:\n  kind: nvlink\n  bandwidth: {value: (\d+) GB/s", text, re.MULTILINE)
    if found and int(found[1]) in NVLINKS:
        return NVLINKS[int(found[1])], 2 * int(found[1])
    found = re.search(r"^pcie: (\d)", text, re.MULTILINE)
    slot = min(max(int(found[1]) if found else 4, 3), 5)
    return f"PCIe{slot}", 4 * 2 ** slot


# ---- a run ----

@dataclasses.dataclass
class Run:
    """A row of either table."""
    line: int
    round: str
    submitter: str
    system: str
    nodes: float
    each: float  # devices of a node
    device: str
    network: str
    batch: float  # samples of a device in a step
    passes: float  # of which the step consists
    precision: str
    length: float  # tokens of a sequence or pixels of a side; NAN: not given
    step: float  # [s]; NAN: not given
    seconds: float  # to train
    fabric: str
    words: str  # remarks, and all else that may say which framework ran


def has(run, pattern):
    """Whether the words of a row contain a pattern."""
    return re.search(pattern, run.words, re.IGNORECASE) is not None


def is_mlperf(run):
    """Whether it is a submission to MLPerf Training."""
    return re.fullmatch(r"v\d+(\.\d*)?", run.round) is not None


# Words of a row and the framework that they mean; the first that fits.
FRAMEWORKS = ((r"pytorch|\bPT \d|timm|torchvision", "pytorch"), (r"paddle", "paddle"), (r"mindspore", "mindspore"),
              (r"popart", "popart"), (r"jax|lingvo", "jax"), (r"\bTF-?2|tensorflow-? ?v?2\b", "tensorflow"),
              (r"\bTF\b|tensorflow", "tensorflow1"))


def framework_of(run):
    """The framework, as far as the row says it: most likely PyTorch."""
    return next((name for pattern, name in FRAMEWORKS if has(run, pattern)), "pytorch")


def channels_last(run):
    """Whether convolutions ran in NHWC.  TensorFlow and MLPerf do with tensor cores; of NVIDIA's examples the mixed ones
    (configs.yml of ConvNets), SSD's since January 2022 (its README)."""
    if has(run, r"NHWC in mixed|DeepLearningExamples@729963dd:PyTorch/(Detection/SSD|Classification)"):
        return "mixed" in run.precision
    if has(run, "nchw|channels first"):
        return False
    return has(run, "nhwc|channels last") or (
        (is_mlperf(run) or framework_of(run) != "pytorch") and run.precision.startswith("mixed"))


def is_fused(run):
    """Whether layers are fused and CUDA graphs launch them: NVIDIA's code for MLPerf.  Nearly all BERT is that from v1.0 on,
    and Baidu's in Paddle does the same; RetinaNet came with v2.0, so others could run it in v2.1."""
    if not is_mlperf(run):
        return False
    if "bert" in run.network.lower():
        return float(run.round[1:]) >= 1 and framework_of(run) in ("pytorch", "paddle")
    return "retinanet" in run.network.lower() and float(run.round[1:]) >= (2.0 if run.submitter == "NVIDIA" else 2.1)


def software_of(run):
    """The software profile."""
    if is_fused(run):
        return "pytorch-mlperf"
    return "pytorch" if channels_last(run) else "pytorch-nchw"  # which has a word for networks without a layout


TF32 = ("a100", "a30", "a40", "a10", "a10g", "rtx", "h100", "h200", "l40", "l40s", "l4", "a5000", "a6000", "b200")


def profile_says_tf32(software):
    """Whether a software profile computes in tf32 what a job calls fp32."""
    path = device_files().parent / "software" / f"{software}.yaml"
    return path.is_file() and "\ntf32: all\n" in path.read_text("utf-8")


def precision_of(run, device):
    """The precision's name, and compute, gradients and master of a job."""
    text = run.precision.lower().strip()
    if text.startswith("mixed") or text in ("fp16", "amp"):
        small = has(run, "fp16 all-?reduce") or is_mlperf(run)
        compute = "bf16" if "bf16" in text else "fp16"
        return compute, (compute, "fp16" if small else "fp32", "fp32")
    if text == "pure fp16":
        return "fp16", ("fp16", "fp16", "fp16")
    if text == "fp32/tf32":
        text = "tf32" if device.split("-")[0] in TF32 else "fp32"
    if text == "fp32" or (text == "tf32" and profile_says_tf32(software_of(run))):
        return text, ("fp32", "fp32", "fp32")
    if text == "tf32":
        raise Refused(f"the software profile {software_of(run)} has no tf32")
    if text == "bf16":
        return text, ("bf16", "bf16", "fp32")
    raise Refused(f"precision '{run.precision}' is not known")


OPTIMIZERS = (("lars", "lars"), ("lamb", "lamb"), ("adafactor", "adafactor"), ("adam|squad|fine-tun", "adamw"),
              ("rmsprop", "rmsprop"))


def is_sharded(run, network):
    """MLPerf's BERT in PyTorch shares the update among the devices of a node: --distributed_lamb of NVIDIA's
    run_and_time.sh, v0.7 to v2.1, which others and Paddle follow."""
    return is_unpadded(run, network) and run.each > 1


def optimizer_of(run, network):
    """The optimizer and its numbers: transformers of text clip gradients, and have AdamW where a row does not say it."""
    usual = "sgd" if network.side else "lamb" if is_mlperf(run) and network.kind == "BERT" else "adamw"
    name = next((name for pattern, name in OPTIMIZERS if has(run, pattern)), usual)
    return name if network.side else f"{name}, clip: 1"


HANDED_IN = {}  # the first round of each run of MLPerf, which a later one may repeat


def apart_of(run, network, passes):
    """Why a row is scored apart from others; None: it is not.  These were named before anything was predicted."""
    if has(run, "duplicate"):
        return "the same run is in another round"
    if is_mlperf(run) and HANDED_IN.setdefault((run.submitter, run.system, run.network, run.step), run.round) != run.round:
        return "the same run is in another round"
    if has(run, "LDDL"):
        return "sequences of less tokens than the length says"
    if framework_of(run) == "tensorflow1":
        return "TensorFlow 1"
    if network.side and run.batch / passes < SMALL:
        return f"fewer than {SMALL} pictures a device"
    if network.kind == "RegNet" and channels_last(run):
        return "grouped convolutions in nhwc"
    if run.network == "tv_resnet50":  # line of experiments/02_published_runs/single_node.csv, named later
        return "the run that gives the device its efficiency"
    return None


# ---- the job ----

# Words of a row, and what they say that no job can.
INEXPRESSIBLE = ((r"parameter servers?", "parameter servers"), (r"less than one sample a device", "spatial or model parallelism"),
                 (r"progressive image sizes", "image sizes that grow during training"),
                 (r"samples are TOKENS|samples (?:per second )?are TOKENS", "batches of tokens"))


def check_run(run, device):
    """Refuse what no job can say."""
    for pattern, reason in INEXPRESSIBLE:
        if has(run, pattern):
            raise Refused(f"{reason} cannot be expressed")
    if run.nodes * run.each > 1 and not is_gpu(device):
        raise Refused(f"the collectives of {device} are not known")
    for name, value, most in (("nodes", run.nodes, 100000), ("gpus_per_node", run.each, 64), ("batch", run.batch, 1e6),
                              ("accumulation", run.passes, 1e6)):
        if math.isnan(value):
            raise Refused(f"the row does not give the {name}")
        if not 1 <= value <= most or value != int(value):
            raise Refused(f"{name} is {value:g}; it must be a whole number from 1 to {most:g}")
    if run.batch % run.passes:
        raise Refused(f"{run.batch:g} samples a device cannot be divided evenly among {run.passes:g} micro-batches")


def cards_of(text):
    """Network cards of a node and Gb/s of each: "8x ConnectX-6 IB HDR 200Gb/Sec", but none for storage; NAN: not given."""
    compute = re.sub("(Storage|Management):[^,;]*", "", text.split("Compute:")[-1])
    found = re.search(r"(\d+) ?x [^,;]*?(?:HDR|EDR|NDR|IB)\b[^,;]*?(\d+) ?Gb", compute)
    if found:
        return float(found[1]), float(found[2])
    found = re.search(r"(\d+) Gb/s (?:RoCE|Ethernet|InfiniBand)", text)
    return (1.0, float(found[1])) if found else (math.nan, math.nan)


def hardware_row(run, device):
    """The cells from which published_mlperf makes a platform."""
    link, rate = link_of(device)
    cards, speed = cards_of(run.fabric or run.system)
    row = {**dict.fromkeys(mlperf.TEXTS, ""), **dict.fromkeys(mlperf.NUMBERS, math.nan)}
    return {**row, "round": run.round if is_mlperf(run) else "v0.5", "submitter": run.submitter,
            "system": run.system or run.device, "acc_family": device.split("-")[0].upper(),
            "form": "PCIe" if "pcie" in device or link.startswith("PCIe") else "SXM", "n_nodes": run.nodes,
            "acc_per_node": run.each, "n_acc": run.nodes * run.each, "intra_link": link, "intra_GBps": rate,
            "nics_per_node": cards, "nic_Gbps": speed}


def platform_of(run, device):
    """The text of the platform."""
    row = hardware_row(run, device)
    node = mlperf.node_of(row)
    staged = run.nodes > 1 and mlperf.staged_part(row, node) < mlperf.NET_PART  # as of ResNet-50's runs
    return mlperf.platform_text(row, node, device, mlperf.Way(1, staged, mlperf.has_sharp(row), 1))


def is_unpadded(run, network):
    """NVIDIA's configurations of MLPerf have --unpad or --packed_samples from v0.7 on; others' are made from them."""
    return is_mlperf(run) and network.kind == "BERT" and not framework_of(run).startswith("tensorflow")


def size_of(run, network):
    """The keys of a sample's size."""
    if network.side:
        return f"image: {network.side if math.isnan(run.length) else int(run.length)}"
    length = 512 if math.isnan(run.length) else int(run.length)
    return f"sequence: {length}" + (f", tokens: {min(length, UNPADDED)}, padded: false" if is_unpadded(run, network) else "")


def job_text(run, network, device, passes):
    """The job; @passes are those that it is written with."""
    compute, gradients, master = precision_of(run, device)[1]
    batch = int(run.batch / run.passes)
    size = size_of(run, network)
    devices = int(run.nodes * run.each)
    out = ["version: 1",
           f"model: {{network: {json.dumps(network.name)}, {size}, precision: {{compute: {compute}, gradients: "
           f"{gradients}, master: {master}}}}}",
           f"cluster: {{platform: ./platforms/{run.line:04d}.yaml, nodes: {run.nodes:.0f}, software: {software_of(run)}}}",
           "training:", f"  dataset: {{train_images: {max(1281167, batch * passes * devices)}}}",
           f"  phases: [{{epochs: 1, batch_per_device: {batch}}}]", f"  optimizer: {{name: {optimizer_of(run, network)}}}"]
    out += [f"  accumulate: {passes}"] * (passes > 1)
    shards = is_sharded(run, network)
    out += ["parallel: {sharding: 1}"] * shards
    rows = shards and run.nodes > 1  # reduced and gathered in a node, summed over nodes
    out += [f"allreduce: {{algorithm: {'torus2d' if rows else 'nccl'}}}"] * (devices > 1)
    if is_unpadded(run, network) and float(run.round[1:]) < 1:  # from v1.0 on --exchange_padding shares tokens out evenly
        out += [f"noise: {{compute_cv: {100 * UNEVEN / math.sqrt(run.batch):.3g} %}}"]
    if run.step > 0:
        out += [f"measured: {{step: {1e3 * run.step * passes / run.passes:.9g} ms, software: {software_of(run)}}}"]
    return "\n".join(out) + "\n"


def write_run(run):
    """A run as jobs."""
    known_as = re.search(r"torchvision equivalent (\w+)", run.words)
    network = network_of(known_as[1] if known_as else run.network)
    recent = not is_mlperf(run) or float(run.round[1:]) >= 1.1
    pcie = re.match("PCIe", run.fabric) and "sxm" not in run.system.lower()
    device = device_of(run.device, f"{run.system} {'pcie' if pcie else ''}",
                       "80" if recent and "a100" in run.device.lower() else "")
    check_run(run, device)
    passes = int(min(run.passes, PASSES))
    name = f"{run.line:04d}.yaml"
    files = {name: job_text(run, network, device, passes), f"platforms/{name}": platform_of(run, device)}
    apart = apart_of(run, network, run.passes)
    role = "apart" if apart else "check" if run.nodes > 1 else "calibration"
    return mlperf.Mapped(files=files, names=[name], refused=None, without_extra={}, measured=run.step * passes / run.passes,
                         steps=math.nan, role=role, open=apart, nodes=int(run.nodes), devices=int(run.nodes * run.each),
                         batch=int(run.batch / run.passes) * passes, software=software_of(run), family=network.kind,
                         measured_evaluation=math.nan, measured_train=run.seconds, network=run.network, device=device,
                         precision=precision_of(run, device)[0], passes=passes,
                         sets={"device.memory": "1000 TB"})


def read_run(run):
    """A run as jobs, refused by its network."""
    try:
        return write_run(run)
    except Refused as refused:
        text = str(refused)
        raise Refused(f"network '{run.network or '?'}'{'' if text.startswith('is ') else ':'} {text}") from refused


# ---- the two tables ----

class Networks:
    """other_networks_single.csv and other_networks_multi.csv."""
    NEEDED = {"device", "network", "batch_per_gpu", "precision", "samples_per_second"}
    TEXTS = ("source", "round", "submitter", "system", "device", "network", "precision", "remarks")
    NUMBERS = ("nodes", "gpus_per_node", "batch_per_gpu", "sequence_length", "samples_per_second", "time_to_train",
               "time_to_train_s", "samples_to_train")
    SIGNED = IGNORED = ()
    BACKEND, Refused = "analytic", Refused

    @staticmethod
    def read(row):
        """The row as jobs."""
        remarks = row["remarks"]
        found = re.search(r"accumulation (\d+)|\d+/(\d+) accumulation|^\d+/(\d+);", remarks)
        passes = float(next(filter(None, found.groups()))) if found else 1.0
        batch = row["batch_per_gpu"] * (1 if "accumulation not divided out" in remarks else passes)
        seconds = row["time_to_train"] if math.isnan(row["time_to_train_s"]) else row["time_to_train_s"]
        rate = row["samples_per_second"]
        if not rate > 0:
            rate = row["samples_to_train"] / seconds if seconds > 0 else math.nan
        nodes, each = (1.0 if math.isnan(row[key]) else row[key] for key in ("nodes", "gpus_per_node"))
        return read_run(Run(row["line"], row["round"], row["submitter"], row["system"], nodes, each, row["device"],
                            row["network"], batch, passes, row["precision"], row["sequence_length"],
                            batch * nodes * each / rate if rate > 0 else math.nan, seconds, "",
                            " ".join((row["submitter"], row["system"], remarks, row["network"], row["source"]))))


class Bert:
    """bert_runs.csv."""
    NEEDED = {"device", "network", "seq_len", "grad_accum", "global_batch", "gpus_per_node"}
    TEXTS = ("source", "date", "submitter", "system", "device", "interconnect", "network", "precision", "config", "remarks")
    NUMBERS = ("nodes", "gpus_per_node", "gpus", "seq_len", "micro_batch", "grad_accum", "global_batch", "time_to_train_s",
               "throughput_seq_s", "seq_s_from_ttt", "iteration_s", "tflops_per_gpu_upper")
    SIGNED = ()
    IGNORED = ("runs", "tts_min", "tts_max", "samples_to_train", "samples_min", "samples_max")
    BACKEND, Refused = "analytic", Refused

    @staticmethod
    def read(row):
        """The row as jobs."""
        if row["tflops_per_gpu_upper"] > 3000:
            raise Refused(f"network '{row['network']}': {row['tflops_per_gpu_upper']:g} TFLOP/s a device: its samples are of "
                          "another unit")
        found = re.search(r"v\d+\.\d+", row["date"])
        nodes, each = (row[key] for key in ("nodes", "gpus_per_node"))
        devices = row["gpus"] if row["gpus"] > 0 else nodes * each
        batch = row["global_batch"] / devices if devices > 0 else math.nan
        passes = row["grad_accum"] if row["grad_accum"] > 0 else (
            batch / row["micro_batch"] if row["micro_batch"] > 0 else 1.0)
        rate = row["throughput_seq_s"] if row["throughput_seq_s"] > 0 else row["seq_s_from_ttt"]
        step = row["global_batch"] / rate if rate > 0 else row["iteration_s"]
        # NVIDIA's example of 21.11 sorts sequences of up to 512 tokens by length (LDDL); other_networks_multi.csv says so.
        binned = "LDDL" if "21.11" in row["date"] and row["seq_len"] == 512 else ""
        precision = row["precision"] or ("bf16" if "BF16" in row["network"] else "mixed (submission)")
        return read_run(Run(row["line"], found[0] if found else "", row["submitter"], row["system"], nodes, each,
                            row["device"], row["network"], batch, passes, precision, row["seq_len"], step,
                            row["time_to_train_s"], row["interconnect"],
                            " ".join((row["date"], row["submitter"], row["system"], row["config"], row["remarks"],
                                      row["network"], binned))))
