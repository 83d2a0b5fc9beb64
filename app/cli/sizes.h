#pragma once

/** @file
 * The sizes of --bytes: "100MB", "1MB,10MB", "1MB..64MB:x2"; as in nccl-tests, "8" is bytes, and
 * "64K", "1M" and "1G" are binary.
 */

#include <stdint.h>

#include "core/base/err.h"

/** Start from {0}; release with sizes_release(). */
struct sizes {
    int64_t *item; /**< (count) [bytes]; owned */
    int32_t count;
};

/** Append the sizes of @text.
 * @return 0, or -1 with exit code 64: no size, less than 1 B or 9 EB and more, a range without a
 * factor above 1, more than 1000 sizes. */
int sizes_read(struct sizes *sizes, const char *text, struct err *err);

/** One size, of --chunk; 0 for NULL.
 * @return 0, or -1 with exit code 64: no size, less than 1 B or 9 EB and more. */
int chunk_read(int64_t *bytes, const char *text, struct err *err);

void sizes_release(struct sizes *sizes);
