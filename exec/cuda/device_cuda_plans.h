#pragma once

/** @file
 * The plans of a network's convolutions; only for exec/cuda/device_cuda*.c.
 */

#include "exec/cuda/device_cuda_state.h"

/** Find the plans of all layers, in struct cuda_place, and the workspace that they need.
 * @return 0, or -1 (exit code 69): a layer that cuDNN cannot run. */
int cuda_plans_find(struct device_state *state, struct err *err);
