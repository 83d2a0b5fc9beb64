#pragma once

/** @file
 * The real time of one all-reduce of exec/step/comm.h, and disturbances.
 *
 * A time is that of the slowest rank, from a common start.  Every run adds whole numbers, and every
 * element of its result is checked.  Runs use several vectors in turn, so that their data is mostly
 * not in the caches, like gradients after a backward pass.  Possible disturbances are recorded for
 * each run: time taken by the host of a virtual machine (steal), time of other processes on this
 * machine, retransmitted TCP segments.  Disturbed runs are repeated, within a limit.
 *
 * All ranks of the job call these functions together, after world_start().
 */

#include "core/schedule/schedule.h"

/** One all-reduce. */
struct timing_sample {
    double time_s;       /**< of the slowest rank */
    double steal;        /**< part of the processors' time that the host took */
    double foreign;      /**< fraction used by processes other than the ranks */
    int64_t retransmits; /**< TCP segments that the ranks' hosts sent again */
    int32_t disturbed;   /**< 1: steal or foreign above their limits */
};

enum {
    TIMING_WARM_UP = 2, /**< runs before the first measured one: connections open, windows grow */
    TIMING_BOUND = 2,   /**< limit of runs, as a multiple of the wanted ones, if some are
                             disturbed */
    TIMING_VECTORS = 16 /**< at most; fewer if they would need more than TIMING_MEMORY */
};

/** Bytes of all vectors together, unless one alone is larger.  Our choice. */
#define TIMING_MEMORY (1 << 25)
/** Above these fractions of the processors' time a run is disturbed.  Our choice: a ring all-reduce
 * of 1 MB among 16 hosts on two cores takes a tenth longer if other processes use half of them. */
#define TIMING_STEAL_LIMIT 0.02
/** The limit for other processes, if they leave less than TIMING_FREE_LIMIT idle. */
#define TIMING_FOREIGN_LIMIT 0.15
/** With this fraction of the processors' time idle, other processes delay no rank. */
#define TIMING_FREE_LIMIT 0.25

/** Run the all-reduce of sealed @schedule (or an all-gather alone, which is not checked) on fp32
 * numbers that travel as @payload, in as many bytes as the schedule says, until @repeats runs were
 * not disturbed, at most TIMING_BOUND * @repeats times.  @sample has room for all; it is the same
 * on all ranks.  @return the number of runs, or -1 with a message: another number of ranks than the
 * grid has (exit code 64), bytes that are no multiple of @payload (64), a collective that the
 * transport cannot run (69), a wrong sum (70). */
int32_t timing_run(const struct schedule *schedule, enum dtype payload, int32_t repeats,
                   struct timing_sample *sample, struct err *err);
