#pragma once

/** @file
 * Training on an NVIDIA GPU: convolutions by cuDNN (exec/cuda/conv/conv.h), everything else by own
 * kernels (exec/cuda/kernels/kernels.h), in fp32, fp16 or bf16 with fp32 master weights.
 *
 * Activations are NHWC with channels padded to a multiple of 8, and the padding is 0.  Images in
 * 16 bits have 4 where convolutions alone read them.  Batch
 * norm, ReLU and residual add are applied in one pass, including those of a projection; bit masks
 * keep the ReLU. Gradients have the order of exec/step/layout.h, tensor by tensor, but inside a
 * weight they are (out, height, width, in); read() and write() transpose them.
 *
 * Everything except incoming pictures (exec/cuda/pictures/feed.h), and gradients where the
 * transport has memory for them, is in one allocation, made by open.  Values that change from
 * iteration to iteration (its number, loss scale, images) are in the memory of its slot, so an
 * iteration that was captured once per slot can be launched again.  The schedule of the learning
 * rate (device_job.rate) is a table in the device's memory, where the optimizer's kernels look up
 * their iteration.
 */

#include "exec/step/device.h"

/** The name is "cuda". */
extern const struct device_ops device_cuda_ops;

/** Bytes of the device's memory for @job, without the workspace of convolutions. */
int64_t device_cuda_bytes(const struct device_job *job);
