#pragma once

/** @file
 * What computes: the first of the two inner interfaces of the executor (the other is
 * exec/step/comm.h).
 *
 * Both share two notions.  A stream runs what is issued on it one at a time, in order of issue,
 * while the issuing thread goes on.  An event is a point on a stream: recorded on one, waited for
 * on another.  The semantics are CUDA's: a wait means the latest record issued before the wait was
 * issued, and an event never recorded does not hold anything up.
 *
 * Running statistics of batch norm move once per iteration, towards the mean of its micro-batches'
 * statistics (with BN_STATISTICS_LAST: they become it); variances are unbiased.  So k micro-batches
 * on one rank and one on each of k ranks whose statistics are then averaged come to the same.
 *
 * Where a source has no next(), a device that makes_noise trains on one batch of noise for ever.
 *
 * A failure of the machine ends the process; nothing here returns an error but open.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/backend/backend.h"
#include "core/base/err.h"
#include "core/scenario/scenario.h"
#include "core/schedule/model.h"
#include "core/schedule/schedule.h"
#include "exec/input/crop.h"
#include "exec/step/layout.h"
#include "exec/step/optimizer.h"
#include "exec/step/rate.h"

/** Work in order; each device defines its own. */
struct stream;

/** A point on a stream; each device defines its own. */
struct event;

/** A device with the weights, activations and gradients of one rank; each device defines its own.
 */
struct device_state;

/** Where batches come from. */
struct device_source {
    /** Fill @images (batch, height, width, channels), fp32 and normalised, and @label (batch) with
     * the local batch of the next iteration; blocks until it is there.  Called once per iteration,
     * in order, on the thread of the input lane. */
    void (*next)(void *context, float *images, int32_t *label);
    void *context;
    /** The same local batch before it is cropped, resized, flipped and normalised by `tint`: fill
     * @pixels (batch, crop_place()), @crop (batch) and @label (batch).  Used instead of next() by
     * devices that crop, from open() to close(), on any one thread and ahead of the iterations as
     * they like.  NULL: the source has no pictures. */
    void (*next_pictures)(void *context, uint8_t *pixels, struct crop *crop, int32_t *label);
    /** Whether next_pictures() may leave files to be decoded. */
    bool files;
    /** The file at @place of the batch that next_pictures() gave last cannot be decoded by the
     * device: fill @pixels (crop_place()), @crop and @label with its pixels, or with those of the
     * image that stands in for it.  Called on the thread of next_pictures(). */
    void (*decode)(void *context, int32_t place, uint8_t *pixels, struct crop *crop,
                   int32_t *label);
    struct tint tint;
};

/** What a device is opened for.  Pointers are borrowed until close, but `rate`. */
struct device_job {
    const struct model *model;
    const struct scenario *scenario; /**< types, label smoothing, batch norm, optimizer */
    struct device_source source;
    int32_t batch; /**< images of one iteration: micro_batches passes of batch / micro_batches */
    int32_t micro_batches;
    int32_t slots;   /**< iterations in flight: iteration i uses slot i % slots */
    int32_t ranks;   /**< that gradients are summed over; 1: they are averaged on the way */
    int32_t rank;    /**< this one of them */
    int64_t padded;  /**< elements of gradients(), for devices that pad; 0: the parameters alone */
    int32_t threads; /**< to compute with */
    /** Learning rate and weight decay of the iterations 0 ... rate_count - 1, the numbers that
     * prepare() will say; borrowed until open() returns.  A device may keep them and look there;
     * beyond them, or where there are none (NULL, 0), it takes prepare()'s.  Devices on CPUs and
     * those that rehearse do not look here. */
    const struct rate *rate;
    int32_t rate_count;
    /** For a device that rehearses: whose predicted seconds its steps take; its fabric is not
     * looked at. */
    const struct run *run;
    double time_scale; /**< factor on them */
};

/** Streams and events of one kind of device. */
struct stream_ops {
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
};

/** What a device tells of itself where others may have it meanwhile. */
struct measure_ops {
    /** Of the seconds from @from to @to those that the stream which recorded both had a processor:
     * less where others had it meanwhile. */
    double (*busy)(struct event *from, struct event *to);
    /** Seconds in which its computing thread copies @bytes (at least 1) from one place of the
     * device's memory to another, both of them touched before; the quickest of several. */
    double (*copy)(int64_t bytes);
};

/** Iterations that are noted once and then issued whole. */
struct capture_ops {
    /** Issue all steps of @iteration but its input on @compute at once, as begin() has noted them
     * for its slot.  @return false when nothing was noted yet. */
    bool (*launch)(struct device_state *state, struct stream *compute, int32_t iteration);
    /** From now on note what is issued, recorded and waited for on the streams @lane (LANE_COUNT),
     * instead of doing it, until end(); for iterations with the slot of @iteration.  Only
     * events recorded meanwhile may be waited for, and the input lane is left out. */
    void (*begin)(struct device_state *state, struct stream *const *lane, int32_t iteration);
    /** See begin(). */
    void (*end)(struct device_state *state, struct stream *const *lane, int32_t iteration);
};

/** One kind of device. */
struct device_ops {
    const char *name; /**< "cpu-naive" */
    /** Steps take the time of job.run, and nothing is computed: there are no weights, source is not
     * asked for images, and losses and scores are 0. */
    bool rehearses;
    /** gradients() are numbers of the type in which they travel (scenario model.gradients); else
     * fp32. */
    bool exchanges_payload;
    /** gradients() has job.padded elements and begins on 256 bytes.  What lies behind the
     * parameters' is 0, and stays 0 when collectives take means of it. */
    bool pads;
    /** Makes batches of noise itself when its source has no next(); so for synthetic data nothing
     * is read. */
    bool makes_noise;
    /** Takes pictures where the source has them, and decodes their files. */
    bool crops;

    /** Allocate; the weights are those of the last write().
     * @return 0, or -1 (exit code 69): a network or type the device cannot run. */
    int (*open)(struct device_state **state, const struct device_job *job, struct err *err);
    /** What open() would allocate for libraries and for work within a step [bytes], beside what
     * core/schedule/memory.h counts; nothing is allocated.  Of @job, source, slots and run do not
     * matter. NULL: the device cannot tell.
     * @return 0, or -1 as open(). */
    int (*workspace)(const struct device_job *job, int64_t *bytes, struct err *err);
    /** Release; accepts NULL.  Nothing may be running. */
    void (*close)(struct device_state *state);

    const struct stream_ops *streams;
    const struct capture_ops *capture; /**< NULL: every iteration is issued step by step */
    const struct measure_ops
        *measure; /**< NULL: nobody else can have the device, or it cannot tell */

    /** Say what the optimizer of @iteration does; before its steps are issued.  Learning rate and
     * weight decay are job.rate[@iteration] where there is one. */
    void (*prepare)(struct device_state *state, int32_t iteration, const struct update *update);
    /** Issue a compute or input step of @iteration. */
    void (*issue)(struct device_state *state, struct stream *stream, const struct step *step,
                  int32_t iteration);
    /** The gradients of all parameters in the device's memory, packed as exec/step/layout.h says,
     * and the job's padding; after the last micro-batch the sum over the local batch's
     * micro-batches of their mean's gradient.  Borrowed. */
    void *(*gradients)(struct device_state *state);
    /** What came of a finished @iteration, one of the last `slots`. */
    struct outcome (*outcome)(const struct device_state *state, int32_t iteration);

    /** Issue the forward pass in inference (running statistics) of @count images (at most batch /
     * micro_batches) into @scores (count, classes), before softmax; both must live until it is
     * done.  Nothing else may be in flight. */
    void (*score)(struct device_state *state, struct stream *stream, const float *images,
                  int32_t count, float *scores);
    /** Copy what training has changed out of the device, into arrays of the caller; members that
     * are NULL, and rank_statistics, are left out.  Nothing may be running. */
    void (*read)(const struct device_state *state, const struct weights *weights);
    /** Copy it into the device; members that are NULL are left as they are.  Nothing may be
     * running. */
    void (*write)(struct device_state *state, const struct weights *weights);
};
