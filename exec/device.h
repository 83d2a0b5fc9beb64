#pragma once

/** @file
 * What computes: the first of the two inner interfaces of the executor (the other is exec/comm.h).
 *
 * Both share two notions.  A stream runs what is issued on it one at a time, in order of issue,
 * while the issuing thread goes on.  An event is a point on a stream: recorded on one, waited for
 * on another.  The semantics are CUDA's: a wait means the latest record issued before the wait was
 * issued, and an event never recorded does not hold anything up.
 *
 * A failure of the machine ends the process; nothing here returns an error but open.
 */

#include <stdint.h>

#include "core/err.h"
#include "core/model.h"
#include "core/schedule.h"

/** Work in order; each device defines its own. */
struct stream;

/** A point on a stream; each device defines its own. */
struct event;

/** A device with the weights, activations and gradients of one rank; each device defines its own.
 */
struct device_state;

/** What a device is opened for.  The model is borrowed until close. */
struct device_job {
    const struct model *model;
    int32_t batch;      /**< images */
    int32_t slots;      /**< input batches held at once: iteration i uses slot i % slots */
    int32_t iterations; /**< whose losses are kept */
    int32_t ranks;      /**< that gradients are summed over; the optimizer divides by it */
    uint64_t seed;      /**< of the weights: equal on all ranks */
    uint64_t data_seed; /**< of the synthetic images and labels */
    double learning_rate, momentum, weight_decay, label_smoothing;
};

/** One kind of device. */
struct device_ops {
    const char *name; /**< "cpu-naive" */

    /** Allocate and initialise.  @return 0, or -1: a network the device cannot run. */
    int (*open)(struct device_state **state, const struct device_job *job, struct err *err);
    /** Release; accepts NULL.  Nothing may be running. */
    void (*close)(struct device_state *state);

    /** A new, idle stream; released with stream_free, which finishes its work first. */
    struct stream *(*stream_new)(void);
    /** Finish the work and release. */
    void (*stream_free)(struct stream *stream);
    /** A new event; released with event_free. */
    struct event *(*event_new)(void);
    /** Release; nothing may be waiting for it. */
    void (*event_free)(struct event *event);
    /** Issue the recording of @event. */
    void (*record)(struct stream *stream, struct event *event);
    /** Let @stream wait for @event. */
    void (*wait)(struct stream *stream, struct event *event);
    /** Block the calling thread until @event has happened. */
    void (*synchronize)(struct event *event);
    /** Seconds from @from to @to, both of which have happened. */
    double (*seconds)(struct event *from, struct event *to);

    /** Issue a compute or input step of @iteration. */
    void (*issue)(struct device_state *state, struct stream *stream, const struct step *step,
                  int32_t iteration);
    /** The gradients of all parameters in the device's memory, packed as buckets are: layers from
     * last to first, in each the tensors in order.  Borrowed. */
    float *(*gradients)(struct device_state *state);
    /** Mean loss of the local batch in a finished @iteration. */
    double (*loss)(const struct device_state *state, int32_t iteration);
};
