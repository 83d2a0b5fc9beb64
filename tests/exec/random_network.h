#pragma once

/** @file
 * Small networks of every shape that devices must run, for tests.
 */

#include "core/schedule/model.h"

/** A network that follows from @seed: plain convolutions, residual blocks with and without a
 * projection, pools, a linear layer or two; every third in odd numbers of channels, which no block
 * of 16 fits.  Released with model_free(). */
struct model *random_network(uint64_t seed);

/** The seed after @seed, which is 0 at first, of the random networks that a test tries: as many as
 * $FORETRAIN_TEST_NETWORKS says, where that is set, or @usual.  On a GPU, every shape of every
 * network costs a search for plans; a nightly run has time.  A lone network is number 12: odd
 * numbers of channels, and two micro-batches.
 * @return whether there is one. */
bool random_seed(uint64_t *seed, int32_t usual);
