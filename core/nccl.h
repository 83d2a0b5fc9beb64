#pragma once

/** @file
 * NCCL's own cost model, by version: which algorithm and protocol it would choose, and how long the
 * collective takes alone on its links.
 *
 * seconds = latency + bytes / bandwidth for each (algorithm, protocol) that the version knows;
 * NCCL runs the cheapest.  Latencies are a base plus a cost per hop; bandwidth is what the rings or
 * trees of the node and of the network carry, scaled by the protocol.
 * Source: NVIDIA/nccl src/graph/tuning.cc and its history (tags 2.4.8 ... 2.30.7) for the constants
 * and the rules; nothing here was fitted to a training run.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/collective.h"

/** How the devices of a node talk. */
enum nccl_intra { NCCL_NVLINK, NCCL_PCI, NCCL_INTRA_COUNT };

/** The words of platform files, NULL-terminated: "nvlink", "pci". */
extern const char *const nccl_intra_names[];

/** What NCCL can run. */
enum nccl_algorithm {
    NCCL_RING,
    NCCL_TREE,    /**< double binary tree, from 2.4 */
    NCCL_COLLNET, /**< reduction in the switches (SHARP) */
    NCCL_NVLS,    /**< reduction in NVSwitch, from 2.19 on compute capability 9; tree or SHARP
                       between nodes */
    NCCL_ALGORITHM_COUNT
};

/** How it moves bytes. */
enum nccl_protocol { NCCL_LL, NCCL_LL128, NCCL_SIMPLE, NCCL_PROTOCOL_COUNT };

/** "ring", "tree", "collnet", "nvls". */
const char *nccl_algorithm_name(enum nccl_algorithm algorithm);

/** "LL", "LL128", "Simple". */
const char *nccl_protocol_name(enum nccl_protocol protocol);

enum {
    NCCL_VERSION_DEFAULT = 227, /**< where no software profile names one: 2.27 of 2025 */
};

/** A communicator. */
struct nccl_world {
    int32_t version;      /**< 100 * major + minor: 204 is NCCL 2.4 */
    int32_t ranks, nodes; /**< ranks is a multiple of nodes */
    enum nccl_intra intra;
    int32_t compute_capability; /**< 70, 80, 90 */
    int32_t channels;       /**< rings or trees side by side; caps LL128 and trees per channel */
    double intra_bandwidth; /**< of all rings of a node together [bytes/s] */
    double inter_bandwidth; /**< of a node's NICs together, one direction [bytes/s] */
    bool sharp;             /**< the switches can reduce */
};

/** What NCCL would do, and how long it takes. */
struct nccl_choice {
    enum nccl_algorithm algorithm;
    enum nccl_protocol protocol;
    double latency;   /**< [s] */
    double bandwidth; /**< bytes of the vector per second, after the latency */
    double seconds;   /**< latency + bytes / bandwidth */
};

/** The cheapest way to run @op on a vector of @bytes.  One rank takes no time. */
struct nccl_choice nccl_choose(const struct nccl_world *world, enum collective_op op,
                               int64_t bytes);

/** The cost of one way, or seconds = INFINITY when the version cannot do it. */
struct nccl_choice nccl_cost(const struct nccl_world *world, enum collective_op op, int64_t bytes,
                             enum nccl_algorithm algorithm, enum nccl_protocol protocol);
