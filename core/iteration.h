#pragma once

/** @file
 * From a network and a scenario to the schedule of one training iteration.
 */

#include "core/bucket.h"
#include "core/scenario.h"
#include "core/schedule.h"

/** What an iteration looks like. */
struct iteration {
    const struct model *model;       /**< borrowed */
    const struct scenario *scenario; /**< borrowed: precision, optimizer, all-reduce, input */
    enum fusion fusion;              /**< of the device's software */
    struct grid grid;
    int32_t devices_per_node;        /**< for hierarchical all-reduce */
    int64_t batch;                   /**< images per rank */
};

/** Build and seal: input (prefetched), forward, loss, backward from last to first layer, an
 * all-reduce per bucket (as soon as it is full, or all after backward), optimizer.
 * @return the schedule; never fails for a checked scenario. */
struct schedule *iteration_build(const struct iteration *iteration);

/** Only the forward pass of @batch images, for evaluation; sealed. */
struct schedule *iteration_build_forward(const struct iteration *iteration);

/** Only one all-reduce of @bytes; sealed.  NULL with a message when the algorithm cannot run on
 * the grid. */
struct schedule *iteration_build_all_reduce(enum algorithm algorithm, struct grid grid,
                                            int32_t devices_per_node, int64_t bytes,
                                            struct err *err);
