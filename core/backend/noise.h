#pragma once

/** @file
 * How much longer a rank computes than the model says: jitter and stragglers.
 */

#include <stdint.h>

/** Random slowness. */
struct noise {
    double compute_cv;         /**< coefficient of variation of a rank's compute time per step */
    double straggler_fraction; /**< of ranks that are slow */
    double straggler_slowdown; /**< 0.5: they take 1.5 times as long */
    uint64_t seed;
};

/** The smallest noise_factor(). */
#define NOISE_FACTOR_MINIMUM 0.1

/** How much longer compute takes on @rank in @iteration: 1 without noise.  Lognormal with mean 1,
 * times 1 + slowdown on the ranks drawn as stragglers.  Depends only on the seed, the rank and the
 * iteration. */
double noise_factor(const struct noise *noise, int32_t rank, int32_t iteration);

/** The expected factor of the slowest of @ranks ranks, for which all wait.  The seed decides which
 * ranks are stragglers; the expected maximum of n normals is Phi^-1((n - 0.375) / (n + 0.25)).
 * Source: Blom, Statistical Estimates and Transformed Beta-Variables, 1958. */
double noise_expected_slowest(const struct noise *noise, int32_t ranks);
