#pragma once

/** @file
 * Streams and events of a GPU: those of CUDA, which exec/step/device.h follows.
 *
 * The calling thread must have chosen the GPU (exec/cuda/runtime/gpu.h).  Streams do not wait for
 * stream 0, and a thread that captures asks for no seconds.
 */

#include <cuda_runtime_api.h>

#include "exec/step/device.h"

/** Of a GPU. */
extern const struct stream_ops cuda_stream_ops;

/** CUDA's own; valid until @stream is freed. */
cudaStream_t cuda_stream_handle(const struct stream *stream);
