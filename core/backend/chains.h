#pragma once

/** @file
 * A schedule with fewer steps: those of which each begins when the one before ends, and nothing
 * else asks when, are one chain.  What times a schedule hundreds of times, with other seconds each
 * time, walks chains in place of steps.  Where what runs beside each other is slowed down,
 * lanes_run() alone says how long it takes.
 */

#include "core/schedule/schedule.h"

enum { CHAINS_WIDE = 8 /**< schedules that are timed at once */ };

/** Release with chains_release(). */
struct chains {
    const struct schedule *schedule; /**< borrowed */
    int32_t count;
    int32_t *of;                    /**< (steps) the chain of each */
    struct dep *before;             /**< chains that end before */
    int32_t *begin;                 /**< (count + 1) the first of each chain's in before */
    int32_t *repeat;                /**< (count) the STEP_REPEAT that it is, or -1 */
    double (*seconds)[CHAINS_WIDE]; /**< (count) of each [s], for the caller to set */
    double (*end)[CHAINS_WIDE];     /**< (2 * count) private */
};

/** Of sealed @schedule. */
struct chains chains_new(const struct schedule *schedule);

/** Seconds of the second iteration, once the chains have theirs, into @step (CHAINS_WIDE). */
void chains_step(const struct chains *chains, double *step);

void chains_release(struct chains *chains);
