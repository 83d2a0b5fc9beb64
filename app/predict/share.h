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

/** The largest index that @inputs would have of @count draws if none of them had an effect: no more
 * than this is noise.
 * Source: with k classes the part of the variance between them is that of chi squared with k - 1
 * degrees of freedom among count - 1 (analysis of variance); its quantiles after Wilson and
 * Hilferty, PNAS 17 (1931); the largest of n normal numbers is about sqrt(2 ln n) (Donoho and
 * Johnstone, Biometrika 81, 1994). */
double share_noise(int32_t count, int32_t inputs);
