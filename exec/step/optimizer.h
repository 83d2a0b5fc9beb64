#pragma once

/** @file
 * SGD with momentum, LARS, AdamW and LAMB on the flat arrays of exec/step/layout.h.
 *
 * With w a weight, g its averaged gradient and v its momentum:
 *
 *   SGD   d = g + decay * w;  v = momentum * v + d;  w -= rate * (nesterov ? d + momentum * v : v)
 *   LARS  the same on trust * |w| / (|g| + decay * |w|) * (g + decay * w), per tensor, for weights;
 *         biases and batch norm as in SGD, without decay
 *
 * With m and v the moments after update t, n = m / (1 - momentum^t) and s = v / (1 - beta2^t):
 *
 *   AdamW m = momentum * m + (1 - momentum) * g;  v = beta2 * v + (1 - beta2) * g * g;
 *         w -= rate * (n / (sqrt(s) + 1e-8) + decay * w)
 *   LAMB  u = n / (sqrt(s) + 1e-6) + decay * w;  w -= rate * |w| / |u| * u, per tensor, for
 * weights; others as in AdamW
 *
 * With training.optimizer.clip, gradients whose norm over all tensors is larger are first
 * multiplied by clip / (norm + 1e-6).
 *
 * Biases and norms have no weight decay.  A tensor that is 0, or has a gradient of 0, is
 * updated as in SGD.  Norms are summed in fp64 in a fixed order, so the result has the same bits
 * for any number of threads and width of vectors.  Source: You, Gitman and Ginsburg 2017, "Large
 * batch training of convolutional networks"; v does not include the learning rate, as in
 * torch.optim.SGD; Loshchilov and Hutter 2019 (AdamW), as in torch.optim.AdamW; You et al. 2020
 * (LAMB), as in apex; clipping as in torch.nn.utils.clip_grad_norm_.
 */

#include "core/scenario/scenario.h"
#include "exec/step/packing.h"
#include "exec/step/part.h"

/* Loss scaling: the factor of the loss that keeps small gradients from vanishing in 16 bits.
 *
 * A step whose gradients overflow is skipped.  A dynamic scale is then halved, and doubled after
 * training.loss_scale.interval steps without overflow; a static one does not change.  If everything
 * is fp32, no other batch or scale would prevent an overflow: such a run has diverged.  Source:
 * Micikevicius et al. 2018, "Mixed precision training", section 3.2. */

enum {
    LOSS_SCALE_SKIP_LIMIT = 100, /**< skipped steps in a row that end a run in any case */
};

/** The scale and its history.  A resumed run restores value, good_steps and skipped. */
struct loss_scale {
    double value;
    int64_t good_steps; /**< since the last change or skipped step */
    int64_t skipped;    /**< steps of the whole run */
    int64_t in_a_row;   /**< of them the last ones */
};

/** As the run starts. */
struct loss_scale loss_scale_init(const struct scenario *scenario);

/** Update @loss_scale for the next step, after a finished step with or without @overflow.  The
 * value stays in the range of training.loss_scale.initial: 1e-9 to 2^40.
 * @return 0, or -1 when the network itself has diverged: an overflow in fp32 with a static scale,
 * or LOSS_SCALE_SKIP_LIMIT or more skipped steps in a row. */
int loss_scale_update(struct loss_scale *loss_scale, bool overflow,
                      const struct scenario *scenario);

/** The numbers of one iteration's optimizer step. */
struct update {
    double learning_rate;
    double weight_decay;
    double loss_scale; /**< factor of the loss before backward; gradients are divided by it */
};

/** The result of one iteration on this rank. */
struct outcome {
    double loss;     /**< mean over the local batch, without loss scale */
    double norm;     /**< of the gradient averaged over all ranks, without loss scale; with an
                        overflow infinite or NaN */
    bool overflow;   /**< a gradient was infinite or NaN: the weights did not change */
    double late_s;   /**< of a device that rehearses: how late compute steps ended, mean [s] */
    double latest_s; /**< the same of the one that ended latest [s] */
};

/** One optimizer. */
struct optimizer;

/** An optimizer for @layout with the settings of @scenario (kind, momentum, beta2, nesterov, trust,
 * clip), of the elements of @shard (count) alone; all borrowed. */
struct optimizer *optimizer_new(const struct layout *layout, const struct scenario *scenario,
                                const struct slice *shard, int32_t count);

/** In norms of all gradients, leave out the tensors that another rank has, too, and counts by
 * @part, which is borrowed; NULL: none. */
void optimizer_count_once(struct optimizer *optimizer, const struct part *part);

/** The run has made @updates already, which AdamW and LAMB count. */
void optimizer_continue(struct optimizer *optimizer, int64_t updates);

void optimizer_free(struct optimizer *optimizer);

/** Update @parameter (layout.parameters) and @momentum (layout_moments()) from @gradient, which is
 * first multiplied by @scale (1 / (ranks * micro-batches * loss scale)); uses OpenMP threads of the
 * caller.
 * @return the result, with loss 0; with overflow set, nothing changed. */
struct outcome optimizer_step(struct optimizer *optimizer, const struct update *update,
                              double scale, const float *gradient, float *momentum,
                              float *parameter);

/** Fill @norms (iteration_norms()) with the sums of squares over this rank's shard: with LARS of
 * gradient, times @scale, and weights of each tensor, else of the gradient alone.  Their sums over
 * the shards go to optimizer_update(). */
void optimizer_measure(struct optimizer *optimizer, double scale, const float *gradient,
                       const float *parameter, float *norms);

/** optimizer_step() for a shard, whose elements alone are in @momentum, one slice behind the other;
 * not with LAMB.  SGD gives the bits of the whole step.  With LARS, norms are sums in fp32: among n
 * shards each is within (1 + log2 n) 2^-24 of itself, and so is the factor of a tensor's step.  A
 * gradient whose norm is above 1.8e19 counts as an overflow, because its square is one in fp32. */
struct outcome optimizer_update(struct optimizer *optimizer, const struct update *update,
                                double scale, const float *norms, const float *gradient,
                                float *momentum, float *parameter);

/** The first half of optimizer_step() of LAMB, or with @norms of optimizer_update(), where other
 * ranks have parts of the tensors: all but the weights.  Fill @steps (2 a tensor) with the sums of
 * the squares of steps and weights; those over all parts go to optimizer_end(), unless the result
 * is an overflow. */
struct outcome optimizer_begin(struct optimizer *optimizer, const struct update *update,
                               double scale, const float *norms, const float *gradient,
                               float *momentum, const float *parameter, float *steps);

/** The second half.  What several ranks have of a tensor counts as often in both sums. */
void optimizer_end(struct optimizer *optimizer, const struct update *update, const float *steps,
                   const float *momentum, float *parameter);
