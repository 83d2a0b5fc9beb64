#pragma once

/** @file
 * Reference kernels: plain loops that define each operation.
 *
 * Arrays are fp32, images NCHW: x and y are a layer's input (batch, in) and output (batch, out),
 * and dx, dy, dw the gradients of the loss with respect to x, y and w.  Convolution weights are
 * (out, in, kernel, kernel), those of a linear layer (out, in).  A layer's bias follows its
 * weights.  Outputs are overwritten, never added to, and never overlap inputs.
 */

#include "core/schedule/model.h"

/** y = w * x + bias, of a convolution or linear layer. */
void naive_forward(const struct layer *layer, int32_t batch, const float *x, const float *w,
                   float *y);

/** dx of a convolution or linear layer. */
void naive_backward_data(const struct layer *layer, int32_t batch, const float *w, const float *dy,
                         float *dx);

/** dw of a convolution or linear layer, followed by the bias's gradient. */
void naive_backward_filter(const struct layer *layer, int32_t batch, const float *x,
                           const float *dy, float *dw);

/** Batch norm in training, with the batch's own mean and biased variance, to which @epsilon is
 * added.
 * @param w scale (channels), then shift (channels).
 * @param statistics written: mean (channels), then 1 / deviation (channels). */
void naive_batch_norm(const struct layer *layer, int32_t batch, double epsilon, const float *x,
                      const float *w, float *statistics, float *y);

/** dx and dw of batch norm; @statistics as the forward pass left them. */
void naive_batch_norm_backward(const struct layer *layer, int32_t batch, const float *x,
                               const float *w, const float *statistics, const float *dy, float *dx,
                               float *dw);

/** Max or average pool; padding is left out of maximum and average. */
void naive_pool(const struct layer *layer, int32_t batch, const float *x, float *y);

/** dx of a pool; the first of equal maxima gets the gradient. */
void naive_pool_backward(const struct layer *layer, int32_t batch, const float *x, const float *dy,
                         float *dx);

/** y = min(max(y, 0), @top) on @count values. */
void naive_relu(int64_t count, float top, float *y);

/** dy = 0 where the output @y of such a ReLU is 0 or @top. */
void naive_relu_backward(int64_t count, float top, const float *y, float *dy);

/** The scores of all classes, or of some, of which other ranks have the others. */
struct some_scores {
    int32_t rows, columns; /**< x is (rows, columns) */
    int32_t first, count;  /**< the classes of its first columns; the others are padding */
    int32_t classes;       /**< of all ranks */
    const float *x;
    const int32_t *label; /**< (rows) */
};

/** Write what other ranks need of these scores to @sums (rows, LOSS_SUMS), as
 * core/schedule/iteration.h says. */
void naive_loss_sums(const struct some_scores *scores, float *sums);

/** Mean cross-entropy of softmax(x) against the labels, smoothed; of some classes by the @sums
 * (parts, rows, LOSS_SUMS) of all ranks, else NULL.
 * @param dx written (rows, columns), 0 for padding.
 * @return the loss. */
double naive_loss(const struct some_scores *scores, double smoothing, int32_t parts,
                  const float *sums, float *dx);

/** Fill @term with e^(x - @largest) of @count values, @largest being the largest.  @return their
 * sum, of equal bits at every vector width. */
double naive_terms(int64_t count, const float *x, float *largest, float *term);

/** y = 0 on @count values. */
void naive_clear(int64_t count, float *y);

/** y += x on @count values. */
void naive_add(int64_t count, const float *x, float *y);
