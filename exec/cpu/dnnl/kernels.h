#pragma once

/** @file
 * Kernels for the layers between convolutions: batch norm with the add and the ReLU after it, and
 * the average pool.
 *
 * Activations are fp32 in blocked layout: element (n, c, p) of image n, channel c and pixel p (of
 * height * width) stands at ((n * channels / block + c / block) * pixels + p) * block + c % block.
 * A block of 16 is oneDNN's nChw16c, a block of all channels is NHWC.
 *
 * All use the OpenMP threads of the caller.  Sums are cut into parts that depend only on the shape
 * and are added in a fixed order, so results have the same bits on any number of threads.
 */

#include "core/schedule/model.h"

/** Shape of activations; block divides channels. */
struct blocked {
    int64_t images, channels, pixels, block;
};

/** One batch norm at work; arrays are of (channels) unless said otherwise. */
struct norm {
    const float *x;         /**< (shape) its input */
    float *mean, *variance; /**< of the batch, biased; or running ones */
    float *scale, *shift;   /**< its output is x * scale + shift */
    float *inverse;         /**< 1 / sqrt(variance + epsilon) */
    float *slope, *offset;  /**< the gradient is g * scale + x * slope + offset */
    double *sum, *product;  /**< of g, and of g * (x - mean), over images and pixels */
    float *dx;              /**< (shape) output: the gradient with respect to x */
};

/** The gradient that reaches one batch norm, or the two whose outputs are added. */
struct norm_gradient {
    const float *first, *second; /**< (shape) from two readers; second may be NULL */
    float top;                   /**< where the ReLU that the output went through stops, or 0 */
    const float *value;          /**< (shape) its output, or NULL: recompute it from norm[0] */
    float *gradient;             /**< (shape) output: g, the masked sum (may be either), or NULL:
                                      not written; then there is no second gradient and no second
                                      norm */
    struct norm *norm[2];        /**< the second may be NULL */
};

/** Floats of scratch space that sums over @shape need. */
int64_t norm_scratch(const struct blocked *shape);

/** Fill mean and variance of @norm from its x.  @scratch: norm_scratch(). */
void norm_statistics(const struct blocked *shape, struct norm *norm, float *scratch);

/** Fill inverse, scale and shift of @norm from its mean and variance and @weight: scale
 * (channels), then shift (channels). */
void norm_fold(int64_t channels, double epsilon, const float *weight, struct norm *norm);

/** y = the outputs of @norm and @other (or NULL) and @added (shape, or NULL) together, through a
 * ReLU that stops at @top, or none if that is 0. */
void norm_apply(const struct blocked *shape, const struct norm *norm, const struct norm *other,
                const float *added, float top, float *y);

/** Write g, and sum and product of each norm. @scratch: norm_scratch(). */
void norm_backward_sums(const struct blocked *shape, const struct norm_gradient *gradient,
                        float *scratch);

/** After norm_backward_sums(): fill slope and offset and write dx of each norm, which may be the
 * place of the first gradient or of g. */
void norm_backward(const struct blocked *shape, const struct norm_gradient *gradient);

/** Average pool of @layer on @images images in blocks of @block channels: output i of n along a
 * side of m covers inputs floor(i m / n) ... ceil((i + 1) m / n) - 1, as torch's adaptive pool. */
void kernel_average(const struct layer *layer, int64_t images, int64_t block, const float *x,
                    float *y);

/** Its dx. */
void kernel_average_backward(const struct layer *layer, int64_t images, int64_t block,
                             const float *dy, float *dx);
