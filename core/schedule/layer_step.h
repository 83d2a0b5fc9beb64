#pragma once

/** @file
 * What a layer does in one of its steps: arithmetic, traffic, kernels.
 */

#include "core/schedule/iteration.h"

/** The step of @schedule that runs the passes @from ... @to of layer @index, which depends on
 * nothing yet. */
struct step layer_step(struct schedule *schedule, const struct iteration *it, int32_t index,
                       enum compute_op op, enum pass from, enum pass to);

/** Of memory that the loss moves, for each score. */
int64_t layer_loss_bytes(const struct iteration *it);
