#pragma once

/** @file
 * How long one all-reduce of exec/step/comm.h takes for real, and whether anything disturbed it.
 *
 * A time is that of the slowest rank, from a common start.  Every run adds up whole numbers, and
 * its result is checked on every element.  Runs take turns on several vectors, so that what they
 * exchange is mostly out of the caches, as gradients are after a backward pass.  What can disturb a
 * run on a shared machine is watched beside each: time that the host of a virtual machine took
 * (steal), time that other processes of this machine got, TCP segments sent again.  Disturbed runs
 * are repeated, within a bound.
 *
 * All ranks of the job call these functions together, after world_start().
 */

#include <stdint.h>

#include "core/base/dtype.h"
#include "core/base/err.h"
#include "core/schedule/schedule.h"

/** One all-reduce. */
struct timing_sample {
    double time_s;       /**< of the slowest rank */
    double steal;        /**< part of the processors' time that the host took */
    double foreign;      /**< part of it that processes other than the ranks got */
    int64_t retransmits; /**< TCP segments that the ranks' hosts sent again */
    int32_t disturbed;   /**< 1: steal or foreign above their limits */
};

enum {
    TIMING_WARM_UP = 2, /**< runs before the first that counts: connections open, windows grow */
    TIMING_BOUND = 2,   /**< times the wanted runs, at most, when runs are disturbed */
    TIMING_VECTORS = 16 /**< at most; fewer where they would take more than TIMING_MEMORY */
};

/** Bytes of all vectors together, unless one alone is larger.  Our choice. */
#define TIMING_MEMORY (1 << 25)
/** Above these parts of the processors' time a run counts as disturbed.  Our choice: a ring
 * all-reduce of 1 MB among 16 hosts on two cores takes a tenth longer when others have half of
 * them. */
#define TIMING_STEAL_LIMIT 0.02
/** See above: other processes, where they leave less than TIMING_FREE_LIMIT idle. */
#define TIMING_FOREIGN_LIMIT 0.15
/** Where so much of the processors' time is idle, other processes hold nobody up. */
#define TIMING_FREE_LIMIT 0.25

/** Run the all-reduce of sealed @schedule (or an all-gather alone, which is not checked) on fp32
 * numbers that travel as @payload, in as many bytes as the schedule says, until @repeats runs were
 * not disturbed, at most TIMING_BOUND * @repeats times.  @sample has room for as many; it is the
 * same on all ranks.
 * @return how many runs there are, or -1 with a message: not as many ranks as the grid has (exit
 * code 64), bytes that are no numbers of @payload (64), what the transport cannot run (69), a sum
 * that came out wrong (70). */
int32_t timing_run(const struct schedule *schedule, enum dtype payload, int32_t repeats,
                   struct timing_sample *sample, struct err *err);
