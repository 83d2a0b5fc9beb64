#pragma once

/** @file
 * Operands of one run of a convolution, full of their patterns, in the memory of CUDA in software.
 */

#include "exec/cuda/conv/conv_check.h"

/** One run's. */
struct operands {
    void *array[CONV_ARRAY_COUNT], *workspace;
    struct conv_call call; /**< of these */
};

/** Those of @shape, with @workspace bytes. */
struct operands operands_of(const struct conv_shape *shape, size_t workspace);

/** Release. */
void operands_release(struct operands *operands);

/** Element @index of @array, of @type. */
double operands_element(enum dtype type, const void *array, int64_t index);
