#pragma once

/** @file
 * The only place that walks a schedule for real.
 *
 * For each step in order: wait on the events of its dependencies, issue it on its lane's stream,
 * record an event before and after.  The streams do the rest, so the order of execution is the
 * schedule's and nobody else's.  Issuing runs ahead: up to walk_depth() iterations are in flight.
 */

#include "core/backend/trace.h"
#include "core/schedule/schedule.h"
#include "exec/step/comm.h"
#include "exec/step/device.h"
#include "exec/step/packing.h"

/** Who walks what, and on which hardware.  All pointers are borrowed. */
struct walk {
    const struct schedule *schedule; /**< sealed */
    int32_t rank;                    /**< place in the schedule's grid */
    enum dtype payload;              /**< in which gradients travel: that of the buckets' bytes */
    const struct device_ops *device_ops;
    struct device_state *device;
    const struct comm_ops *comm_ops;
    struct comm_state *comm;
    const struct packing *packing; /**< of the schedule's buckets: where each lies in gradients();
                                        all three unused on a grid of one rank */
    /** Iterations from the first whose steps are issued one by one, and can be traced; what follows
     * is launched whole where the device can (device_ops.launch). */
    int32_t single;
};

/** A schedule being walked. */
struct walker;

/** When the steps of one iteration ran, in seconds since walker_new(). */
struct walk_times {
    double begin, end;   /**< of its first and last compute step */
    double input_wait_s; /**< the compute lane waited for the batch */
    /** The compute lane waited for all-reduces before the optimizer; of an iteration launched
     * whole: in the last one that was not. */
    double exposed_comm_s;
    double trace_cost_s; /**< it took to append spans to a trace */
};

/** Iterations that may be in flight at once: one more than the longest distance of a dependency,
 * and at least 2 so that issuing runs ahead of execution. */
int32_t walk_depth(const struct schedule *schedule);

/** Make streams and events.  The schedule has a step of every role.  @walk is copied; what it
 * points to is borrowed until walker_free(). */
struct walker *walker_new(const struct walk *walk);

/** Release; accepts NULL.  Every iteration was finished. */
void walker_free(struct walker *walker);

/** When walker_new() was, by world_now(), known to @error seconds. */
double walker_origin(const struct walker *walker, double *error);

/** The stream of the compute lane, for work between iterations. */
struct stream *walker_stream(struct walker *walker);

/** Issue all steps of the next @iteration (0, 1, ...; at most walk_depth() ahead of the last one
 * finished), which is number @step of the training run. */
void walker_issue(struct walker *walker, int32_t iteration, int64_t step);

/** What step @step of @iteration took the compute lane, from the end of the lane's step before it
 * (its own beginning, of the first): by the clock, and that a processor was had for it, which is
 * the same where the device cannot tell.  The iteration is finished, and its place not issued
 * again; it was not launched whole. */
struct walk_step {
    double seconds, busy;
};

/** See struct walk_step.  A step of the compute lane. */
struct walk_step walker_step(const struct walker *walker, int32_t iteration, int32_t step);

/** Wait until @iteration, the oldest in flight, is over.  With @trace, append one span per step,
 * of iteration trace->iterations, in seconds since walker_new().
 * @return when it ran. */
struct walk_times walker_finish(struct walker *walker, int32_t iteration, struct trace *trace);
