#include "app/cli/command.h"
#include "app/import/import.h"

static int answer(const char *kind, import_reader *read, const struct import_request *request,
                  struct text *out, struct err *err)
{
    const char *path = request->head.argument.item[0], *slash = strrchr(path, '/');
    AUTORELEASE(import)
    struct import import = {
        .kind = kind, .file = path, .base_name = base_copy(slash ? slash + 1 : path)};
    if (read(&import, request, err))
        return -1;
    if (request->platform && !import.base)
        import.base = base_copy(request->platform);
    import.nodes = request->nodes ? request->nodes : import.nodes;
    return import_finish(&import, request, out, err);
}

#define AT(member) offsetof(struct import_request, member)

#define TO                                                                                         \
    OPTION_ROW("to", 0, OPTION_OUTPUT, AT(to), "PLATFORM.yaml", NULL, "The platform file to write")
#define NODES                                                                                      \
    OPTION_ROW("nodes", 'n', OPTION_INTEGER, AT(nodes), "N", NULL,                                 \
               "Nodes, when the file does not say")
#define RANKS                                                                                      \
    OPTION_ROW("ranks", 0, OPTION_INTEGER, AT(ranks), "N", NULL,                                   \
               "Ranks, when the file does not say")
#define PLATFORM(meaning)                                                                          \
    OPTION_ROW("platform", 0, OPTION_TEXT, AT(platform), "NAME", NULL, meaning)
#define REPLACE ROW_REPLACE(AT(overwrite), "to")

static const struct option times_options[] = {TO, REPLACE, NODES, RANKS, ROW_JSON, ROW_LAST};
static const struct option nccl_options[] = {
    TO,       REPLACE, NODES, RANKS, PLATFORM("Where it ran (default: the first with such nodes)"),
    ROW_JSON, ROW_LAST};
static const struct option node_options[] = {TO, REPLACE, NODES, ROW_JSON, ROW_LAST};
static const struct option network_options[] = {
    TO, REPLACE, PLATFORM("Take the nodes of this platform"), ROW_JSON, ROW_LAST};
static const struct option trace_options[] = {
    OPTION_ROW("job", 0, OPTION_TEXT, AT(job), "JOB.yaml", NULL,
               "Compare a step with the one predicted for this job"),
    OPTION_ROW("to", 0, OPTION_OUTPUT, AT(to), "DEVICE.yaml", NULL,
               "The device file to write, whose steps take as long as here", "job"),
    OPTION_ROW("with", 0, OPTION_TEXT, AT(with), "DEVICE.yaml", NULL,
               "What --to wrote of other networks or batches on the device: fit all together",
               "to"),
    REPLACE,
    ROW_JSON,
    ROW_LAST};

static const struct option log_options[] = {
    OPTION_ROW("job", 0, OPTION_TEXT, AT(job), "JOB.yaml", NULL, "The job that ran"), ROW_JSON,
    ROW_LAST};

/* A kind of file: its function and its command. */
#define KIND(id, reader, title, of, rows, meaning, shown)                                          \
    static int run_##id(const void *record, struct text *out, struct err *err)                     \
    {                                                                                              \
        return answer(title, reader, record, out, err);                                            \
    }                                                                                              \
    static const struct command kind_##id = {                                                      \
        .name = title,                                                                             \
        .synopsis = of " [options]",                                                               \
        .help = meaning,                                                                           \
        .examples = shown,                                                                         \
        RECORD(rows, struct import_request, NULL),                                                 \
        TAKES(1, 1),                                                                               \
        ANSWERS(&import_columns),                                                                  \
        .run = run_##id,                                                                           \
    }

KIND(nccl_tests, import_draft, "nccl-tests", "FILE", nccl_options,
     "NCCL's times as all_reduce_perf measured them, text or JSON",
     "all_reduce_perf -b 8 -e 1G -f 2 -g 8 > all_reduce.txt\n"
     "foretrain import nccl-tests all_reduce.txt --to mine.yaml");

KIND(nccl_topo, import_draft, "nccl-topo", "FILE.xml", node_options,
     "a node as NCCL sees it: what NCCL_TOPO_DUMP_FILE writes",
     "NCCL_TOPO_DUMP_FILE=topo.xml all_reduce_perf -g 8\n"
     "foretrain import nccl-topo topo.xml --to mine.yaml --nodes 16");

KIND(slurm, import_draft, "slurm", "topology.conf|topology.yaml", network_options,
     "racks and tiers of a cluster from Slurm's topology",
     "foretrain import slurm /etc/slurm/topology.conf --platform dgx-a100 --to mine.yaml");

KIND(osu, import_draft, "osu", "FILE", times_options,
     "bandwidth and latency of osu_latency, osu_bw or osu_allreduce",
     "mpirun -n 2 --map-by node osu_latency > latency.txt\n"
     "foretrain import osu latency.txt --to mine.yaml");
KIND(ibnetdiscover, import_draft, "ibnetdiscover", "FILE", network_options,
     "racks and cards of an InfiniBand network",
     "ibnetdiscover > fabric.txt\n"
     "foretrain import ibnetdiscover fabric.txt --platform dgx-a100 --to mine.yaml");

KIND(hwloc, import_draft, "hwloc", "FILE.xml", node_options,
     "a node as hwloc sees it: cores, GPUs and cards",
     "lstopo --of xml > node.xml\n"
     "foretrain import hwloc node.xml --to mine.yaml --nodes 16");

KIND(trace, import_trace, "trace", "FILE.json", trace_options,
     "steps, kernels and matrix products of a PyTorch profile or our own trace",
     "foretrain import trace rank0.pt.trace.json --job job.yaml --to mine.yaml\n"
     "foretrain import trace other.json --job other.yaml --with mine.yaml --to both.yaml\n"
     "foretrain predict job.yaml --set platform.device=./both.yaml --set cluster.software=null");

KIND(log, import_log, "log", "FILE", log_options,
     "steps of a run, as Megatron-LM, NeMo, torchtitan or Composer report them",
     "foretrain import log train.log --job job.yaml");

static const struct command *const kinds[] = {&kind_nccl_tests,
                                              &kind_nccl_topo,
                                              &kind_slurm,
                                              &kind_osu,
                                              &kind_ibnetdiscover,
                                              &kind_trace,
                                              &kind_log,
                                              &kind_hwloc,
                                              &command_import_onnx,
                                              NULL};

const struct command command_import = {
    .name = "import",
    .heading = "measure",
    .help = "a platform from what other tools measured or found, or a network from ONNX",
    .sub = kinds,
};
