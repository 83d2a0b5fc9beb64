#pragma once

/** @file
 * Runs of tests/exec/device_run.h on the CUDA device in software: its own sources and kernels on a
 * software runtime and naive convolutions.  So what is tested is everything but cuDNN, nvcc and the
 * GPU.
 */

#include "exec/step/walk.h"
#include "tests/core/own.h"
#include "tests/exec/device_compare.h"

/** By OWN(). */
OWNED(walker, walker_free)

/** A run on the CUDA device that ends with its block, where it must leave nothing behind. */
#define CUDA_RUN __attribute__((cleanup(cuda_run_close))) struct device_run

/** Open @run for @job on the CUDA device; fails the test where that fails. */
void cuda_run_open(struct device_run *run, struct device_run_job job);

/** For CUDA_RUN. */
void cuda_run_close(struct device_run *run);

/** The gradients of @run, on any device, in fp32 and torchvision's order; the caller frees them. */
float *cuda_run_gradients(struct device_run *run);

/** The network toy, for 16 x 16 pixels and 4 classes. */
struct model *cuda_run_toy(void);

/** Two micro-batches of two images, in fp16. */
struct device_run_job cuda_run_toy_job(const struct model *model);

/** The schedule of an iteration of @run. */
struct schedule *cuda_run_schedule(const struct device_run *run);

/** Copies of what @run has trained; for HELD(weights). */
struct weights cuda_run_read(const struct device_run *run);

/** Fail the test where @a and @b, of @model, differ in a bit. */
void cuda_run_same_bits(const struct model *model, const struct weights *a,
                        const struct weights *b);
