#pragma once

/** @file
 * Operands of one run of a convolution, full of their patterns, on a device and on the host.
 */

#include "exec/cuda/conv/conv_check.h"

/** One run's. */
struct operands {
    size_t bytes[CONV_ARRAY_COUNT];
    void *array[CONV_ARRAY_COUNT], *workspace; /**< on the device */
    void *host[CONV_ARRAY_COUNT];
    struct conv_call call; /**< on the device */
};

/** Those of @shape, with @workspace bytes. */
struct operands operands_of(const struct conv_shape *shape, size_t workspace);

/** Release. */
void operands_release(struct operands *operands);

/** Element @index of @array, of @type, on the host. */
double operands_element(enum dtype type, const void *array, int64_t index);

/** End the program with what failed unless @error is success. */
void operands_must(cudaError_t error, const char *what);
