#pragma once

/** @file
 * Our own CUDA kernels, as C calls, for operations that no library does well.
 *
 * Activations are NHWC, seen as @rows (batch * height * width) of @channels; @channels is always a
 * multiple of KERNEL_CHANNELS (the device pads), so rows start on 16 bytes in every type.  All
 * pointers are to device memory unless said otherwise.  `type` is that of activations; per-channel
 * numbers, losses and weights' masters are fp32.  Sums are formed in a fixed order: the same input
 * gives the same bits.  No kernel waits for another block, so none can stall beside NCCL.
 *
 * Bit masks hold one bit per element, in the elements' order: bit i % 32 of word i / 32 is 1 where
 * the ReLU let element i pass.
 *
 * Calls only launch; cudaGetLastError() reports an invalid launch.
 */

#include <cuda_runtime_api.h>

#include "core/schedule/model.h"
#include "exec/input/picture/crop.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KERNEL_CHANNELS = 8,  /**< channel counts are multiples of it */
    KERNEL_IMAGES = 4,    /**< channels that images may have instead */
    KERNEL_PARTIALS = 512 /**< maximum number of partial sums per channel, of kernel_sums() and
                               others */
};

/* ---- images ---- */

/** Convert fp32 images (@pixels_count, @from channels) to @type with @to channels, a multiple of
 * KERNEL_CHANNELS or KERNEL_IMAGES; new ones 0. */
void kernel_images(cudaStream_t stream, enum dtype type, int64_t pixels_count, int32_t from,
                   const float *images, int32_t to, void *out);

/** Crop, resize (as exec/input/picture/picture.h: bilinear, with wider triangles where a picture is
 * made smaller), flip and normalise @batch decoded pictures to (@batch, @size, @size, @to) in
 * @type; @to as above.  Picture i begins at @pixels + i * @place; these and @crop (@batch) are in
 * device memory. */
void kernel_augment(cudaStream_t stream, enum dtype type, int32_t batch, int32_t size, int32_t to,
                    const uint8_t *pixels, int64_t place, const struct crop *crop,
                    const struct tint *tint, void *out);

/* ---- batch norm ---- */

/** Running statistics of batch norm and their update. */
struct kernel_running {
    float *mean, *variance; /**< (channels) */
    float keep, take;       /**< new = keep * old + take * batch's; variance unbiased */
};

/** Partial sums of x and of x * x per channel: @partial (KERNEL_PARTIALS, 2, @channels), of which
 * the first ones are written.
 * @return how many partial sums each channel has (host). */
int32_t kernel_sums(cudaStream_t stream, enum dtype type, int64_t rows, int32_t channels,
                    const void *x, float *partial);

/** Finish batch norm's statistics of @rows rows from @partial (@count, 2, channels) of
 * kernel_sums().
 * @param parameter scale (channels), then shift (channels).
 * @param statistics written: mean (channels), then 1 / deviation (channels).
 * @param factors written: so that y = x * factors[c] + factors[channels + c]. */
void kernel_statistics(cudaStream_t stream, int64_t rows, int32_t channels, double epsilon,
                       int32_t count, const float *partial, const float *parameter,
                       struct kernel_running running, float *statistics, float *factors);

/** @factors of batch norm in inference, from running statistics. */
void kernel_inference(cudaStream_t stream, int32_t channels, double epsilon, const float *parameter,
                      const float *mean, const float *variance, float *factors);

/** y = x * scale + shift per channel (@scale NULL: 1, for a bias); then, with @residual, add it
 * (first multiplied and shifted by @residual_factors if not NULL: for a projection whose batch norm
 * has no pass of its own); then, with @mask, ReLU, and write the mask.  With @mask NULL and @relu
 * 1: ReLU without a mask.  @y may be @x. */
void kernel_apply(cudaStream_t stream, enum dtype type, int64_t rows, int32_t channels,
                  const void *x, const float *scale, const float *shift, const void *residual,
                  const float *residual_factors, int32_t relu, uint32_t *mask, void *y);

/** First pass of batch norm's backward.  @dy, plus @more where not NULL, is cut by @mask where not
 * NULL, rounded to @type, and written to @dz where not NULL (may be @dy or @more: the gradient for
 * the residual branch). Partial sums of it, and of it * normalised x, per channel: @partial as
 * kernel_sums().
 * @return as kernel_sums(). */
int32_t kernel_backward_sums(cudaStream_t stream, enum dtype type, int64_t rows, int32_t channels,
                             const void *dy, const void *more, const uint32_t *mask, const void *x,
                             const float *statistics, void *dz, float *partial);

/** Gradients of scale and shift from the partial sums.
 * @param gradient written: of scale (channels), then of shift (channels), fp32.
 * @param factors written (3, channels): dx = factors[0] * dz + factors[1] * x + factors[2]. */
void kernel_backward_factors(cudaStream_t stream, int64_t rows, int32_t channels, int32_t count,
                             const float *partial, const float *parameter, const float *statistics,
                             float *gradient, float *factors);

/** Gradients of a batch norm's scale and shift on their way to the flat array, as kernel_pack()
 * brings others there: too few for a launch of their own. */
struct kernel_packed {
    const float *from; /**< (2, channels) fp32; NULL: there are none */
    int32_t count;     /**< channels without padding */
    int32_t first;
    float *sum; /**< (2, count) */
    float share;
    enum dtype type;
    void *gradient; /**< (2, count) */
};

/** Second pass: dx = factors[0] * dz + factors[1] * x + factors[2], with @dz cut by @mask first (so
 * the first pass need not write the masked gradient).  @dx may be @dz. */
void kernel_backward_apply(cudaStream_t stream, enum dtype type, int64_t rows, int32_t channels,
                           const void *dz, const uint32_t *mask, const void *x,
                           const float *factors, void *dx, struct kernel_packed packed);

/* ---- pointwise, pools, loss ---- */

/** dz = (dy + more) where @mask is 1, else 0; @more and @mask may be NULL, @dz may be @dy. */
void kernel_mask(cudaStream_t stream, enum dtype type, int64_t elements, const void *dy,
                 const void *more, const uint32_t *mask, void *dz);

/** Sums of @dy over rows: @gradient (channels), fp32; @partial is scratch, as of kernel_sums(). */
void kernel_bias_backward(cudaStream_t stream, enum dtype type, int64_t rows, int32_t channels,
                          const void *dy, float *partial, float *gradient);

/** A pool as @layer says (core/schedule/model.h; average pools are adaptive), on @channels padded
 * ones; maximum pools write @winner (batch, out height, out width, channels): the place in the
 * window, row by row, of the first maximum. */
void kernel_pool(cudaStream_t stream, enum dtype type, const struct layer *layer, int32_t batch,
                 int32_t channels, const void *x, uint8_t *winner, void *y);

/** dx of a pool.  Each element is gathered, not scattered: no atomics. */
void kernel_pool_backward(cudaStream_t stream, enum dtype type, const struct layer *layer,
                          int32_t batch, int32_t channels, const uint8_t *winner, const void *dy,
                          void *dx);

/** Mean cross-entropy of softmax of the first @classes of @channels channels of @x (batch,
 * channels), smoothed; *@loss += it * @share.  @dx (batch, channels) = its gradient * *@scale,
 * padded channels 0.  @scale and @loss in device memory; @losses (batch) is written: the loss of
 * each image. */
void kernel_loss(cudaStream_t stream, enum dtype type, int32_t batch, int32_t classes,
                 int32_t channels, const void *x, const int32_t *label, double smoothing,
                 const float *scale, float share, float *losses, float *loss, void *dx);

/** The first @classes of @channels channels of @x (batch, channels) as fp32 (batch, classes). */
void kernel_scores(cudaStream_t stream, enum dtype type, int32_t batch, int32_t classes,
                   int32_t channels, const void *x, float *scores);

/* ---- gradients and weights ---- */

/** The layout of one weight tensor in a padded buffer (out, taps, in) and in the flat one. */
struct kernel_tensor {
    int64_t offset;        /**< in the flat arrays, in elements */
    int64_t padded;        /**< offset of its working copy, in elements of the working buffer; a
                              multiple of KERNEL_CHANNELS, as padded_in is.  Of what does not work:
                              its place in the masters of a shard */
    int32_t out, taps, in; /**< without padding: (out channels, height * width, in channels) */
    int32_t padded_in;     /**< channels of the working copy; rows of `out` beyond are 0 */
    int32_t decays;        /**< 1: a weight: weight decay and LARS apply */
    int32_t works; /**< 1: has a 16-bit working copy; 0: batch norm and biases, used as fp32 */
};

/** Pack a gradient: @dw (out, taps, padded_in), of @dw_type, without its padding.  *@sum (flat,
 * fp32, NULL: none) is written with @first, else added to; @gradient (flat, of @type, NULL: none)
 * gets the result times @share.  Both are of the tensor, not of the whole array. */
void kernel_pack(cudaStream_t stream, const struct kernel_tensor *tensor, enum dtype dw_type,
                 const void *dw, int32_t first, float *sum, float share, enum dtype type,
                 void *gradient);

/** Learning rate and weight decay of one optimizer step. */
struct kernel_rate {
    float learning_rate, weight_decay;
};

/** Input of an optimizer step, in device memory, so that captured graphs serve all iterations. */
struct kernel_update {
    int32_t iteration;       /**< index of its rate in kernel_parameters.rate */
    struct kernel_rate rate; /**< for an iteration beyond that table */
    float loss_scale;
    float scale; /**< of gradients: 1 / (ranks * micro-batches * loss_scale), and 1 / share if
                    kernel_pack() had one */
};

/** Its result, in device memory. */
struct kernel_outcome {
    float loss;       /**< as kernel_loss() left it */
    float norm;       /**< of the scaled gradient; infinite or NaN: an overflow, nothing changed */
    int32_t overflow; /**< 1: nothing changed */
    struct kernel_rate rate; /**< of this iteration, also where nothing changed */
};

/** The optimizer's constants (exec/step/optimizer.h). */
struct kernel_rule {
    int32_t lars, nesterov;
    float momentum, trust;
};

enum {
    KERNEL_CHUNK = 4096 /**< elements of one chunk of a tensor */
};

/** A chunk of a tensor: blocks of the optimizer's kernels work on one each. */
struct kernel_chunk {
    int32_t tensor, elements;    /**< at most KERNEL_CHUNK, never of two tensors */
    int64_t offset;              /**< in the flat gradients */
    int64_t parameter, momentum; /**< in those arrays */
    int32_t own; /**< 1: its squares count on this rank; 0: another rank counts them */
};

/** All data of the optimizer's kernels; arrays in device memory. */
struct kernel_parameters {
    const struct kernel_tensor *tensor; /**< (tensors) */
    const struct kernel_chunk *chunk;   /**< (chunks) tensor by tensor */
    const int32_t *first_chunk;         /**< (tensors + 1) */
    int32_t tensors, chunks;
    enum dtype gradient_type, working_type;
    const void *gradient;        /**< (flat) */
    float *parameter, *momentum; /**< fp32, where chunks say */
    float *shared; /**< of a shard: sums of squares over all ranks, as iteration_norms() says; NULL:
                      there is none */
    float *summed; /**< the gradients of what does not work, as shared, from chunk.parameter on;
                      NULL: they are in @gradient */
    void *working; /**< padded copies of weights */
    double *norms; /**< (2, chunks) scratch: of weights and of gradients, squared */
    float *trust;  /**< (tensors) scratch: trust ratios */
    const struct kernel_rate *rate; /**< (rate_count) the schedule: of iterations from 0 on */
    int32_t rate_count;             /**< 0: there is none */
};

/** Fill `shared`, and `summed` with gradients, from the chunks that are this rank's own; what
 * others have is 0.  Their sums over all ranks go to kernel_optimizer(). */
void kernel_measure(cudaStream_t stream, const struct kernel_parameters *parameters,
                    struct kernel_rule rule, const struct kernel_update *update);

/** The whole step in three launches: squared norms per chunk, unless they are `shared`; the rate of
 * the iteration, the trust ratio per tensor, and any overflow (@outcome); update of masters,
 * momentum and working copies.  As exec/step/optimizer.h says. */
void kernel_optimizer(cudaStream_t stream, const struct kernel_parameters *parameters,
                      struct kernel_rule rule, const struct kernel_update *update,
                      struct kernel_outcome *outcome);

/** Fill the working copies from the masters; here and in kernel_optimizer() padding stays. */
void kernel_working(cudaStream_t stream, const struct kernel_parameters *parameters);

#ifdef __cplusplus
}
#endif
