#pragma once

/** @file
 * From the graph of an ONNX file to a network of foretrain.
 *
 * Counted for one image.  A batch norm or convolution takes the ReLU and the add behind it, as our
 * own networks do; GELU and layer norm are found in their parts; reshapes cost nothing, transposes
 * and slices a copy.  Dropout and every operation on single values read and write memory.
 */

#include "app/onnx/graph.h"
#include "core/schedule/model.h"

/** A network being read.  Start from {0} with graph and file; release with onnx_network_release().
 */
struct onnx_network {
    struct onnx_graph *graph; /**< borrowed; nodes are marked */
    const char *file;         /**< for messages; borrowed */
    bool bytes_of_unknown;    /**< operations that are not known count by the bytes they move */
    struct model *model;      /**< its layers have shapes and inputs; nothing else is derived */
    int32_t *layer;           /**< (values) the layer that holds each value; -1: the images */
    bool *fresh;              /**< (values) it is the layer's output itself, not a view of it */
    int32_t *holder;          /**< (values) 1 + the layer that has these parameters; 0: none yet */
    struct text note;         /**< a line for each thing that was assumed */
};

/** Read the layers of network->graph.
 * @return 0, or -1 (exit code 65) with the first operation or shape that is not known. */
int onnx_network_read(struct onnx_network *network, struct err *err);

/** Release what reading made. */
void onnx_network_release(struct onnx_network *network);

/** Private to app/onnx: if a layer norm or GELU in parts begins at node @index, append it as one
 * layer and mark its nodes.  @return whether it did. */
bool onnx_network_pattern(struct onnx_network *network, int32_t index);

/** Private to app/onnx: append a layer for @node that reads value @from and whose output is value
 * @to; parameters and kind are set by the caller.  @return it; valid until the next one. */
struct layer *onnx_network_add(struct onnx_network *network, const struct onnx_node *node,
                               enum layer_op op, int32_t from, int32_t to);

/** Private to app/onnx: the parameters behind constant @index (-1: none) that no layer has yet are
 * those of @layer.  @return how many. */
int64_t onnx_network_count(struct onnx_network *network, const struct layer *layer, int32_t index);

/** Private to app/onnx: @layer has the weights behind constant @index, or uses those of the layer
 * that has them. */
void onnx_network_weigh(struct onnx_network *network, struct layer *layer, int32_t index);

/** Private to app/onnx: let @layer add the bias @index to its value; other biases of weights that
 * have one are not its own.  @return whether it does. */
bool onnx_network_bias(struct onnx_network *network, struct layer *layer, int32_t index);

/** Private to app/onnx: value @index. */
const struct onnx_value *onnx_value_at(const struct onnx_network *network, int32_t index);

/** Private to app/onnx: whether input @index of @node is there and follows from the images. */
bool onnx_is_active(const struct onnx_network *network, const struct onnx_node *node,
                    int32_t index);

/** Private to app/onnx: a shape without the batch; of a sequence the features come first. */
struct shape onnx_shape(const struct onnx_value *value);

/** Private to app/onnx: value @to is another view of @from, or, if @fresh, what the layer of @from
 * has become. */
void onnx_alias(struct onnx_network *network, int32_t from, int32_t to, bool fresh);

/** Private to app/onnx: append @node by what it moves, with the parameters among its inputs. */
struct layer *onnx_add_other(struct onnx_network *network, const struct onnx_node *node,
                             int32_t to);

/** Private to app/onnx: the layer whose output is @value itself, if nothing else reads it; or
 * NULL. */
struct layer *onnx_own_layer(struct onnx_network *network, int32_t value);

/** Private to app/onnx: append the layers of @node, whose shapes are known.
 * @return whether its operation is known, as it is used here. */
bool onnx_operation(struct onnx_network *network, const struct onnx_node *node);

/** Private to app/onnx: append any @node by what it moves.  @return whether it reads values. */
bool onnx_moves(struct onnx_network *network, const struct onnx_node *node);
