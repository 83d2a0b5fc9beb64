#pragma once

/** @file
 * The time a calibration may take, and what it tells meanwhile on stderr: on a terminal one line
 * with the time that is left, else a line for each thing it measures.
 *
 * The time is divided among parts, in order; what a part leaves, the next ones have.  A part
 * measures in rounds.  The first always runs; another one runs if it ends in time, taking as long
 * as the longest so far.
 */

#include <stdbool.h>
#include <stdint.h>

/** Start with budget_open(), end with budget_close(). */
struct budget {
    double seconds;              /**< of all */
    double end, part_end;        /**< by the monotonic clock [s] */
    double round_begin, longest; /**< of the part's rounds [s] */
    int32_t rounds;              /**< of the part that began */
    const char *what;            /**< is measured; borrowed */
    bool strict;                 /**< what is disturbed is an error, not a wide spread */
    bool terminal;               /**< stderr is one */
};

/** @seconds from now on. */
struct budget budget_open(double seconds, bool strict);

/** Begin a part, called @what, with the fraction @share of the time that is left. */
void budget_part(struct budget *budget, const char *what, double share);

/** Whether a round more may begin; then it has begun. */
bool budget_next(struct budget *budget);

/** The time of the part [s]. */
double budget_of_part(const struct budget *budget);

/** Remove the line on the terminal; say how long it took where that is a fifth too much. */
void budget_close(struct budget *budget);
