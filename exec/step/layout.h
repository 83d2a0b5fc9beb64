#pragma once

/** @file
 * The place of each parameter of a network in the flat fp32 arrays of the executor.
 *
 * Parameters, gradients and momentum share one packing, that of the gradient buckets
 * (core/schedule/bucket.h): layers from last to first, in each layer its tensors in order.  Every
 * tensor has torchvision's shape and order of elements: convolutions (out, in, height, width),
 * linear layers (out, in).  Running statistics of batch norm have their own array: layers from
 * first to last, in each the means (channels), then the variances (channels).
 */

#include "core/schedule/model.h"

/** What a parameter tensor is. */
enum parameter_kind {
    PARAMETER_WEIGHT, /**< of a convolution, linear layer or table: the only kind with weight decay
                       */
    PARAMETER_BIAS,   /**< of a convolution or linear layer */
    PARAMETER_SCALE,  /**< gamma of a norm */
    PARAMETER_SHIFT,  /**< beta of a norm */
    PARAMETER_KIND_COUNT
};

/** One parameter tensor. */
struct parameter {
    int64_t offset, elements; /**< in the flat arrays */
    enum parameter_kind kind;
    int32_t layer; /**< in the model */
};

/** The whole packing.  Read freely. */
struct layout {
    const struct model *model;   /**< borrowed */
    struct parameter *parameter; /**< (model->tensor_count) in the model's order of tensors */
    int64_t *layer;              /**< (model->layer_count) offset of each layer's first parameter */
    int64_t *statistics;     /**< (model->layer_count) offset of its mean, or -1: no batch norm */
    int64_t parameters;      /**< sum of all */
    bool squares;            /**< the optimizer has second moments, too; set by the caller */
    int64_t statistic_count; /**< elements of the array of running statistics */
};

/** The trained state in the host's memory, packed as described above.  Owned by its creator. */
struct weights {
    float *parameter;       /**< (layout.parameters) fp32 masters */
    float *momentum;        /**< (layout_moments()) second moments behind the first */
    float *statistics;      /**< (layout.statistic_count) running mean and variance */
    float *rank_statistics; /**< (ranks, layout.statistic_count) of each rank alone; or NULL */
};

/** Lay out @model, which is borrowed.  Release with layout_release(). */
struct layout layout_build(const struct model *model);

/** Elements of the momentum of a run that has @layout. */
int64_t layout_moments(const struct layout *layout);

/** Arrays for what is trained in @layout, zero, with rank_statistics of @ranks unless that is 0.
 * Release with weights_release(). */
struct weights weights_new(const struct layout *layout, int32_t ranks);

void weights_release(struct weights *weights);

/** Release the parameters and the momentum alone, or, if @there, allocate those of @layout that are
 * not. */
void weights_keep(struct weights *weights, const struct layout *layout, bool there);

void layout_release(struct layout *layout);

/** Fill @parameter (layout->parameters) for a new training run from @seed: He initialisation
 * (normal, variance 2 / fan-out) of convolutions, uniform within 1 / sqrt(fan-in) of linear layers,
 * norms 1 and 0, all other weights of transformers normal with deviation 0.02, and with @zero_gamma
 * 0 for the scale of the last batch norm of each residual block; and @statistics
 * (layout->statistic_count): means 0, variances 1. Source: He et al. 2015, "Delving deep into
 * rectifiers"; Goyal et al. 2017 for zero gamma; linear layers as torch.nn.Linear; Radford et al.
 * 2018 (GPT) for transformers. */
void layout_initialise(const struct layout *layout, uint64_t seed, bool zero_gamma,
                       float *parameter, float *statistics);
