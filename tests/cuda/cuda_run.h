#pragma once

/** @file
 * Runs of tests/exec/device_run.h on the CUDA device in software: its own sources and kernels on a
 * software runtime and naive convolutions.  So what is tested is everything but cuDNN, nvcc and the
 * GPU.
 */

#include "tests/exec/device_run.h"

/** Open @run for @job on @ops; fails the test where that fails. */
void cuda_run_open(struct device_run *run, struct device_run_job job, const struct device_ops *ops);

/** Release; fails the test where the CUDA device leaves anything behind. */
void cuda_run_close(struct device_run *run);

/** The gradients of @run in fp32 and torchvision's order; the caller frees them. */
float *cuda_run_gradients(struct device_run *run);

/** How many random networks a test tries: @usual, or $FORETRAIN_TEST_NETWORKS where that is less.
 * On a GPU every shape of every network costs a search for plans. */
int32_t cuda_run_networks(int32_t usual);
