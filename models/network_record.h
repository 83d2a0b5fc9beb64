#pragma once

/** @file
 * What a network file holds before it is checked.  Private to models/.
 */

#include "core/config/field.h"

/** A layer as the file says it. */
struct entry {
    char *name, *add, *in, *out, *weights_of;
    int32_t kind; /**< enum layer_op */
    int32_t relu; /**< 0: none, 1: a ReLU, 2: one that stops at 6 */
    struct field_list inputs;
    int64_t channels, kernel, kernel_width, stride, padding, groups, inner, rows, experts;
    int64_t parameters, flops, elements;
    bool bias;
};

/** The whole file. */
struct file {
    int64_t version;
    char *name, *input;
    struct field_list layers;
};

/** Which kinds have a key, as bits 1 << enum layer_op. */
struct key_kinds {
    const char *key;
    unsigned takes, needs;
};

/** The keys that some kinds do not take, ended by a row without one. */
extern const struct key_kinds network_keys[];
