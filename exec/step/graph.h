#pragma once

/** @file
 * The graph of a network: which layer reads the output of which, from the list of layers
 * (core/schedule/model.h).
 *
 * A layer's value is its output after the residual add and the ReLU that it carries.  In a residual
 * block with a projection, the projection's layers follow the main branch in the list.  So the add
 * and the ReLU of the main branch's last batch norm are done in the projection's last step: in
 * forward this step finishes the value (graph_node.finish); in backward, in reverse order, it
 * starts it.
 *
 * In backward, each value's gradient is the sum of its readers' gradients.  At most two readers
 * exist: the first layer of a block and its residual branch.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/schedule/model.h"

/** One layer's place in the graph; indices are those of the model's list. */
struct graph_node {
    int32_t reads;    /**< the layer whose value it reads; -1: the images */
    int32_t residual; /**< with `residual`: the layer whose value is added before the ReLU; else
                           -1 */
    int32_t finish;   /**< the layer in whose forward step its value is complete: mostly itself */
    int32_t finishes; /**< the layer whose value this layer's forward step completes: mostly
                           itself */
    int32_t readers;  /**< how many layers read its value, residual adds included */
};

/** The graph of a network.  Read freely. */
struct graph {
    struct graph_node *node; /**< (layer_count) */
    int32_t layer_count;
};

/** Find who reads what in @model.
 * @return the graph, to be released with graph_release(); asserts a list that is a network. */
struct graph graph_build(const struct model *model);

/** Whether every layer reads, and adds, a value of the shape it expects, and every value but the
 * last is read once or twice.  For assert(). */
bool graph_check(const struct graph *graph, const struct model *model);

/** Release. */
void graph_release(struct graph *graph);
