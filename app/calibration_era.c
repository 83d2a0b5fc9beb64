#include <stddef.h>
#include <string.h>

#include "app/calibration.h"

/* NCCL: as shipped in that month's NGC container (recalled; 2.21 is in the logs of v4.0).  Groups
 * and graphs: MXNET_HOROVOD_NUM_GROUPS and the graph settings of NVIDIA's configurations.  Fusion:
 * the network's name there, normalize-add kernels until v0.7, -stats-fl from v1.0. */
static const struct software_era eras[] = {
    {"mlperf-v0.5", "MXNet of NGC 18.11, MLPerf Training v0.5 (2018)", 203, LAUNCH_SINGLE, 20, 20,
     true, FUSION_BN_RELU},
    {"mlperf-v0.6", "MXNet of NGC 19.05, MLPerf Training v0.6 (2019)", 204, LAUNCH_SINGLE, 20, 16,
     true, FUSION_BN_RELU},
    {"mlperf-v0.7", "MXNet of NGC 20.06, MLPerf Training v0.7 (2020)", 207, LAUNCH_SINGLE, 20, 1,
     false, FUSION_BN_RELU},
    {"mlperf-v1.0", "MXNet of NGC 21.05, MLPerf Training v1.0 (2021)", 209, LAUNCH_GRAPH, 1, 1,
     false, FUSION_IDEAL},
    {"mlperf-v1.1", "MXNet of NGC 21.09, MLPerf Training v1.1 (2021)", 211, LAUNCH_GRAPH, 1, 1,
     false, FUSION_IDEAL},
    {"mlperf-v2.0", "MXNet of NGC 22.04, MLPerf Training v2.0 (2022)", 212, LAUNCH_GRAPH, 1, 1,
     false, FUSION_IDEAL},
    {"mlperf-v2.1", "MXNet of NGC 22.08, MLPerf Training v2.1 (2022)", 212, LAUNCH_GRAPH, 1, 1,
     false, FUSION_IDEAL},
    {"mlperf-v3.0", "MXNet of NGC 23.04, MLPerf Training v3.0 (2023)", 217, LAUNCH_GRAPH, 1, 1,
     false, FUSION_IDEAL},
    {"mlperf-v3.1", "MXNet of NGC 23.09, MLPerf Training v3.1 (2023)", 218, LAUNCH_GRAPH, 1, 1,
     false, FUSION_IDEAL},
    {"mlperf-v4.0", "MXNet of NGC 24.04, MLPerf Training v4.0 (2024)", 221, LAUNCH_GRAPH, 1, 1,
     false, FUSION_IDEAL},
    {"pytorch", "PyTorch with mixed precision and channels last, kernel by kernel", 221,
     LAUNCH_SINGLE, 4, 4, true, FUSION_NONE},
    {"nnl-2018", "Sony Neural Network Libraries, mixed precision (2018)", 203, LAUNCH_SINGLE, 13,
     13, true, FUSION_BN_RELU},
    {NULL, "as calibrated", 221, LAUNCH_SINGLE, 1, 1, false, FUSION_IDEAL},
};

const struct software_era *software_era(const char *software)
{
    const struct software_era *era = eras;
    while (era->name && strcmp(era->name, software))
        era++;
    return era;
}
