#pragma once

/** @file
 * Small networks of every shape that devices must run, for tests.
 */

#include "core/schedule/model.h"

/** A network that follows from @seed: plain convolutions, residual blocks with and without a
 * projection, pools, a linear layer or two; every third in odd numbers of channels, which no block
 * of 16 fits.  Released with model_free(). */
struct model *random_network(uint64_t seed);

/** How many random networks a test tries: $FORETRAIN_TEST_NETWORKS, where that is set, or @usual.
 * On a GPU, every shape of every network costs a search for plans; a nightly run has time. */
int32_t random_networks(int32_t usual);
