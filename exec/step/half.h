#pragma once

/** @file
 * Numbers of 16 bits in messages and checkpoints: fp16 (IEEE 754 binary16) and bf16 (the upper half
 * of an fp32).
 *
 * Rounding is to the nearest, ties to even; numbers that are too large become infinity, subnormals
 * are kept and a NaN stays a NaN (made quiet, sign and upper bits of its payload kept).  Every set
 * of instructions gives the same bits.  With DTYPE_FP32 numbers are copied or added as they are;
 * arrays of one call do not overlap.
 */

#include "core/base/dtype.h"

/** Round @count numbers of @from to @dtype. */
void half_from_float(enum dtype dtype, int64_t count, const float *from, void *to);

/** Widen @count numbers of @from, exactly. */
void half_to_float(enum dtype dtype, int64_t count, const void *from, float *to);

/** Add @count numbers of @from to @accumulator; the sums are in fp32. */
void half_add(enum dtype dtype, int64_t count, const void *from, float *accumulator);

/** Round @count numbers of @values to @dtype, in place. */
void half_round(enum dtype dtype, int64_t count, float *values);
