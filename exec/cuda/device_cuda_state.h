#pragma once

/** @file
 * A network in the memory of a GPU; inside exec/cuda/device_cuda*.c alone.
 */

#include "exec/cuda/conv/conv.h"
#include "exec/cuda/device_cuda.h"
#include "exec/cuda/kernels/kernels.h"
#include "exec/cuda/pictures/feed.h"
#include "exec/step/backward_plan.h"
#include "exec/step/graph.h"

/** Everything that belongs to one layer, in the device's memory unless said otherwise.  Channels
 * are those of its value, padded. */
struct cuda_place {
    int32_t channels;
    int64_t rows;        /**< of its value: micro-batch * height * width */
    void *y;             /**< (rows, channels) its value; NULL: it is written with another's */
    void *given[2], *dx; /**< as struct backward_plan says */
    uint32_t *mask;      /**< of its ReLU; NULL: none */
    uint8_t *winner;     /**< (rows, channels) of a max pool */
    float *statistics;   /**< (2, channels) of batch norm: mean, 1 / deviation of the batch */
    float *factors;      /**< (2, channels) of batch norm: scale and shift of the forward pass */
    float *running;      /**< (2, channels) of batch norm: mean, variance */
    float *vector;       /**< bias, or scale and shift (2, channels) */
    bool copied;         /**< vector is a copy, padded or aligned to 16 bytes, not a part of the
                              masters */
    int32_t tensor;      /**< its first in the model; -1: it has none */
    void *working;       /**< weights as convolutions read them */
    const struct conv_plan *plan[CONV_OP_COUNT]; /**< of a convolution or linear layer */
};

/** The data of an iteration besides images: one copy in, one copy out. */
struct words {
    struct kernel_update update;
    struct kernel_outcome outcome;
};

/** What belongs to one iteration in flight. */
struct cuda_slot {
    void *images;   /**< (batch, height, width, channels) */
    int32_t *label; /**< (batch) */
    struct words *words;
    struct words *prepared; /**< in the host's memory, pinned; its outcome is 0 */
    struct words *result;   /**< the same: words written by the iteration */
    cudaGraphExec_t graph;  /**< NULL: not captured yet */
};

/** Gradients of vectors, partial sums and so on; used by one step at a time. */
struct scratch {
    float *partial;  /**< (KERNEL_PARTIALS, 2, channels) */
    float *factors;  /**< (3, channels) of batch norm's backward */
    float *gradient; /**< (2, channels) of batch norm, or of a bias */
    void *dw;        /**< padded gradient of a convolution's weights */
    float *losses;   /**< (micro-batch) */
    float *scores;   /**< (micro-batch, classes) */
    void *workspace; /**< of convolutions */
};

/** See exec/step/device.h. */
struct device_state {
    struct device_job job;
    struct layout layout;
    struct graph graph;
    struct backward_plan plan;
    struct conv_library *library;
    enum dtype type, gradient_type;
    float share;              /**< what gradients are multiplied by before ranks add them */
    int32_t micro;            /**< images of a micro-batch */
    int32_t image;            /**< padded channels of images */
    int64_t pixels;           /**< of an image */
    size_t workspace;         /**< bytes */
    char *memory;             /**< the one allocation */
    struct cuda_place *place; /**< (layers) */
    struct cuda_slot *slot;   /**< (slots) */
    void *scored;             /**< images of score() */
    struct feed *feed;        /**< pictures of the source; NULL: it has none */
    float *raw;               /**< images as written by the source or score() */
    float *pinned;            /**< the source's in the host's memory */
    int32_t *pinned_label;    /**< (batch) */
    void *gradient;           /**< (layout.parameters, then padding) of gradient_type */
    void *copy;    /**< of a shard: (layout.parameters, then padding) parameters of `type` as ranks
                        gather them; in fp32 the masters.  NULL: there is none */
    char *working; /**< padded copies of weights of `type` */
    int64_t vectors;            /**< of a shard, if `copy` is of 16 bits: elements of masters and
                                   momentum before its own, of what every rank updates */
    struct kernel_chunk *chunk; /**< (parameters.chunks) in the host's memory */
    int64_t chunk_capacity;
    float *sum;                   /**< (layout.parameters) over micro-batches; NULL: there is one */
    struct kernel_tensor *tensor; /**< (tensors) in the host's memory */
    struct kernel_parameters parameters;
    struct scratch scratch;
    struct stream *stream;                    /**< for work between iterations */
    struct event *fork, *join[LANE_CAPTURED]; /**< of a capture */
};

/** Padded number of channels. */
static inline int32_t cuda_state_pad(int32_t channels)
{
    return (channels + KERNEL_CHANNELS - 1) / KERNEL_CHANNELS * KERNEL_CHANNELS;
}

/* ---- made and released, device_cuda_build.c ---- */

/** Converted to the type of the device, for the uploaded table and for single steps. */
struct kernel_rate cuda_state_rate(double learning_rate, double weight_decay);

/** Allocate, and find the plans of convolutions, kept in the file @cache (conv_open()).
 * @return 0, or -1 (exit code 69): a layer that cuDNN cannot run, or too little memory.  Either way
 * cuda_state_release(). */
int cuda_state_init(struct device_state *state, const struct device_job *job, const char *cache,
                    struct err *err);

/** Release; @state is zero, or cuda_state_init() was called. */
void cuda_state_release(struct device_state *state);

/* ---- weights, device_cuda_weights.c ---- */

/** Where each tensor lies: fill state->tensor and state->chunk. */
void cuda_state_place_tensors(struct device_state *state);

/** Where a convolution may write the gradient of weights @tensor itself: its place in the flat
 * gradients, where that has the type, the shape and the alignment of cuDNN's, and nothing is added
 * to it or multiplied.  NULL: kernel_pack() brings it there. */
void *cuda_state_direct(const struct device_state *state, const struct kernel_tensor *tensor);

/** Whether convolutions read weights @tensor where ranks gather them, without a padded copy. */
bool cuda_state_straight(const struct device_state *state, const struct kernel_tensor *tensor);

/** The place of vector @tensor in the masters. */
int64_t cuda_state_master(const struct device_state *state, const struct kernel_tensor *tensor);

/** Elements of the masters, or of the momentum. */
int64_t cuda_state_elements(const struct device_state *state, bool momentum);

/** Elements of the buffer of working copies. */
int64_t cuda_state_working_elements(const struct device_state *state);

/** Copy @size bytes at @from to the device and wait until they are there.  cudaMemcpy() from
 * pageable memory only waits until they are on their way, on a stream that ours do not wait for. */
void cuda_state_upload(const struct device_state *state, const void *to, const void *from,
                       size_t size);

/** Upload what kernel_optimizer() walks over. */
void cuda_state_upload_tensors(struct device_state *state);

/** Issue the update of the copies of the masters: padded copies of biases and of batch norm's
 * parameters and, with @working, of weights. */
void cuda_state_refresh(struct device_state *state, cudaStream_t stream, bool working);

/** Of a shard: issue the same for layer @index, whose parameters were gathered. */
void cuda_state_receive(struct device_state *state, cudaStream_t stream, int32_t index);

/** See device_ops. */
void cuda_state_turn(const struct device_state *state, bool back, const float *from, float *to);

/** See device_ops. */
void cuda_state_read(const struct device_state *state, const struct weights *weights);

/** See device_ops. */
void cuda_state_write(struct device_state *state, const struct weights *weights);
