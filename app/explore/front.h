#pragma once

/** @file
 * The best compromises of a sweep: points for which no other one is better in one of two numbers
 * and at least as good in the other.
 */

#include <stdbool.h>
#include <stdint.h>

/** Two numbers of a point, of which less is better; NAN: the point does not count. */
struct merit {
    double time;  /**< [s] */
    double hours; /**< of devices */
};

/** Set @on (count) to whether each of @merit (count) is on the front; equal points are all on it.
 */
void front_find(const struct merit *merit, int64_t count, bool *on);
