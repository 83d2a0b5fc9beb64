#pragma once

/** @file
 * Expected results of a convolution: a few elements, computed here in another way.
 *
 * Operands repeat a short pattern, so every element of them is known without reading it back, and
 * any element of the result can be computed on the host in double precision.
 */

#include "exec/cuda/conv/conv.h"

enum {
    CONV_PATTERN = 99991, /**< elements; prime, so that rows, pixels and images differ */
    CONV_SAMPLES = 16     /**< elements that are looked at */
};

/** The arrays of a convolution. */
enum conv_array {
    CONV_ARRAY_X, /**< x or dx */
    CONV_ARRAY_W, /**< w or dw */
    CONV_ARRAY_Y, /**< y or dy */
    CONV_ARRAY_COUNT
};

/** Elements of @array. */
int64_t conv_elements(const struct conv_shape *shape, enum conv_array array);

/** The operands of a run among @array, on device or host; what its op does not use may be NULL. */
struct conv_call conv_call_of(void *const array[CONV_ARRAY_COUNT], void *workspace);

/** Which array @op writes. */
enum conv_array conv_written(enum conv_op op);

/** The pattern of @array: CONV_PATTERN numbers in (-1, 1) that @type holds exactly; element i of
 * the array is pattern[i % CONV_PATTERN].  The caller frees it. */
float *conv_pattern(enum dtype type, enum conv_array array);

/** One element of a result. */
struct conv_sample {
    int64_t index; /**< in the array that is written */
    double want;   /**< the exact value, before rounding */
    double size;   /**< sum of the products' magnitudes, to which rounding errors are
                        proportional */
};

/** Choose CONV_SAMPLES elements of what @op on @shape writes, including the first and last, and
 * compute them from the patterns. */
void conv_samples(enum conv_op op, const struct conv_shape *shape, struct conv_sample *sample);

/** Whether @got is @sample rounded to @type, up to the error of sums in fp32 relative to `size`:
 * 2^-20, and 2^-17 for types of 16 bits, since tensor cores truncate where others round.  Engines
 * that add in 16 bits, or leave something out, are far off. */
bool conv_is_right(enum dtype type, const struct conv_sample *sample, double got);
