#pragma once

/** @file
 * Seconds for a step on a device: a roofline with a cost per kernel.
 *
 * seconds = kernels * overhead + max(flops / (peak * math efficiency), bytes / (bandwidth * memory
 * efficiency)) + exchanges * COST_NORM_EXCHANGE.  Under software that knows kinds of kernels, each
 * kind reaches its own part of both efficiencies, of the sustained peak; depthwise convolutions, of
 * the peak of fp32; matrix products with tensor cores, a part by their shape.  What makes the
 * inputs of a product narrow takes its bytes before that.  The efficiencies are those of the step's
 * class where the device file has them.  A step of a measured shape costs its measured time
 * (core/platform/device_table.h) plus the exchanges.  Monotone: more work or a slower device never
 * takes less time, but for products whose rows are better aligned with more elements.
 */

#include "core/platform/platform.h"
#include "core/schedule/schedule.h"

/** Seconds for one exchange of batch norm's sums between two devices of a node: a few KiB, written
 * to the other's memory, made visible, and waited for, as NCCL's protocol Simple does.
 * Source: NCCL 2.28.9 src/graph/tuning.cc, a ring's hop over NVLink. */
#define COST_NORM_EXCHANGE 3.4e-6

/** The part of a STEP_COMPUTE beside its kernels [s]: exchanges of batch norm, and what lies
 * between two iterations. */
double cost_added(const struct device *device, const struct step *step);

/** Duration of a STEP_COMPUTE on @device [s]. */
double cost_compute(const struct device *device, const struct step *step);

/** What the host takes at least to launch the kernels of an iteration [s]; 0: it is no limit. */
double cost_host(const struct device *device, const struct schedule *schedule);

/** Duration of a STEP_INPUT: images / (workers * rate) [s]; 0 when workers is 0. */
double cost_input(const struct step *step, int64_t workers, double rate);
