#pragma once

/** @file
 * A schedule with fewer steps: those of which each begins when the one before ends, and nothing
 * else asks when, are one chain.  What times a schedule hundreds of times, with other seconds each
 * time, walks chains in place of steps.  Where what runs beside each other is slowed down,
 * lanes_run() alone says how long it takes.
 */

#include "core/schedule/schedule.h"

enum { CHAINS_WIDE = 8 /**< schedules that are timed at once */ };

/** Steps of which each begins when the one before ends. */
struct chain {
    int32_t begin; /**< the first of its own in chains.before */
    int32_t slot;  /**< where its end is kept */
    int32_t times; /**< how often it repeats what began when its first before ended; mostly 0 */
    bool leads;    /**< another of the same iteration waits for it */
};

/** Release with chains_release(). */
struct chains {
    int32_t count, slots;
    int32_t *of;                    /**< (steps) the chain of each */
    struct dep *before;             /**< slots of chains that end before */
    struct chain *chain;            /**< (count + 1) the last one only ends the one before */
    double (*seconds)[CHAINS_WIDE]; /**< (count) of each [s], for the caller to set */
    double (*end)[CHAINS_WIDE];     /**< (2 * slots) private */
};

/** Of sealed @schedule. */
struct chains chains_new(const struct schedule *schedule);

/** Seconds of the second iteration, once the chains have theirs, into @step (CHAINS_WIDE). */
void chains_step(const struct chains *chains, double *step);

void chains_release(struct chains *chains);
