#pragma once

/** @file
 * The fast CPU device: convolutions, linear layers and max pools by oneDNN, the rest by
 * exec/cpu/dnnl/kernels.h, on OpenMP threads, in fp32; convolutions and products in bf16, too.
 *
 * Runs every network of models/.  Results have the same bits in every run with the same number of
 * threads.
 */

#include "exec/step/device.h"

/** The name is "cpu". */
extern const struct device_ops device_dnnl_ops;
