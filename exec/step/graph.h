#pragma once

/** @file
 * The graph of a network as devices walk it: in which step each value is complete.  Which layer
 * reads which, the layers say themselves (core/schedule/model.h).
 *
 * In a residual block with a projection, the projection's layers may follow the main branch in the
 * list.  So the add and the ReLU of the main branch's last batch norm are done in the projection's
 * last step: in forward this step finishes the value (graph_node.finish); in backward, in reverse
 * order, it starts it.
 *
 * In backward, each value's gradient is the sum of its readers' gradients.  At most two readers
 * exist, the first layer of a block and its residual branch, but for networks with more kinds
 * (model_is_general()).
 */

#include "core/schedule/model.h"

/** One layer's place in the graph; indices are those of the model's list. */
struct graph_node {
    int32_t reads;    /**< the layer whose value it reads; -1: the images */
    int32_t residual; /**< the layer whose value is added before the ReLU, or -1 */
    int32_t finish;   /**< the layer in whose forward step its value is complete: mostly itself */
    int32_t finishes; /**< the layer whose value this layer's forward step completes: mostly
                           itself */
    bool hidden; /**< its value is never whole: attention by blocks is computed in its last layer */
    int32_t readers; /**< how many layers read its value, residual adds included */
};

/** The graph of a network.  Read freely. */
struct graph {
    struct graph_node *node; /**< (layer_count) */
    int32_t layer_count;
};

/** The graph of @model, with attention by @blocks.
 * @return the graph, to be released with graph_release(); asserts a list that is a network. */
struct graph graph_build(const struct model *model, bool blocks);

void graph_release(struct graph *graph);

/** Predictions of a sample: the class of a picture, or at each position of a sequence its next
 * token.
 */
int64_t target_count(const struct model *model);

/** Fill @target (images, target_count()) from @images samples and their @label: of a picture its
 * class, of a sequence the token that follows it. */
void target_fill(const struct model *model, int64_t images, const float *samples,
                 const int32_t *label, int32_t *target);
