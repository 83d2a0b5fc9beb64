#include "app/study/published_facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/network/nccl.h"

/* Usual values for a device family and a number of devices in a node; 0 devices: any number. */
static const struct usual {
    const char *family;
    bool pcie;
    int32_t devices;
    const char *link;
    double gigabytes; /* per s and device, both directions */
    int32_t nics;     /* 0: too different from node to node */
    double gigabits;  /* per s and NIC */
} usual_nodes[] = {
    {"V100", false, 16, "NVLink2", 300, 8, 100}, /* DGX-2 */
    {"V100", false, 8, "NVLink2", 300, 4, 100},  /* DGX-1 */
    {"V100", false, 4, "NVLink2", 300, 2, 100},  /* ABCI */
    {"V100", true, 0, "PCIe3", 32, 1, 100},
    {"V100S", true, 0, "PCIe3", 32, 1, 100},
    {"P100", false, 8, "NVLink1", 160, 4, 100}, /* DGX-1 */
    {"A100", false, 8, "NVLink3", 600, 8, 200}, /* DGX A100 */
    {"A100", false, 4, "NVLink3", 600, 2, 200}, /* Dell XE8545 */
    {"A100", true, 0, "PCIe4", 64, 1, 100},     /* Dell R750xa */
    {"A30", true, 0, "PCIe4", 64, 1, 100},
    {"H100", false, 8, "NVLink4", 900, 8, 400}, /* DGX H100 */
    {"H100", false, 4, "NVLink4", 900, 4, 400}, /* Dell XE8640 */
    {"H100", true, 0, "PCIe5", 128, 1, 200},
    {"H200", false, 8, "NVLink4", 900, 8, 400},
    {"L40S", true, 0, "PCIe4", 64, 2, 200},
    {"L40", true, 0, "PCIe4", 64, 1, 200},
    {"A40", true, 0, "PCIe4", 64, 0, 0},
    {"A10G", true, 0, "PCIe4", 64, 0, 0},
    {"A5000", true, 0, "PCIe4", 64, 0, 0},
    {"L4", true, 0, "PCIe4", 64, 0, 0},
    {"RTX4090", true, 0, "PCIe4", 64, 0, 0},
};

/* Efficiencies: NCCL's figure over the data sheet's figure of the same link. */
static const struct published_link links[] = {
    {"NVLink1", true, 0.90, 0, "PCIe3", "NCCL 2.5.7 src/graph/topo.h: 18 GB/s of 20"},
    {"NVLink2", true, 0.84, 0, "PCIe3", "NCCL 2.5.7 src/graph/topo.h: 21 GB/s of 25"},
    {"NVLink3", true, 0.80, 0, "PCIe4", "NCCL 2.18 src/graph/topo.h: SM80_NVLINK_BW 20 GB/s of 25"},
    {"NVLink4", true, 0.824, 0, "PCIe5",
     "NCCL 2.18 src/graph/topo.h: SM90_NVLINK_BW 20.6 GB/s of 25"},
    {"PCIe3", false, 0.75, 16e9, "PCIe3", "NCCL 2.18 src/graph/topo.h: PCI_BW 12 GB/s of 16"},
    {"PCIe4", false, 0.75, 32e9, "PCIe4",
     "NCCL 2.18 src/graph/topo.h: PCI_BW 12 GB/s of 16, per generation"},
    {"PCIe5", false, 0.75, 64e9, "PCIe5",
     "NCCL 2.18 src/graph/topo.h: PCI_BW 12 GB/s of 16, per generation"},
};

const struct published_link *published_link(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(links); i++)
        if (!strcasecmp(links[i].name, name))
            return &links[i];
    return NULL;
}

double published_round(const char *round)
{
    char *end;
    double number = *round == 'v' ? strtod(round + 1, &end) : NAN;
    return *round == 'v' && end > round + 1 && !*end ? number : NAN;
}

static const struct usual *find_usual(const struct published_row *row)
{
    bool pcie = !strcasecmp(row->form, "PCIe");
    for (size_t i = 0; i < ARRAY_SIZE(usual_nodes); i++) {
        const struct usual *usual = &usual_nodes[i];
        if (!strcmp(usual->family, row->family) && usual->pcie == pcie &&
            (!usual->devices || usual->devices == (int32_t)row->per_node))
            return usual;
    }
    return NULL;
}

static int missing(const struct published_row *row, const char *what, const char *column,
                   struct err *err)
{
    return err_add(err,
                   "%s: the row does not give %s (%s), and there is no usual value for %g %s %s",
                   row->system, what, column, row->per_node, row->family, row->form);
}

static int set_link(struct published_node *node, const struct published_row *row, struct err *err)
{
    const struct usual *usual = find_usual(row);
    const struct published_link *known = published_link(row->intra_link);
    if (*row->intra_link && !known)
        return err_add(err, "%s: intra_link '%s' is not known", row->system, row->intra_link);
    node->assumed_link = !known || isnan(row->intra_bandwidth);
    if (node->assumed_link && !usual)
        return missing(row, "how devices of a node are connected", "intra_link, intra_GBps", err);
    node->link = known ? known->name : usual->link;
    node->intra_bandwidth = 1e9 * (node->assumed_link ? usual->gigabytes : row->intra_bandwidth);
    return 0;
}

static int set_nics(struct published_node *node, const struct published_row *row, struct err *err)
{
    const struct usual *usual = find_usual(row);
    double nics = row->nics, each = row->nic_bandwidth;
    if (!(nics > 0) && each > 0 && row->node_bandwidth > 0)
        nics = fmax(1, round(row->node_bandwidth / each));
    if (!(nics > 0) && row->node_bandwidth > 0)
        nics = 1;
    if (!(each > 0) && nics > 0)
        each = row->node_bandwidth / nics;
    node->assumed_nics = !(nics > 0 && each > 0);
    if (node->assumed_nics && (!usual || !usual->nics))
        return missing(row, "how a node reaches the network", "nics_per_node, nic_Gbps", err);
    node->nics = node->assumed_nics ? usual->nics : (int32_t)nics;
    node->nic_bandwidth = 1e9 / 8 * (node->assumed_nics ? usual->gigabits : each);
    return 0;
}

int published_node(struct published_node *node, const struct published_row *row, struct err *err)
{
    *node = (struct published_node){0};
    if (row->per_node > 1 && set_link(node, row, err))
        return -1;
    return row->nodes > 1 ? set_nics(node, row, err) : 0;
}

double published_staging(const struct published_row *row, const struct published_node *node)
{
    bool apart = published_round(row->round) >= 1.0 && node->nics < (int32_t)row->per_node;
    return apart ? NCCL_SOCKETS_BANDWIDTH : INFINITY;
}

int32_t published_channels(const struct published_row *row, const struct published_link *link)
{
    if (!link->nvlink)
        return 2;
    if (!strcmp(link->name, "NVLink4"))
        return 16;
    if (!strcmp(link->name, "NVLink3"))
        return 24;
    return row->per_node >= 8 ? 12 : 8;
}

/* Over PCIe a ring crosses the link between the sockets once each way.  Source: NCCL 2.18
 * src/graph/topo.h, SKL_QPI_BW and, for Sapphire Rapids, which came with PCIe 5, SRP_QPI_BW. */
double published_ring_bandwidth(const struct published_node *node,
                                const struct published_link *link)
{
    double socket = strcmp(link->name, "PCIe5") ? 10e9 : 22e9;
    double port = node->intra_bandwidth / 2 * link->efficiency;
    return link->nvlink ? port : fmin(port, socket);
}

static bool on_infiniband(const struct published_row *row, int32_t nodes)
{
    return nodes > 1 && (strcasestr(row->fabric, "infiniband") || !*row->fabric);
}

bool published_by_nvidia(const struct published_row *row)
{
    return !strncasecmp(row->submitter, "NVIDIA", 6);
}

/* Configurations with SHARP.  Source: the published configurations and logs of MLPerf Training:
 * NVIDIA v3.0 n64, n96, n448; v3.1 n8; v4.0 n316, and not v3.0 n8; Azure v2.0 n8.  NVIDIA's of v1.0
 * to v2.0 ask Slurm for the network's SHARP but set no NCCL_COLLNET_ENABLE, which is off by
 * default. */
bool published_sharp(const struct published_row *row, int32_t nodes)
{
    double round = published_round(row->round);
    if (!on_infiniband(row, nodes))
        return false;
    if (!strcasecmp(row->submitter, "Azure"))
        return round >= 2.0;
    return published_by_nvidia(row) && nodes >= (round >= 3.1 ? 8 : 64) && round >= 3.0;
}

bool published_sharp_is_open(const struct published_row *row, int32_t nodes)
{
    double round = published_round(row->round);
    bool known = published_by_nvidia(row) ? round <= 2.0 || round >= 3.0
                                          : !strcasecmp(row->submitter, "Azure") && round >= 2.0;
    return on_infiniband(row, nodes) && round >= 1.0 && !known;
}

/* By family, form, what the system's name contains and the round, before which no larger memory was
 * sold; the first that fits. */
static const struct rule {
    const char *family, *form, *contains;
    double before; /* round; 0: any */
    const char *device;
} rules[] = {
    {"V100", "PCIe", "", 0, "v100-pcie-16gb"},
    {"V100", "", "dgx2h", 0, "v100-sxm3-32gb-450w"},
    {"V100", "", "dgx2", 0, "v100-sxm3-32gb"},
    {"V100", "", "", 0, "v100-sxm2-16gb"},
    {"V100S", "", "", 0, "v100s-pcie-32gb"},
    {"A100", "PCIe", "80GB", 0, "a100-pcie-80gb"},
    {"A100", "PCIe", "40GB", 0, "a100-pcie-40gb"},
    {"A100", "PCIe", "", 1.1, "a100-pcie-40gb"},
    {"A100", "PCIe", "", 0, "a100-pcie-80gb"},
    {"A100", "", "80GB", 0, "a100-sxm4-80gb"},
    {"A100", "", "40GB", 0, "a100-sxm4-40gb"},
    {"A100", "", "", 1.0, "a100-sxm4-40gb"},
    {"A100", "", "", 0, "a100-sxm4-80gb"},
    {"A30", "", "", 0, "a30"},
    {"H100", "PCIe", "", 0, "h100-pcie-80gb"},
    {"H100", "", "", 0, "h100-sxm5-80gb"},
    {"H200", "", "", 0, "h200-sxm-141gb"},
    {"L40S", "", "", 0, "l40s"},
    {"L40", "", "", 0, "l40"},
    {"L4", "", "", 0, "l4"},
    {"A40", "", "", 0, "a40"},
    {"A10G", "", "", 0, "a10g"},
    {"A5000", "", "", 0, "a5000"},
    {"RTX4090", "", "", 0, "rtx-4090"},
    {"P100", "", "", 0, "p100-sxm2-16gb"},
    {"P40", "", "", 0, "p40"},
};

char *published_device(const struct published_row *row, struct err *err)
{
    double round = published_round(row->round);
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        if (!strcasecmp(rules[i].family, row->family) &&
            (!*rules[i].form || !strcasecmp(row->form, rules[i].form)) &&
            strcasestr(row->system, rules[i].contains) &&
            (rules[i].before == 0 || round < rules[i].before))
            return base_copy(rules[i].device);
    err_add(err, "%s: there is no device of acc_family '%s', form '%s'", row->system, row->family,
            row->form);
    return NULL;
}

const char *published_software(const struct published_row *row)
{
    static const struct {
        double round;
        const char *name;
    } profiles[] = {
        {4.0, "mlperf-v4.0"}, {3.1, "mlperf-v3.1"}, {3.0, "mlperf-v3.0"}, {2.1, "mlperf-v2.1"},
        {2.0, "mlperf-v2.0"}, {1.1, "mlperf-v1.1"}, {1.0, "mlperf-v1.0"}, {0.7, "mlperf-v0.7"},
        {0.6, "mlperf-v0.6"}, {0, "mlperf-v0.5"},
    };
    size_t i = 0;
    while (published_round(row->round) < profiles[i].round)
        i++;
    return profiles[i].name;
}
