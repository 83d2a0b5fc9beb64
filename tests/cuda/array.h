#pragma once

/** @file
 * A table of kernels, and the arrays that they work on.
 *
 * The memory that a kernel gets is exactly as long as its array, so that the address sanitizer sees
 * what goes beyond.  A failure names row, size and type, and the first element that is wrong.
 */

#include "core/base/dtype.h"
#include "tests/assert.h"
#include "tests/own.h"

/* ---- arrays ---- */

/** An array; ended by HELD(). */
struct array {
    enum dtype type;
    int64_t count;
    void *data;   /**< (count) of type; owned */
    float *value; /**< (count) what data stood for when it was set; owned */
};

/** Random numbers about @mean, deviation @spread, at most three times that away, of @seed; rounded
 * to @type. */
struct array array_random(enum dtype type, int64_t count, uint64_t seed, double mean,
                          double spread);

/** An array that a kernel is to write: all NaN. */
struct array array_blank(enum dtype type, int64_t count);

/** A copy of @array's data. */
struct array array_copy(const struct array *array);

/** What element @index stands for now. */
float array_at(const struct array *array, int64_t index);

/** Make element @index @value, rounded. */
void array_set(struct array *array, int64_t index, float value);

/** Release. */
void array_release(struct array *array);

/** Element @index of @array is now @want up to one rounding to its type and @error [absolute]. */
#define expect(array, index, want, error) array_expect(#array, &(array), index, want, error)

/** @a and @b have the same bits. */
#define expect_same(a, b) array_expect_same(#a, &(a), &(b))

/** @holds is true, for element @index of what is called @name. */
void array_holds(const char *name, int64_t index, bool holds);

/** For expect(). */
void array_expect(const char *name, const struct array *array, int64_t index, double want,
                  double error);

/** For expect_same(). */
void array_expect_same(const char *name, const struct array *a, const struct array *b);

/* ---- rows ---- */

/** A size at which a row is tried; what its numbers mean is up to the row. */
struct size {
    const char *text;
    int32_t of[10];
};

/** One, as it is written. */
#define SIZE(...)                                                                                  \
    {                                                                                              \
#__VA_ARGS__,                                                                              \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/** A row: one kernel or a few, and what they are to compute. */
struct row {
    const char *name;
    void (*check)(const int32_t *size, enum dtype type); /**< runs and compares */
    const struct size *sizes;                            /**< the last has no text */
    enum dtype first, last;                              /**< those that are tried */
};

/** Run all @rows as cases of cmocka: threads in order, and in reverse.  @return how many failed. */
int rows_run(const struct row *rows, int32_t count);
