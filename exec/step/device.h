#pragma once

/** @file
 * Computation: the first of the two inner interfaces of the executor (the other is
 * exec/step/comm.h).
 *
 * Both share two notions.  A stream runs its work one at a time, in order of issue, while the
 * issuing thread continues.  An event is a point on a stream: recorded on one, waited for on
 * another.  The semantics are CUDA's: a wait refers to the latest record issued before it, and
 * waiting for an event that was never recorded does nothing.
 *
 * Running statistics of batch norm are updated once per iteration, towards the mean of its
 * micro-batches' statistics (with BN_STATISTICS_LAST: set to it); variances are unbiased.  So k
 * micro-batches on one rank give the same as one on each of k ranks with averaged statistics.
 *
 * Where a source has no next(), a device that makes_noise trains on one batch of noise for ever.
 *
 * A failure of the machine ends the process; only open returns errors.
 */

#include "core/backend/backend.h"
#include "core/scenario/scenario.h"
#include "core/schedule/model.h"
#include "core/schedule/schedule.h"
#include "exec/input/picture/crop.h"
#include "exec/step/optimizer.h"
#include "exec/step/rate.h"

/** Work in order; each device defines its own. */
struct stream;

/** A point on a stream; each device defines its own. */
struct event;

/** The weights, activations and gradients of one rank on a device; each device defines its own.
 */
struct device_state;

/** Where batches come from. */
struct device_source {
    /** Fill @images (batch, height, width, channels), fp32 and normalised, or of sequences (batch,
     * positions) tokens, and @label (batch) with the local batch of the next iteration; blocks
     * until it is there.  Called once per iteration, in order, on the thread of the input lane. */
    void (*next)(void *context, float *images, int32_t *label);
    void *context;
    /** next() before the batch is cropped, resized, flipped and normalised by `tint`: fill
     * @pixels (batch, crop_place()), @crop (batch) and @label (batch).  Used instead of next() by
     * devices that crop, from open() to close(), on any one thread and any number of iterations
     * ahead.  NULL: the source has no pictures. */
    void (*next_pictures)(void *context, uint8_t *pixels, struct crop *crop, int32_t *label);
    struct tint tint;
};

/** The job of a device.  Pointers are borrowed until close, except `rate`. */
struct device_job {
    const struct model *model;
    const struct scenario *scenario; /**< types, label smoothing, batch norm, optimizer */
    struct device_source source;
    int32_t batch; /**< images of one iteration: micro_batches passes of batch / micro_batches */
    int32_t micro_batches;
    int32_t slots;           /**< iterations in flight: iteration i uses slot i % slots */
    int32_t ranks;           /**< over which gradients are summed */
    const struct part *part; /**< of the network that `model` is, borrowed; NULL: all of it */
    struct slice shared;     /**< this rank's part of the gradients that another stage has, too */
    int32_t flights;         /**< micro-batches whose values are kept at a time; 0 like 1 */
    bool joint_norms; /**< steps form the norm of all gradients with other stages and parts */
    int32_t rank;     /**< this one of them */
    int32_t replica;  /**< and of those that train on other data */
    /** The parts of the flat arrays that this rank updates (shards), borrowed; NULL: all. */
    const struct slice *shard;
    int32_t shards;
    bool repeats;    /**< another rank has the same shard and measures it: this one's norms are 0 */
    int64_t padded;  /**< elements of gradients(), for devices that pad; 0: only the parameters */
    void *gradients; /**< where they shall lie, for devices that pad: in the device's memory, at
                        least the parameters, and behind them as many in the type of the arithmetic
                        if there is a shard; NULL: open() allocates that, too */
    int64_t updates; /**< of the weights that the run has made before */
    int32_t threads; /**< to compute with */
    /** Of the software: CPUs have flash attention by blocks of queries. */
    enum attention attention;
    bool tunes; /**< a device that looks for its fastest kernels looks longer */
    /** Learning rate and weight decay of the iterations 0 ... rate_count - 1, the same as prepare()
     * will give; borrowed until open() returns.  A device may copy and use them; beyond them, or if
     * there are none (NULL, 0), it uses prepare()'s.  Devices on CPUs and those that rehearse
     * ignore them. */
    const struct rate *rate;
    int32_t rate_count;
    /** For a device that rehearses: the source of its steps' predicted seconds; its fabric is not
     * used. */
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
    /** When @event happened by world_now(); NULL: the device has a clock of its own. */
    double (*when)(struct event *event);
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
    /** From now on note what is issued, recorded and waited for on the streams @lane
     * (LANE_CAPTURED; NULL: it has no steps), instead of doing it, until end(); for iterations with
     * the slot of @iteration.  Only events recorded meanwhile may be waited for, and the input lane
     * is left out. */
    void (*begin)(struct device_state *state, struct stream *const *lane, int32_t iteration);
    /** See begin(). */
    void (*end)(struct device_state *state, struct stream *const *lane, int32_t iteration);
};

/** One kind of device. */
struct device_ops {
    const char *name; /**< "cpu-naive" */
    /** Steps take the time of job.run, and nothing is computed: there are no weights, no images are
     * read, and losses and scores are 0. */
    bool rehearses;
    /** gradients() are numbers of the type in which they travel (scenario model.gradients); else
     * fp32. */
    bool exchanges_payload;
    /** gradients() has job.padded elements and begins on 256 bytes.  The elements after the
     * parameters' are 0, and stay 0 when collectives average them. */
    bool pads;
    /** Makes batches of noise itself if its source has no next(), so that synthetic data is not
     * read. */
    bool makes_noise;
    /** Uses pictures if the source has them. */
    bool crops;

    /** Allocate; the weights are those of the last write().
     * @return 0, or -1 (exit code 69): a network or type the device cannot run. */
    int (*open)(struct device_state **state, const struct device_job *job, struct err *err);
    /** Bytes that open() would allocate for libraries and for work within a step, beyond those of
     * core/schedule/memory.h; nothing is allocated.  Source, slots and run of @job are ignored.
     * NULL: not known.
     * @return 0, or -1 as open(). */
    int (*workspace)(const struct device_job *job, int64_t *bytes, struct err *err);
    /** Release; accepts NULL.  Nothing may be running. */
    void (*close)(struct device_state *state);

    const struct stream_ops *streams;
    const struct capture_ops *capture; /**< NULL: every iteration is issued step by step */
    const struct measure_ops
        *measure; /**< NULL: nobody else can have the device, or it cannot tell */

    /** Set the optimizer's numbers for @iteration, before its steps are issued.  Learning rate and
     * weight decay equal job.rate[@iteration] if there is one. */
    void (*prepare)(struct device_state *state, int32_t iteration, const struct update *update);
    /** Issue a compute or input step of @iteration. */
    void (*issue)(struct device_state *state, struct stream *stream, const struct step *step,
                  int32_t iteration);
    /** The gradients of all parameters in the device's memory, packed as exec/step/layout.h says,
     * and the job's padding; after the last micro-batch the sum over the local batch's
     * micro-batches of their mean's gradient.  Borrowed. */
    void *(*gradients)(struct device_state *state);
    /** Issue what follows the collective @step of gradients in @slice of gradients(): where each
     * micro-batch scatters its own, those that other ranks keep are 0 from now on, as the next one
     * adds to them.  Before and after CONTENT_BLOCKS: bring gradients to what is summed, with an
     * empty slice, and back.  May be NULL: nothing follows. */
    void (*settle)(struct device_state *state, struct stream *stream, const struct step *step,
                   struct slice slice);
    /** What collectives of @content sum or gather: all parameters, packed like gradients(), as fp32
     * or, of a device that exchanges_payload, in the type of the arithmetic; or the norms of a
     * ROLE_NORMS step (iteration_norms(), then iteration_vectors()), or the steps of a ROLE_MOMENTS
     * step (optimizer_begin()), as fp32. */
    void *(*shared)(struct device_state *state, enum collective_content content);
    /** What @step, which moves activations, moves: the value of its layer and micro-batch, or the
     * gradient of that; for micro-batch -1 the gradient of the weights, or, where it @receives, a
     * place for that of another stage, which the optimizer adds.  Of what stages send, norms, too;
     * or what CONTENT_BLOCKS sums.
     * fp32; NULL: the device runs no part of a network. */
    void *(*activation)(struct device_state *state, const struct step *step, bool receives);
    /** Bytes that the compute step @step moves between kernels and the device's memory, each array
     * once per kernel that reads or writes it, as this device was opened.  NULL: not known. */
    int64_t (*moved)(const struct device_state *state, const struct step *step);
    /** The result of a finished @iteration, one of the last `slots`. */
    struct outcome (*outcome)(const struct device_state *state, int32_t iteration);

    /** Issue the forward pass in inference (running statistics) of @count images (at most batch /
     * micro_batches) into @scores (count, target_count(), classes), before softmax; both must live
     * until it is done.  Nothing else may be in flight. */
    void (*score)(struct device_state *state, struct stream *stream, const float *images,
                  int32_t count, float *scores);
    /** Copy the trained state from the device into arrays of the caller; members that are NULL, and
     * rank_statistics, are left out.  Of a sharded momentum the parts of other ranks are anything;
     * where parameters are gathered in a narrower type than fp32, theirs are rounded to it.
     * Nothing may be running. */
    void (*read)(const struct device_state *state, const struct weights *weights);
    /** Copy it into the device; members that are NULL do not change.  Nothing may be running. */
    void (*write)(struct device_state *state, const struct weights *weights);
    /** Bring the flat array @from (layout.parameters) from torchvision's order within tensors to
     * the device's, in which shards are cut, or @back.  NULL: it is the same. */
    void (*turn)(const struct device_state *state, bool back, const float *from, float *to);
};
