#pragma once

/** @file
 * Buffers for the gradients of values in the backward pass.  A buffer is reused as soon as its last
 * reader is done, so that few are needed and they stay in the caches.
 *
 * The plan walks the layers from last to first, as the steps of a schedule do.  A gradient that is
 * no longer needed is overwritten by the one computed from it.  Of two gradients of a batch norm's
 * value the sum goes to the place of the later one, so that what gives that one may form it.  In
 * networks with more kinds (model_is_general()) all readers of a value add to its first gradient.
 */

#include "core/schedule/model.h"
#include "exec/step/graph.h"

/** Buffers of one layer; -1: none. */
struct plan_place {
    int32_t given[2]; /**< gradients from the readers of its value, in the order they are written */
    int32_t dx;       /**< the gradient with respect to its input */
};

/** The whole plan.  Read freely. */
struct backward_plan {
    struct plan_place *place; /**< (layer_count) */
    int64_t *size;            /**< (buffers) elements per image */
    int32_t buffers;
};

/** Plan the backward pass of @model with @graph.  Release with backward_plan_release(). */
struct backward_plan backward_plan_build(const struct model *model, const struct graph *graph);

void backward_plan_release(struct backward_plan *plan);
