#pragma once

/** @file
 * The graph of an ONNX file, as foretrain-onnx prints it: nodes and values by number, with the
 * shape of each value for one image.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/json.h"

enum { ONNX_RANK = 8 /**< dimensions of a value at most */ };

/** One value. */
struct onnx_value {
    const char *name;           /**< borrowed from the JSON */
    int32_t rank;               /**< -1: the shape is not known */
    int64_t dims[ONNX_RANK];    /**< the first `rank` of them */
    int64_t elements;           /**< their product */
    bool constant;              /**< follows from no input of the graph */
    bool weight;                /**< stands in the file as real numbers */
    const struct json *numbers; /**< of a small constant, else NULL; borrowed */
    int32_t uses;               /**< nodes that read it, and outputs of the graph that it is */
    int32_t reader;             /**< the first node that reads it, or -1 */
    int32_t maker;              /**< the node whose output it is, or -1 */
};

/** One node. */
struct onnx_node {
    const char *op, *name; /**< borrowed, as is the next */
    const struct json *attributes;
    int32_t *input, *output; /**< values; -1: left out; owned */
    int32_t input_count, output_count;
    bool live; /**< an output of the graph needs it, and it is not constant */
    bool done; /**< a pattern has taken it */
};

/** All of it.  Release with onnx_graph_release(). */
struct onnx_graph {
    struct json *json; /**< owned */
    struct onnx_value *value;
    struct onnx_node *node;
    int32_t *input, *output; /**< values */
    int32_t value_count, node_count, input_count, output_count;
};

/** Run foretrain-onnx on @path and read its answer into zeroed @graph.
 * @return 0, or -1: foretrain-onnx was not built (exit code 69), its messages and exit code, that
 * it was killed (70), an answer that is none (70). */
int onnx_graph_read(struct onnx_graph *graph, const char *path, struct err *err);

void onnx_graph_release(struct onnx_graph *graph);

/** Input @index of @node, or -1. */
int32_t onnx_input(const struct onnx_node *node, int32_t index);

/** Attribute @name of @node as a whole number, or @missing. */
int64_t onnx_attribute(const struct onnx_node *node, const char *name, int64_t missing);

/** Item @index of list @name of @node, or @missing. */
int64_t onnx_attribute_at(const struct onnx_node *node, const char *name, int32_t index,
                          int64_t missing);

/** What constant @index is made of by nodes that only change its form; @index itself where none
 * does. */
int32_t onnx_source(const struct onnx_graph *graph, int32_t index);

/** The one number of constant @index; whether it is one. */
bool onnx_number(const struct onnx_graph *graph, int32_t index, double *number);
