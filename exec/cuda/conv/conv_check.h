#pragma once

/** @file
 * Expected results of a convolution: a few elements, computed here in another way.
 *
 * Operands repeat a short pattern, so every element of them is known without reading it back, and
 * any element of the result can be computed on the host in double precision.
 */

#include <stdbool.h>
#include <stdint.h>

#include "exec/cuda/conv/conv.h"

enum {
    CONV_PATTERN = 99991, /**< elements; prime, so that rows, pixels and images differ */
    CONV_SAMPLES = 16     /**< elements that are looked at */
};

/** The arrays of a convolution. */
enum conv_array {
    CONV_ARRAY_X,          /**< x or dx */
    CONV_ARRAY_W,          /**< w or dw */
    CONV_ARRAY_Y,          /**< y or dy */
    CONV_ARRAY_FACTORS,    /**< those applied to x */
    CONV_ARRAY_SEEN,       /**< the input of batch norm beside dx */
    CONV_ARRAY_STATISTICS, /**< fp32 for every type of shape, like the next */
    CONV_ARRAY_PARAMETER,
    CONV_ARRAY_ADDED,        /**< the residual, or the second batch norm's input */
    CONV_ARRAY_STATISTICS_2, /**< of that one */
    CONV_ARRAY_PARAMETER_2,
    CONV_ARRAY_OTHER,     /**< the gradient that is added */
    CONV_ARRAY_FACTORS_2, /**< those applied to what is added */
    CONV_ARRAY_VALUE,     /**< of the block */
    CONV_ARRAY_COUNT
};

/** Elements of @array; 0: @op has none of it. */
int64_t conv_elements(enum conv_op op, const struct conv_shape *shape, enum conv_array array);

/** Their type, where that of the shape is @type. */
enum dtype conv_array_type(enum dtype type, enum conv_array array);

/** The operands of a run on @shape among @array, on the device or host; what its op does not use
 * may be NULL.  @derived: (norms of the op, CONV_DERIVED_COUNT, in channels). */
struct conv_call conv_call_of(const struct conv_shape *shape, void *const array[CONV_ARRAY_COUNT],
                              float *sums, float *derived, void *workspace);

/** Which array @op writes; beside it CONV_ARRAY_VALUE, where it has that. */
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
    double slack;  /**< possible change by the rounding of applied values; 0 without them */
};

/** Choose CONV_SAMPLES elements of @array, that @op on @shape writes (including the first and last,
 * unless rounding could decide their ReLU) and compute them from the patterns. */
void conv_samples(enum conv_op op, const struct conv_shape *shape, enum conv_array array,
                  struct conv_sample *sample);

/** Whether @got is @sample rounded to @type, up to its slack and the error of sums in fp32
 * relative to `size`: 2^-20, and 2^-17 for types of 16 bits, since tensor cores truncate where
 * others round. (Assumed, not tested on a GPU.) Engines that add in 16 bits, or leave something
 * out, are far off. */
bool conv_is_right(enum dtype type, const struct conv_sample *sample, double got);

/** Whether @sum is the sum of @rows values of a channel, whose exact sum is @want and sum of
 * magnitudes @size, for engines that may add them before they are rounded to fp16. */
bool conv_sum_is_right(int64_t rows, double want, double size, double sum);

/** One channel of dx, as it was written, and of x, the input of batch norm, as sums over @rows. */
struct conv_channel {
    int64_t rows;
    double both[2];       /**< of dx, and of dx * normalised x */
    double dx[2], x[2];   /**< of each, and of its squares */
    double statistics[2]; /**< mean, 1 / deviation */
    double parameter[2];  /**< scale, shift */
};

/** What batch norm's backward derives from a channel. */
struct conv_derived {
    double value[5], size[5]; /**< as conv_call.derived; bounds of the sums of magnitudes on the way
                                   to them */
};

/** Derive them; sizes by the Cauchy-Schwarz inequality. */
struct conv_derived conv_derive(const struct conv_channel *channel);
