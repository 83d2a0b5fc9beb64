#pragma once

/** @file
 * The plans of a network's convolutions; only for exec/cuda/device_cuda*.c.
 *
 * A value of batch norm and ReLU that only one convolution reads need not be written: the
 * convolution, and in backward the gradient of its weights, can apply both to their input.  Whether
 * that is faster depends on layer and device, so all ways are timed, each with our kernels before
 * and behind it (exec/cuda/conv/conv_chain.h), and the times are kept beside the plans, so that
 * processes with one file use the same.  Where they cannot be timed nothing is merged.
 *
 * The gradient of such a value need not be read again either: the convolution that forms it can
 * mask it by the ReLU and form the sums for batch norm's backward.  Then no mask is written.  The
 * same holds for the value at the end of a block, for the convolution that gives the second of its
 * two gradients: it adds the first, and forms the sums of both batch norms where there are two.
 * There the same convolution may in forward apply, add and write the value, which it reads first.
 */

#include "exec/cuda/device_cuda_state.h"

/** Find the plans of all layers, in struct cuda_place; those that are not to be run are NULL.
 * Before memory is laid out: where place.applied is then set, the value is never written while
 * training; where place.derives is, its gradient comes cut.
 * @return 0, or -1 (exit code 69): a layer that cuDNN cannot run. */
int cuda_plans_find(struct device_state *state, struct err *err);

/** Fill @choice with the chains that merge something: see device_ops.choices.  @return how many. */
int32_t cuda_plans_choices(const struct device_state *state, struct choice *choice);
