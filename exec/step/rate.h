#pragma once

/** @file
 * Learning rate and weight decay over a training run, as pure arithmetic.
 *
 * The rate at a point of the run is
 *
 *     base * (global batch / base batch, when given) * warm-up * decay
 *
 * where warm-up rises linearly from 0 to 1 over the first epochs and decay covers the rest of the
 * cycle.  Each of several cycles restarts decay (and warm-up).  With a collapse, each cycle ends in
 * a short second decay with its own rate and weight decay.  Source: Goyal et al. 2017 (linear
 * scaling, warm-up); Codreanu et al. 2017 (collapse).
 */

#include "core/scenario/phase.h"
#include "core/scenario/scenario.h"

/** What holds at one step. */
struct rate {
    double learning_rate, weight_decay;
    bool augment; /**< whether training images are cropped and flipped at random */
};

/** The rate of the step that starts @epoch (0 ... plan->epochs) into the run, with @global_batch
 * images. */
struct rate rate_at(const struct scenario *scenario, const struct plan *plan, double epoch,
                    int64_t global_batch);
