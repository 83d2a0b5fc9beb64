#pragma once

/** @file
 * How much longer a rank computes than the model says: jitter and stragglers.
 */

#include <stdbool.h>
#include <stdint.h>

/** Random slowness. */
struct noise {
    double compute_cv;         /**< coefficient of variation of a rank's compute time per step */
    double straggler_fraction; /**< of ranks that are slow */
    double straggler_slowdown; /**< 0.5: they take 1.5 times as long */
    uint64_t seed;
};

/** What of it a prediction has: the index in noise_words. */
enum noise_choice { NOISE_EXPECTED, NOISE_DRAWN, NOISE_NONE, NOISE_CHOICE_COUNT };

/** "expected", "drawn", "none", NULL-terminated. */
extern const char *const noise_words[];

/** The smallest noise_factor(). */
#define NOISE_FACTOR_MINIMUM 0.1

/** How much longer compute takes on @rank in @iteration: 1 without noise.  Lognormal with mean 1,
 * times 1 + slowdown on the ranks drawn as stragglers.  Depends on seed, rank and iteration. */
double noise_factor(const struct noise *noise, int32_t rank, int32_t iteration);

/** Whether it makes anybody slower. */
bool noise_is_any(const struct noise *noise);

/** The largest noise_factor() of @ranks ranks in @iteration. */
double noise_slowest(const struct noise *noise, int32_t ranks, int32_t iteration);

/** Something that depends on the factor of the slowest rank. */
typedef double noise_function(void *context, double factor);

/** The expectation of @function of the slowest of @ranks ranks, for which all wait.  Each rank is a
 * straggler with the stated probability, and draws its own lognormal; the seed plays no part.
 * Integrated over the distribution of the slowest, F^ranks, to a thousandth of what noise adds. */
double noise_expect(const struct noise *noise, int32_t ranks, noise_function *function,
                    void *context);

/** The expected factor of the slowest of @ranks ranks. */
double noise_expected_slowest(const struct noise *noise, int32_t ranks);
