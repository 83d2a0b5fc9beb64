#pragma once

/** @file
 * NCCL's own cost model, by version: which algorithm and protocol it would choose, and how long the
 * collective takes alone on its links.
 *
 * seconds = latency + bytes / bandwidth for each (algorithm, protocol) that the version knows; NCCL
 * runs the cheapest.  Latencies are a base plus a cost per hop; bandwidth is that of the rings or
 * trees of the node and of the network, scaled by the protocol.
 *
 * Source: NVIDIA/nccl, src/graph/tuning.cc at tags v2.5.7-1 to v2.28.9-1 (all numbers of nccl.c
 * without another source), search.cc for what two nodes and NVLS can use, and ncclTreeThreshold()
 * in src/init.cc at v2.4.8-1.  Nothing here was fitted to a training run.
 *
 * Different from NCCL, on purpose:
 *   - NCCL searches rings and trees in the topology; here the platform gives their bandwidth, of
 *     which the links of a device bound what counts;
 *   - the correction of tree bandwidth by size is interpolated between its powers of two, where
 *     NCCL's steps would let a larger vector take less time;
 *   - 2.3 has no model: rings only, with the times of 2.4 (it has no choice of protocols);
 *   - LL's limit and the network's overhead depend on the processors: AMD's with compute capability
 *     80 (DGX A100), else Intel's;
 *   - NVLS is included from 2.18 on, its trees between nodes from 2.19 on;
 *   - NCCL takes the network for one switch without limits; here its rings and trees are routes
 *     over the uplinks of groups of nodes, which carry every ring once each way, every edge of a
 *     tree once each way with half the vector, and with SHARP, which adds in the switches, the
 *     vector once each way.  Source of the trees: src/graph/trees.cc, ncclGetDtree().  Where a
 *     route takes one of several uplinks, the busiest one counts; with SHARP they are loaded
 *     evenly.
 */

#include "core/collective/collective.h"

/** Between two sockets of AMD's processors [bytes/s], also for messages that pass through host
 * memory, without GPUDirect RDMA.  Source: NCCL 2.18 src/graph/topo.h: AMD_BW. */
#define NCCL_SOCKETS_BANDWIDTH 16e9

/** How the devices of a node communicate. */
enum nccl_intra { NCCL_NVLINK, NCCL_PCI, NCCL_INTRA_COUNT };

/** The words of platform files, NULL-terminated: "nvlink", "pci". */
extern const char *const nccl_intra_names[];

/** What NCCL can run. */
enum nccl_algorithm {
    NCCL_RING,
    NCCL_TREE,    /**< double binary tree, from 2.4 */
    NCCL_COLLNET, /**< reduction in the switches (SHARP) */
    NCCL_NVLS,    /**< reduction in NVSwitch, on compute capability 90; a tree or SHARP between
                       nodes */
    NCCL_ALGORITHM_COUNT
};

/** How it moves bytes. */
enum nccl_protocol { NCCL_LL, NCCL_LL128, NCCL_SIMPLE, NCCL_PROTOCOL_COUNT };

/** "ring", "tree", "collnet", "nvls". */
const char *nccl_algorithm_name(enum nccl_algorithm algorithm);

/** The protocols, NULL-terminated: "LL", "LL128", "Simple". */
extern const char *const nccl_protocol_names[];

/** One of nccl_protocol_names. */
const char *nccl_protocol_name(enum nccl_protocol protocol);

enum {
    NCCL_VERSION_DEFAULT = 227, /**< where no software profile names one: 2.27 of 2025 */
    NCCL_LEVEL_LIMIT = 16,
};

/** Groups of nodes behind shared uplinks.  The lowest level is the node with its cards. */
struct nccl_level {
    int32_t nodes;    /**< in one group; 1: a node */
    int32_t groups;   /**< runs of neighbouring nodes in one group; 1: nothing passes the uplinks */
    double bandwidth; /**< of one group's uplinks together, each way [bytes/s]; of a node INFINITY,
                           as inter_bandwidth says it */
    double latency;   /**< of a message that leaves the group and enters the next [s] */
    double ring_passes; /**< how often the vector passes the uplinks of one group in a turn of the
                             rings, at most; more where uplinks are loaded unevenly */
    double tree_passes; /**< the same each way for both trees together, an edge counts half */
};

/** What a measurement showed of messages whose bytes take @transfer at the model's bandwidth. */
struct nccl_correction {
    int32_t protocol; /**< enum nccl_protocol */
    double transfer;  /**< [s] */
    double factor;    /**< the time measured over the model's */
};

/** A communicator.  Every node has the same number of ranks. */
struct nccl_world {
    int32_t version;      /**< 100 * major + minor: 204 is NCCL 2.4; the first known is 203 */
    int32_t ranks, nodes; /**< ranks is a multiple of nodes */
    enum nccl_intra intra;
    int32_t compute_capability; /**< 70, 80, 90; the same for all */
    bool nvswitch;              /**< the devices of a node meet in switches that can reduce */
    bool sharp;                 /**< so do the nodes */
    int32_t channels;           /**< rings or trees side by side in one node */
    int32_t inter_channels;     /**< between nodes: one per network card that can be kept busy */
    double intra_bandwidth;     /**< of all rings of a node together [bytes/s] */
    double inter_bandwidth;     /**< of a node's network cards together, one direction [bytes/s] */

    /* What the fabric does to the messages; NCCL does not know it when it chooses. */
    double inside_latency; /**< of a message between neighbours in a node [s] */
    int32_t level_count;   /**< 0: no bound */
    struct nccl_level level[NCCL_LEVEL_LIMIT];

    /* Measurements, which NCCL does not know either: each protocol's times are multiplied by the
     * factor between the two rows that are nearest, as the logarithm of the transfer goes. */
    const struct nccl_correction *correction; /**< (correction_count) borrowed, in any order */
    int32_t correction_count;
};

/** A communicator of ranks of @world that lies in its nodes like @part, beside which the others
 * have theirs: they share cards and uplinks evenly.  Inside of a node each has the bandwidth of
 * all, as switches give it. */
struct nccl_world nccl_part(const struct nccl_world *world, struct grid_nodes part);

/** Add a level above those there are, with groups and passes of nodes that stand in order and
 * uplinks that are loaded evenly.  There are at most NCCL_LEVEL_LIMIT. */
void nccl_add_level(struct nccl_world *world, int32_t nodes, double bandwidth, double latency);

/** What NCCL would do, and how long it takes. */
struct nccl_choice {
    enum nccl_algorithm algorithm;
    enum nccl_protocol protocol;
    double latency;   /**< [s] */
    double bandwidth; /**< bytes of the vector per second, after the latency */
    double seconds;   /**< latency + bytes / bandwidth */
};

/** The way that NCCL would choose to run @op on a vector of @bytes, with nccl_cost() in the fabric.
 * With one rank it takes no time. */
struct nccl_choice nccl_choose(const struct nccl_world *world, enum collective_op op,
                               int64_t bytes);

/** The cost of one way; seconds = INFINITY when the version does not support it.  Where the fabric
 * is slower than NCCL's tables it counts instead: each hop takes at least the latency of its route,
 * and the bytes take at least their time over the uplinks of one group.  Corrections are last. */
struct nccl_choice nccl_cost(const struct nccl_world *world, enum collective_op op, int64_t bytes,
                             enum nccl_algorithm algorithm, enum nccl_protocol protocol);
