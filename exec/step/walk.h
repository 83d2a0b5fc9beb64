#pragma once

/** @file
 * The only place that runs a schedule for real.
 *
 * For each step in order: wait on the events of its dependencies, issue it on its lane's stream,
 * record an event before and after.  The streams do the rest, so the order of execution is that of
 * the schedule.  Steps are issued ahead: up to walk_depth() iterations are in flight.
 */

#include "core/backend/trace.h"
#include "core/schedule/schedule.h"
#include "exec/step/comm.h"
#include "exec/step/device.h"

/** A schedule, and the device and transport that run it.  All pointers are borrowed. */
struct walk {
    const struct schedule *schedule; /**< sealed */
    int32_t rank;                    /**< place in the schedule's grid */
    enum dtype payload;              /**< type of exchanged gradients: that of the buckets' bytes */
    enum dtype gathered; /**< type of gathered parameters and of activations, the same */
    const struct device_ops *device_ops;
    struct device_state *device;
    const struct comm_ops *comm_ops;
    struct comm_state *comm;
    const struct packing *packing; /**< the place of each bucket of the schedule in gradients(); all
                                        three are unused on a grid of one rank */
    struct slice shared;           /**< see device_job */
    /** The number of first iterations with steps that are issued one by one, and can be traced;
     * later ones are launched whole if the device supports it (device_ops.launch). */
    int32_t single;
};

/** A schedule being walked. */
struct walker;

/** Times of one iteration, in seconds since walker_new(). */
struct walk_times {
    double begin, end;   /**< of its first and last compute step */
    double input_wait_s; /**< the compute lane waited for the batch */
    /** The compute lane waited for all-reduces before the optimizer, and for parameters of a
     * sharded one; if launched whole: the value of the last iteration that was not. */
    double exposed_communication_s;
    double trace_cost_s; /**< time to append spans to a trace */
};

/** Iterations that may be in flight at once: one more than the longest distance of a dependency,
 * and at least 2 so that issuing runs ahead of execution. */
int32_t walk_depth(const struct schedule *schedule);

/** Make streams and events.  The schedule must have a step of every role.  @walk is copied; its
 * pointers are borrowed until walker_free(). */
struct walker *walker_new(const struct walk *walk);

/** Release; accepts NULL. Every iteration must be finished. */
void walker_free(struct walker *walker);

/** The time of walker_new() by world_now(), accurate to @error seconds. */
double walker_origin(const struct walker *walker, double *error);

/** The stream of the compute lane, for work between iterations. */
struct stream *walker_stream(struct walker *walker);

/** Issue all steps of the next @iteration (0, 1, ...; at most walk_depth() ahead of the last one
 * finished), which is number @step of the training run. */
void walker_issue(struct walker *walker, int32_t iteration, int64_t step);

/** With nothing in flight: gather the parameters that other ranks have updated, of a schedule with
 * a sharded optimizer, whose iterations begin with that; of another do nothing.  All ranks call it
 * together, at step @number of the training run. */
void walker_gather(struct walker *walker, int64_t number);

/** Time of step @step of @iteration on the compute lane, from the end of the lane's previous step
 * (for the first, from its own beginning): wall time, and CPU time, which equals wall time if the
 * device does not know it.  The iteration must be finished, its slot not reused, and it must not
 * have been launched whole. */
struct walk_step {
    double seconds, busy;
};

/** See struct walk_step.  A step of the compute lane. */
struct walk_step walker_step(const struct walker *walker, int32_t iteration, int32_t step);

/** Wait for the end of @iteration, the oldest in flight.  With @trace, append one span per step, of
 * iteration trace->iterations, in seconds since walker_new().  @return its times. */
struct walk_times walker_finish(struct walker *walker, int32_t iteration, struct trace *trace);
