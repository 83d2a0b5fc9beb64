#pragma once

/** @file
 * The only place that walks a schedule for real.
 *
 * For each step in order: wait on the events of its dependencies, issue it on its lane's stream,
 * record an event before and after.  The streams do the rest, so the order of execution is the
 * schedule's and nobody else's.
 */

#include "core/schedule.h"
#include "core/trace.h"
#include "exec/comm.h"
#include "exec/device.h"

/** Who walks what, and on which hardware.  All pointers are borrowed. */
struct walk {
    const struct schedule *schedule; /**< sealed, gradients in fp32 */
    int32_t rank;                    /**< place in the schedule's grid */
    int32_t iterations;
    const struct device_ops *device_ops;
    struct device_state *device;
    const struct comm_ops *comm_ops;
    struct comm_state *comm;
};

/** Iterations that may be in flight at once: one more than the longest distance of a dependency,
 * and at least 2 so that issuing runs ahead of execution. */
int32_t walk_depth(const struct schedule *schedule);

/** Gradients that the buckets of one iteration exchange: whole fp32 numbers in each. */
int64_t walk_exchanged(const struct schedule *schedule);

/** Run all iterations; append one span per step and iteration to @trace, in seconds since the call.
 * Call it on all ranks together. */
void walk_run(const struct walk *walk, struct trace *trace);
