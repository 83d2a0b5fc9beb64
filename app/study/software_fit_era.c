#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "app/study/software_fit.h"

/* NCCL: as shipped in that month's NGC container (recalled; 2.21 is in the logs of v4.0).
 *
 * The rest: NVIDIA's configurations in mlcommons/training_results_v0.6 ... v4.0 and those of Dell
 * and HPE: MXNET_HOROVOD_NUM_GROUPS, MXNET_EXPERIMENTAL_ENABLE_CUDA_GRAPH, MXNET_ENABLE_CUDA_GRAPHS
 * and NETWORK.  resnet-v1b-fl merges normalize, add and ReLU; -normconv-fl (v0.6, 208 images),
 * -dbar-fl (v0.7, V100, 208) and -stats-fl (A100, 408; 204 from v1.0) have statistics in the
 * convolution. Small batches train resnet-v1b-fl: 65 in v0.6; 45, 65 and 204 in v0.7; 15, 16 and
 * 128 later.
 *
 * H100 trains it with 16 and 50 images, too.  Assumed: its on-chip memory (50 MB of L2, as much in
 * the multiprocessors) then holds what batch norm reads twice, so that the memory traffic is that
 * of -mainloop-fl, which reads everything once. */
/* What overlap and launches cost NNL, whose run was on one node with 192 images, where all-reduces
 * are short.  The geometric mean of two ends, with a spread that puts 90 % between them; neither is
 * from a run on several nodes.  The runs of the other profiles are of whole nodes with their
 * all-reduces, and NVIDIA's later tables and CUDA graphs leave no launch out. */
static const char nnl_overlap[] =
    "compute_slowdown: {value: 10 %, spread: 84 %, source: \"between 2 of 80 "
    "multiprocessors, the fewest that NCCL holds (Jeaugey on github.com/NVIDIA/nccl, June 2022), "
    "and 40 %, "
    "the most measured in nodes of 4 A100, H100, MI210 or MI250, where 18.9 % is the "
    "mean (Lee et al., arXiv 2507.03114)\", kind: assumed}\n"
    "communication_slowdown: {value: 5.5 %, spread: 103 %, source: \"between 1 %, "
    "assumed where messages wait for a network card, and 30 %, as Galvatron measured "
    "inside a node (README of its overlap test)\", kind: assumed}\n"
    "collective_launch: {value: 11.5 us, spread: 34 %, source: \"between 6.6 us, "
    "NCCL's own base latency of a ring by LL (src/graph/tuning.cc), and 20 us, a "
    "launch on V100 in NVIDIA's blog (Understanding the Visualization of Overhead "
    "and Latency in NVIDIA Nsight Systems)\", kind: assumed}\n";

/* PyTorch's weights stay in fp32 under autocast, and so do the gradients that
 * DistributedDataParallel sums, in buckets of 25 MiB (pages of torch.amp and
 * DistributedDataParallel).
 *
 * v0.5 and v0.6 start all-reduces during the backward pass, whose batch norm is a persistent
 * kernel: little or nothing of them progresses before its end (groups_of() of
 * experiments/published_mlperf.py).
 */
static const struct software_era eras[] = {
    {"mlperf-v0.5", "MXNet of NGC 18.11, MLPerf Training v0.5 (2018)", 203, LAUNCH_SINGLE, 20, 20,
     false, FUSION_BN_RELU, FUSION_BN_RELU, 0, NULL, false},
    {"mlperf-v0.6", "MXNet of NGC 19.05, MLPerf Training v0.6 (2019)", 204, LAUNCH_SINGLE, 20, 16,
     false, FUSION_STATS, FUSION_BN_RELU, 128, NULL, false},
    {"mlperf-v0.7", "MXNet of NGC 20.06, MLPerf Training v0.7 (2020)", 207, LAUNCH_GRAPH, 20, 1,
     false, FUSION_STATS, FUSION_STATS, 204, NULL, false},
    {"mlperf-v1.0", "MXNet of NGC 21.05, MLPerf Training v1.0 (2021)", 209, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"mlperf-v1.1", "MXNet of NGC 21.09, MLPerf Training v1.1 (2021)", 211, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"mlperf-v2.0", "MXNet of NGC 22.04, MLPerf Training v2.0 (2022)", 212, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"mlperf-v2.1", "MXNet of NGC 22.08, MLPerf Training v2.1 (2022)", 212, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"mlperf-v3.0", "MXNet of NGC 23.04, MLPerf Training v3.0 (2023)", 217, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"mlperf-v3.1", "MXNet of NGC 23.09, MLPerf Training v3.1 (2023)", 218, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"mlperf-v4.0", "MXNet of NGC 24.04, MLPerf Training v4.0 (2024)", 221, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"pytorch", "PyTorch with mixed precision and channels last, kernel by kernel", 221,
     LAUNCH_SINGLE, 4, 4, true, FUSION_NONE, FUSION_NONE, 0, NULL, true},
    {"pytorch-nchw", "PyTorch with mixed precision in its default layout, channels first", 221,
     LAUNCH_SINGLE, 4, 4, true, FUSION_NONE, FUSION_NONE, 0, NULL, true},
    {"nnl-2018", "Sony Neural Network Libraries, mixed precision (2018)", 203, LAUNCH_SINGLE, 13,
     13, true, FUSION_BN_RELU, FUSION_BN_RELU, 0, nnl_overlap, false},
    {NULL, "as calibrated", 221, LAUNCH_SINGLE, 1, 1, false, FUSION_IDEAL, FUSION_IDEAL, 0, NULL,
     false},
};

int32_t software_small_batch(const struct software_era *era, const struct device *device)
{
    return device->compute_capability < 90 ? era->small_batch : 0;
}

static enum fusion least(enum fusion a, enum fusion b)
{
    return a < b ? a : b;
}

enum fusion software_fusion(const struct software_era *era, const struct device *device,
                            int64_t batch)
{
    enum fusion own = (enum fusion)device->fusion;
    enum fusion most =
        era->name && device->compute_capability == 70 ? era->volta : least(own, era->fusion);
    return batch <= software_small_batch(era, device) ? least(most, FUSION_BN_RELU) : most;
}

double software_round(const char *software)
{
    double round;
    int end = 0;
    bool is_round = sscanf(software, "mlperf-v%lf%n", &round, &end) == 1 && !software[end];
    return is_round ? round : NAN;
}

const struct software_era *software_era(const char *software)
{
    const struct software_era *era = eras;
    while (era->name && strcmp(era->name, software))
        era++;
    return era;
}
