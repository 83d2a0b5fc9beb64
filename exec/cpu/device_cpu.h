#pragma once

/** @file
 * What the devices on CPUs share: weights, iterations in flight, and the way of a step from its
 * issue to the layer's pass; inside exec/cpu/device_*.c alone.
 */

#include "exec/cpu/sequence.h"
#include "exec/step/device.h"
#include "exec/step/graph.h"

/** Copies run on the thread of a stream of its own, and count by the time it had a processor. */
extern const struct measure_ops cpu_measure_ops;

/** What each device computes in its own way.  Called on the thread of the compute stream. */
struct cpu_passes {
    /** Layer @index forward; @micro of -1 is inference. */
    void (*forward)(struct device_state *state, int32_t index, const float *images, int32_t micro);
    /** Its gradient of the input, and whatever else is no filter. */
    void (*data)(struct device_state *state, int32_t index, const float *images, int32_t micro);
    /** Its gradient of the parameters. */
    void (*filter)(struct device_state *state, int32_t index, const float *images, int32_t micro);
    /** Products of matrices in layers that all devices compute alike (exec/cpu/sequence.h). */
    multiplier *multiply;
    bool blocks; /**< attention is computed by blocks of queries where the software's is flash */
};

/** A layer's value, as those layers see it. */
struct cpu_value {
    float *y, *dy; /**< (micro-batch, out) and its gradient; set by the device */
    float *saved;  /**< (micro-batch, sequence_saved()), or NULL */
};

/** The first member of each device's struct device_state. */
struct cpu_device {
    struct device_job job;
    const struct cpu_passes *passes;
    struct layout layout;
    struct graph graph;
    struct slice *own;           /**< (owns) of the flat arrays what this rank updates */
    int32_t owns, vectors;       /**< and of those the first that all ranks update alike */
    int32_t sharding;            /**< its stage: see job.shard; 0: none */
    struct optimizer *optimizer; /**< of these */
    struct optimizer *measurer;  /**< of the shard, where `own` is more; else NULL */
    float *parameter, *gradient; /**< (layout.parameters), where sharded without the pages of what
                                      others keep, but while it is computed with or sent */
    float *momentum;             /**< (own), first and second moments */
    float *master;               /**< (own), where parameters are gathered in 16 bits; else NULL */
    float *norms;                /**< (stages), the sums of a shard over that of the own stage */
    float *joined;               /**< (stages) norms of all, which the last stage sends back */
    float joint;                 /**< their sum */
    float *steps;                /**< of LAMB in parts or shards: see optimizer_begin() */
    float *statistics;           /**< (layout.statistic_count) running */
    float *raw;                  /**< (batch, height, width, channels) as read */
    float *sums;                 /**< (flights, parts, rows, LOSS_SUMS) of words that ranks share */
    float *room;                 /**< of attention by blocks; set by the device */
    float *blocks;               /**< gradients of blocks that ranks sum, or NULL */
    float *received;             /**< gradient of weights that another stage shares, or NULL */
    struct cpu_value *value;     /**< (flights, layers) */
    int32_t *target;             /**< (micro, target_count()) */
    struct cpu_slot *slot;       /**< (slots) */
    int64_t version;             /**< of the weights */
    int64_t step;                /**< updates before the iteration that is computed */
    struct {
        enum compute_op op;
        int32_t layer, micro;
    } last;        /**< that ran */
    bool planes;   /**< the first layer reads images (channels, height, width); set by the device */
    int32_t micro; /**< images of a micro-batch */
    int32_t flights; /**< micro-batches whose values are kept at a time */
};

/** What belongs to one iteration in flight. */
struct cpu_slot {
    float *images;  /**< (batch, in) as the first layer reads them */
    int32_t *label; /**< (batch) */
    struct update update;
    struct outcome outcome;
};

/** Prepare @device for @job.  Its arrays of floats come from @alloc, zeros of at least @count that
 * the caller releases; y and dy of `value` stay NULL.  Release with cpu_device_release(). */
void cpu_device_init(struct cpu_device *device, const struct device_job *job,
                     const struct cpu_passes *passes, float *(*alloc)(void *context, int64_t count),
                     void *context);

/** Once y and dy of the first `layers` values are set: make those of further micro-batches, and
 * what other ranks write while this one computes. */
void cpu_device_complete(struct cpu_device *device, float *(*alloc)(void *context, int64_t count),
                         void *context);

/** Layer @index, which sequence_takes(), at work on micro-batch @micro of @images; -1: in
 * inference. Without gradients of inputs and parameters. */
struct sequence cpu_device_sequence(struct cpu_device *device, int32_t index, const float *images,
                                    int32_t micro);

/** Release all but the arrays of floats. */
void cpu_device_release(struct cpu_device *device);

/** Move the running mean and variance of @channel of batch norm @index towards those of micro-batch
 * @micro: its mean and biased variance over @samples. */
void cpu_device_track(struct cpu_device *device, int32_t index, int32_t micro, int64_t samples,
                      int64_t channel, double mean, double variance);

/** See device_ops.prepare. */
void cpu_device_prepare(struct device_state *state, int32_t iteration, const struct update *update);

/** See device_ops.issue. */
void cpu_device_issue(struct device_state *state, struct stream *stream, const struct step *step,
                      int32_t iteration);

/** See device_ops.gradients. */
void *cpu_device_gradients(struct device_state *state);

/** See device_ops.settle. */
void cpu_device_settle(struct device_state *state, struct stream *stream, const struct step *step,
                       struct slice slice);

/** See device_ops.shared. */
void *cpu_device_shared(struct device_state *state, enum collective_content content);

/** See device_ops.activation. */
void *cpu_device_activation(struct device_state *state, const struct step *step, bool receives);

/** See device_ops.outcome. */
struct outcome cpu_device_outcome(const struct device_state *state, int32_t iteration);

/** See device_ops.score. */
void cpu_device_score(struct device_state *state, struct stream *stream, const float *images,
                      int32_t count, float *scores);

/** See device_ops.read. */
void cpu_device_read(const struct device_state *state, const struct weights *weights);

/** See device_ops.write. */
void cpu_device_write(struct device_state *state, const struct weights *weights);

/** What is the same in the device_ops of both devices. */
#define CPU_DEVICE_OPS                                                                             \
    .streams = &cpu_stream_ops, .measure = &cpu_measure_ops, .prepare = cpu_device_prepare,        \
    .issue = cpu_device_issue, .gradients = cpu_device_gradients, .settle = cpu_device_settle,     \
    .shared = cpu_device_shared, .activation = cpu_device_activation,                              \
    .outcome = cpu_device_outcome, .score = cpu_device_score, .read = cpu_device_read,             \
    .write = cpu_device_write
