#pragma once

/** @file
 * Which GPU is this rank's.
 */

#include "core/base/err.h"

/** Set the GPU of the calling thread to that of this rank: the visible one (CUDA_VISIBLE_DEVICES)
 * with the rank's number on the machine, modulo their number.
 * @return 0, or -1 (exit code 69): there is none, or its driver is missing or too old. */
int cuda_choose_device(struct err *err);
