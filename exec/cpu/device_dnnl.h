#pragma once

/** @file
 * The CPU device that is fast: convolutions, linear layers and max pools by oneDNN, what lies
 * between them by exec/cpu/kernels.h, on OpenMP threads, in fp32.
 *
 * Runs every network of models/.  Results have the same bits in every run with the same number of
 * threads.
 */

#include "exec/device.h"

/** The name is "cpu". */
extern const struct device_ops device_dnnl_ops;

/** Memory for activations, gradients, weights and images that open() would take for @job [bytes];
 * oneDNN's own copies of weights and working space come on top. */
int64_t device_dnnl_bytes(const struct device_job *job);
