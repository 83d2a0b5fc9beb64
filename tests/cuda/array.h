#pragma once

/** @file
 * Arrays for tests of kernels: numbers of a type, and what they are as fp32.
 *
 * The memory that a kernel gets is exactly as long as its array, so that the address sanitizer sees
 * what goes beyond.
 */

#include <stdint.h>

#include "core/base/dtype.h"

/** An array. */
struct array {
    enum dtype type;
    int64_t count;
    void *data;   /**< (count) of type; owned */
    float *value; /**< (count) of random arrays and after array_widen(); owned */
};

/** Random numbers about @mean, deviation @spread, at most three times that away, of @seed; rounded
 * to
 * @type. */
struct array array_random(enum dtype type, int64_t count, uint64_t seed, double mean,
                          double spread);

/** An array that a kernel is to write: all NaN. */
struct array array_blank(enum dtype type, int64_t count);

/** A copy of @array's data. */
struct array array_copy(const struct array *array);

/** Set value to what data stands for.  @return value. */
const float *array_widen(struct array *array);

/** Release. */
void array_free(struct array *array);

/** How much of a number rounding to @type may change: half the distance of two neighbours, relative
 * to the smaller. */
double array_rounding(enum dtype type);

/** Fail the test, naming @what, unless @got is @want up to one rounding to @type and @error
 * [absolute]. */
void array_expect(const char *what, int64_t index, enum dtype type, float got, double want,
                  double error);
