#pragma once

/** @file
 * What a step of the CUDA device moves, with the plans it has; only for exec/cuda/device_cuda*.c.
 */

#include "exec/cuda/device_cuda_state.h"

/** Bytes that @step reads and writes, as device_ops.moved says.  Numbers per channel are left out.
 */
int64_t cuda_moved(const struct device_state *state, const struct step *step);
