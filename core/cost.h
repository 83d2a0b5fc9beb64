#pragma once

/** @file
 * Seconds for a step on a device: a roofline with a cost per kernel.
 *
 * seconds = kernels * overhead + max(flops / (peak * math efficiency),
 *                                    bytes / (bandwidth * memory efficiency)).
 * Monotone: more work or a slower device never takes less time.
 */

#include "core/platform.h"
#include "core/schedule.h"

/** Duration of a STEP_COMPUTE on @device [s]. */
double cost_compute(const struct device *device, const struct step *step);

/** Duration of a STEP_INPUT: images / (workers * rate) [s]; 0 when workers is 0. */
double cost_input(const struct step *step, int64_t workers, double rate);
