#pragma once

/** @file
 * Makes and releases a network in the memory of a GPU; inside exec/cuda/device_cuda*.c alone.
 */

#include "exec/cuda/device_cuda_state.h"

/** Converted to the type of the device, for the uploaded table and for single steps. */
struct kernel_rate cuda_state_rate(double learning_rate, double weight_decay);

/** Allocate, and find the plans of convolutions, kept in the file @cache (conv_open()).
 * @return 0, or -1 (exit code 69): a layer that cuDNN cannot run, or too little memory.  Either way
 * cuda_state_release(). */
int cuda_state_init(struct device_state *state, const struct device_job *job, const char *cache,
                    struct err *err);

/** Release; @state is zero, or cuda_state_init() was called. */
void cuda_state_release(struct device_state *state);
