#pragma once

/** @file
 * What is asked of a job beyond its scenario.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/collective/grid.h"

/** What the command line asks for beyond the scenario.  Start from {0}: nothing. */
struct wish {
    int64_t nodes, devices_per_node; /**< instead of the scenario's cluster; 0: that */
    bool real; /**< the ranks are processes: neither size nor parts of the platform bind them */
    enum rank_order order;
    bool ignore_memory;    /**< batches may be larger than a device's memory holds */
    struct memory *memory; /**< of who asks again; borrowed; NULL: none */
};
