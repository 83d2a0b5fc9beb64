#pragma once

/** @file
 * Convolutions as plain loops on host memory, in the layouts of exec/cuda/conv/conv.h; sums are
 * fp32.
 */

#include "exec/cuda/conv/conv.h"

/** Compute @op on @shape; operands that the op does not name are not looked at, and those that it
 * does must be there, on 16 bytes.  No workspace is used. */
void conv_loops(enum conv_op op, const struct conv_shape *shape, const struct conv_call *call);
