#pragma once

/** @file
 * Which GPU is this rank's.
 */

#include "core/base/err.h"

/** Let the calling thread work on the GPU of this rank: of those that are visible
 * (CUDA_VISIBLE_DEVICES) the one with its number among the ranks of the machine, counted round.
 * @return 0, or -1 (exit code 69): there is none, or its driver is missing or too old. */
int cuda_choose_device(struct err *err);
