#pragma once

/** @file
 * Which plan each convolution of a network runs; inside exec/cuda/device_cuda*.c alone.
 *
 * A value of batch norm and ReLU that one convolution alone reads need not be written: the
 * convolution, and backward the gradient of its weights, can apply both to what they read.  Whether
 * that is faster differs from layer to layer and from device to device, so all ways are timed, and
 * what was seen is kept beside the plans (exec/cuda/conv/conv.h): who shares a file does the same.
 *
 * The gradient of such a value need not be read once more either: the convolution that forms it can
 * cut it by the ReLU and sum what batch norm's backward needs.  Then no mask is written.
 */

#include "exec/cuda/device_cuda_state.h"

/** Find the plans of all layers, in struct cuda_place; those that are not to be run are NULL.
 * Before memory is laid out: where place.applied is then set, the value is never written while
 * training; where place.derives is, its gradient comes cut.
 * @return 0, or -1 (exit code 69): a layer that cuDNN cannot run. */
int cuda_plans_find(struct device_state *state, struct err *err);
