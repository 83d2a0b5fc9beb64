#pragma once

/** @file
 * The network of a cluster as its file describes it, before efficiencies and counts are multiplied:
 * for building it instead of computing with it.
 */

#include <stdint.h>

#include "core/network/fabric.h"
#include "core/platform/platform.h"

enum { CABLING_DEVICE_LIMIT = 64 /**< devices of a node, at most */ };

/** One cable, in one direction. */
struct lab_cable {
    double bandwidth;  /**< [bytes/s] */
    double efficiency; /**< fraction of the bandwidth available to payload */
    double latency;    /**< [s] */
};

/** Groups of nodes of one size, which reach each other over uplinks. */
struct lab_tier {
    const char *name; /**< "rack"; borrowed from the platform */
    int32_t nodes;    /**< in one group */
    int32_t uplinks;  /**< cables of one group, treated as one pipe */
    struct lab_cable cable;
};

/** Everything between the devices of a cluster. */
struct cabling {
    const char *file, *name; /**< of the platform; borrowed from it */
    int32_t nodes, devices, nics;
    int32_t nic_of[CABLING_DEVICE_LIMIT];    /**< (devices) the card each device sends through */
    struct lab_cable nic;                    /**< from a card to its switch */
    struct lab_tier tier[FABRIC_TIER_LIMIT]; /**< (tier_count) from the bottom up */
    int32_t tier_count;
    double inside;         /**< the narrowest cable inside a node, payload only [bytes/s] */
    double inside_latency; /**< the largest of one cable inside a node [s] */
    double between;        /**< time that software adds to a message between nodes [s] */
};

/** Fill @cabling from @platform.
 * @return 0, or -1 with exit code 69: a platform that is no cluster, or of a single node. */
int cabling_read(const struct platform *platform, struct cabling *cabling, struct err *err);
