#pragma once

/** @file
 * How far simulations are: what `foretrain-sim --progress` writes, as a line for people.
 */

#include <stdint.h>

/** One simulation.  Start from {0}. */
struct progress {
    int64_t done, total; /**< messages; total is 0 until it has begun */
    double seconds;      /**< processor time since it began [s] */
    double begun;        /**< base_seconds(CLOCK_MONOTONIC) when that was first read [s] */
};

/** Update @progress with the last whole line "progress DONE TOTAL SECONDS" of the file @talk, whose
 * offset stays. */
void progress_read(struct progress *progress, int talk);

/** What follows such lines at the beginning of @talk. */
const char *progress_skip(const char *talk);

/** Processor time of the whole simulation, if the rest goes as fast as what is done [s]; 0: not
 * known, as in the first second. */
double progress_estimate(const struct progress *progress);

/** Time that is left by the same rule [s]; 0: not known. */
double progress_left(const struct progress *progress);
