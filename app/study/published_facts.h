#pragma once

/** @file
 * Facts missing in a row of published runs: how nodes of a kind are usually built.
 *
 * They are used only for empty cells, and always marked as assumed.
 */

#include <stdbool.h>
#include <stdint.h>

#include "app/study/published.h"

/** How the devices of one node reach each other and the network. */
struct published_node {
    const char *link;       /**< "NVLink3", "PCIe4" */
    double intra_bandwidth; /**< of one device, both directions together [bytes/s] */
    int32_t nics;           /**< per node; 0: not known */
    double nic_bandwidth;   /**< of one, one direction [bytes/s] */
    bool assumed_link;      /**< the row does not say */
    bool assumed_nics;      /**< the row does not say */
};

/** One generation of a link as NCCL sees it. */
struct published_link {
    const char *name;  /**< "NVLink3" */
    bool nvlink;       /**< else PCIe */
    double efficiency; /**< payload over the data sheet's bandwidth */
    double bandwidth;  /**< of PCIe x16, one direction [bytes/s]; 0 for NVLink */
    const char *pcie;  /**< the PCIe generation of such devices; its own name for PCIe */
    const char *source;
};

/** The node of @row: its cells, else usual values.  @return 0, or -1 with a message that names the
 * missing fact. */
int published_node(struct published_node *node, const struct published_row *row, struct err *err);

/** The device file of @row, by family, form and the memory in the system's name; the caller frees
 * it.  @return the name, or NULL with a message: no device of that family. */
char *published_device(const struct published_row *row, struct err *err);

/** The software profile of @row's round, or of the nearest earlier one; static. */
const char *published_software(const struct published_row *row);

/** The link called @name, or NULL. */
const struct published_link *published_link(const char *name);

/** Limit of a node's NIC bandwidth for messages of devices [bytes/s], or INFINITY.
 *
 * With fewer NICs than devices, the NICs are connected to the CPUs, not to the devices' switches,
 * except in DGX-1 and DGX-2 (rounds before v1.0).  NCCL uses GPUDirect RDMA only within a PCIe
 * switch, so messages are staged in host memory, and messages of the other socket cross the link
 * between the sockets.  Source: NCCL src/graph/paths.cc, ncclTopoCheckGdr(): netGdrLevel =
 * PATH_PXB; src/graph/topo.h: AMD_BW 16 GB/s between sockets. */
double published_staging(const struct published_row *row, const struct published_node *node);

/** Channels NCCL opens on such a node. */
int32_t published_channels(const struct published_row *row, const struct published_link *link);

/** Total bandwidth of NCCL's rings in such a node [bytes/s].  A ring over PCIe crosses the link
 * between the sockets once in each direction. */
double published_ring_bandwidth(const struct published_node *node,
                                const struct published_link *link);

/** Whether NVIDIA submitted @row, alone or with a partner (NVIDIA_...). */
bool published_by_nvidia(const struct published_row *row);

/** Whether the switches of @nodes nodes reduced (SHARP). */
bool published_sharp(const struct published_row *row, int32_t nodes);

/** Whether that is a guess: no configuration is known that says it. */
bool published_sharp_is_open(const struct published_row *row, int32_t nodes);

/** The number after "v": 0.6 for "v0.6"; NAN when @round is not of that form. */
double published_round(const char *round);
