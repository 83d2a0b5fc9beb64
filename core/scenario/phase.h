#pragma once

/** @file
 * Batch-size control: a whole training run as phases of equal steps.
 */

#include "core/scenario/scenario.h"

/** One phase, in counts. */
struct phase {
    double epochs;
    int64_t devices;
    int64_t batch_per_device; /**< images */
    int64_t global_batch;     /**< images */
    int64_t micro_batch;      /**< images that pass through the network at once */
    int64_t steps;            /**< of the whole phase: ceil(epochs * train_images / global_batch) */
    struct convergence_need need; /**< if there is a target: epochs to it with this batch alone */
};

/** The run in counts. */
struct plan {
    struct phase *phase;
    int32_t phase_count;
    double epochs;       /**< of all phases; with a target those expected */
    int64_t evaluations; /**< full passes over the validation set: floor(epochs / evaluate_every);
                              with a target one more, as one is at the end and they are counted back
                              from there */
};

/** How far the phases before the last one come on the way to the target, 1 being all of it: an
 * epoch with batch B is 1 / E(B) of the way, if the target takes E(B) epochs with B alone.  A model
 * that no published run checks.  E is @deviations standard deviations longer than its mean. */
double plan_progress(const struct plan *plan, double deviations);

/** The epochs of a whole run to the target: what the recipe needs, @deviations standard deviations
 * from its mean, rounded and prolonged as convergence_end() says with @uniform.  At least those
 * before the last phase. */
double plan_end(const struct plan *plan, double every, double deviations, double uniform);

/** Full passes over the validation set in @epochs epochs that end with one, as at a target. */
int64_t plan_evaluations(double epochs, double every);

/** Of a batch of @images on one device, those that pass through the network at once:
 * training.micro_batch, or all; with training.accumulate a part in as many as divide it, at least
 * so many. */
int64_t phase_micro_batch(const struct scenario *scenario, int64_t images);

/** Passes of training.accumulate in a step. */
int64_t phase_passes(const struct scenario *scenario);

/** What the @images or more of a device and step are a multiple of: passes, or training.micro_batch
 * where they are more. */
int64_t phase_multiple(const struct scenario *scenario, int64_t images);

/** Images per device and step of @phase on @devices devices, in all passes; a global batch that
 * cannot be divided evenly is rounded as the phase says, down when it must be exact
 * (resolved_build() refuses that). */
int64_t phase_batch(const struct scenario *scenario, const struct scenario_phase *phase,
                    int64_t devices);

/** Lay out the phases of @scenario for a cluster of @devices devices, of which scenario_parts()
 * take each batch together, which resolved_build() has checked; release with plan_release(). */
struct plan plan_build(const struct scenario *scenario, int64_t devices);

void plan_release(struct plan *plan);
