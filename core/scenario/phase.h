#pragma once

/** @file
 * Batch-size control: a whole training run as phases of equal steps.
 */

#include "core/scenario/scenario.h"

/** One phase, in counts. */
struct phase {
    double epochs;
    int64_t batch_per_device; /**< images */
    int64_t global_batch;     /**< images */
    int64_t micro_batch;      /**< images that pass through the network at once */
    int64_t steps;            /**< of the whole phase: ceil(epochs * train_images / global_batch) */
};

/** The run in counts. */
struct plan {
    struct phase *phase;
    int32_t phase_count;
    double epochs;       /**< of all phases */
    int64_t evaluations; /**< full passes over the validation set: floor(epochs / evaluate_every) */
};

/** Of a batch of @images on one device, those that pass through the network at once:
 * training.micro_batch, or all. */
int64_t phase_micro_batch(const struct scenario *scenario, int64_t images);

/** Images per device of @phase on @devices devices; a global batch that cannot be divided evenly
 * is rounded as the phase says, down when it must be exact (resolved_build() refuses that). */
int64_t phase_batch(const struct scenario_phase *phase, int64_t devices);

/** Lay out the phases of @scenario for @devices devices, which resolved_build() has checked;
 * release with plan_release(). */
struct plan plan_build(const struct scenario *scenario, int64_t devices);

/** Release. */
void plan_release(struct plan *plan);
