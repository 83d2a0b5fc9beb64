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

/** The network toy, for 16 x 16 pixels and 4 classes; the caller frees it. */
struct model *cuda_run_toy(void);

/** Two micro-batches of two images, in fp16. */
struct device_run_job cuda_run_toy_job(const struct model *model);

/** Copies of what @run has trained; release with cuda_run_free(). */
struct weights cuda_run_read(const struct device_run *run);

/** Release. */
void cuda_run_free(struct weights *weights);

/** Fail the test where @a and @b, of @layout, differ in a bit. */
void cuda_run_same_bits(const struct layout *layout, const struct weights *a,
                        const struct weights *b);
