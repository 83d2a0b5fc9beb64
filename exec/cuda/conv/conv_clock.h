#pragma once

/** @file
 * How long work takes on the device, and memory with numbers for it to work on.  All that is
 * compared with each other is timed by conv_clock_time(), on the same kind of numbers.
 */

#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "core/base/dtype.h"
#include "exec/cuda/conv/conv_check.h"

enum {
    CONV_CLOCK_MOST = 31,  /**< runs at once */
    CONV_CLOCK_RUNS = 15,  /**< of each of those between which is decided */
    CONV_CLOCK_ROUNDS = 3, /**< of those, in turns, so that a disturbance affects all; the lowest
                                median counts */
};

/** A stream and what times on it. */
struct conv_clock {
    cudaStream_t stream;
    void *flush; /**< memory that is written before, so that caches are without the operands */
    cudaEvent_t event[CONV_CLOCK_MOST + 2];
};

/** Make @clock on the current device; with @flushes it also clears caches, if there is memory for
 * that.  Release with conv_clock_close() in any case. */
cudaError_t conv_clock_open(struct conv_clock *clock, bool flushes);

/** Wait for the stream and release; @clock may be all zero. */
void conv_clock_close(struct conv_clock *clock);

/** The median of @runs (at most CONV_CLOCK_MOST) calls of @issue in a row [s], after one that is
 * not timed.  Infinite: @issue returned false, or *@error says why. */
double conv_clock_time(struct conv_clock *clock, bool (*issue)(void *context), void *context,
                       int32_t runs, cudaError_t *error);

/** Fill @size bytes at @to, on the device, with the pattern of @array in @type. */
cudaError_t conv_fill(void *to, int64_t size, enum dtype type, enum conv_array array);
