#pragma once

/** @file
 * The fastest correct engine for a convolution, by trying those that cuDNN offers on the device.
 */

#include "exec/cuda/conv/conv_cache.h"
#include "exec/cuda/conv/conv_cudnn_graph.h"

/** Find the engine for @op on @shape; choice->engine is -1 if none is usable.
 * @return 0, or -1: the device failed, or (exit code 69) all engines are wrong. */
int conv_search(const struct conv_target *target, enum conv_op op, const struct conv_shape *shape,
                struct conv_choice *choice, struct err *err);

/** Vary the settings of the engine in @choice, one after the other, and keep what is faster and
 * right, until no single change is, or for about as long as 1000 runs take, half a second at most.
 * choice->seconds is measured anew.
 * @return 0, or -1: the device failed. */
int conv_tune(const struct conv_target *target, enum conv_op op, const struct conv_shape *shape,
              struct conv_choice *choice, struct err *err);
