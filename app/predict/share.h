#pragma once

/** @file
 * How much of what varies comes from one input.
 */

#include <stdint.h>

/** The first-order Sobol index of input @x on @y (both @count draws): the part of the variance of
 * @y that is gone once @x is known, Var(E(y | x)) / Var(y).  From the draws themselves, as a
 * correlation ratio: x in sqrt(count) classes of equally many draws (equal values together),
 * without what chance alone would give.
 * @return 0 to 1; NAN if @y does not vary. */
double share_of(const double *x, const double *y, int32_t count);
