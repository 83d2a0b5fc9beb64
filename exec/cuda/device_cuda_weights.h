#pragma once

/** @file
 * Weights of the GPU device: the order of tensors, and copies to and from the host; only for
 * exec/cuda/device_cuda*.c.
 */

#include "exec/cuda/device_cuda_state.h"

/** Where each tensor lies: fill state->tensor, and
 * state->chunk. */
void cuda_state_place_tensors(struct device_state *state);

/** Where a convolution may write the gradient of weights @tensor itself: its place in the flat
 * gradients, where that has the type, the shape and the alignment of cuDNN's, and nothing is added
 * to it or multiplied.  NULL: kernel_pack() brings it there. */
void *cuda_state_direct(const struct device_state *state, const struct kernel_tensor *tensor);

/** Whether convolutions read weights @tensor where ranks gather them, without a padded copy. */
bool cuda_state_straight(const struct device_state *state, const struct kernel_tensor *tensor);

/** The place of vector @tensor in the masters. */
int64_t cuda_state_master(const struct device_state *state, const struct kernel_tensor *tensor);

/** Elements of the masters, or of the momentum. */
int64_t cuda_state_elements(const struct device_state *state, bool momentum);

/** Elements of the buffer of working copies. */
int64_t cuda_state_working_elements(const struct device_state *state);

/** Copy @size bytes at @from to the device and wait until they are there.  cudaMemcpy() from
 * pageable memory only waits until they are on their way, on a stream that ours do not wait for. */
void cuda_state_upload(const struct device_state *state, const void *to, const void *from,
                       size_t size);

/** Upload what kernel_optimizer() walks over. */
void cuda_state_upload_tensors(struct device_state *state);

/** Issue the update of the copies of the masters: padded copies of biases and of batch norm's
 * parameters and, with @working, of weights. */
void cuda_state_refresh(struct device_state *state, cudaStream_t stream, bool working);

/** Of a shard: issue the same for layer @index, whose parameters were gathered. */
void cuda_state_receive(struct device_state *state, cudaStream_t stream, int32_t index);

/** See device_ops. */
void cuda_state_turn(const struct device_state *state, bool back, const float *from, float *to);

/** See device_ops. */
void cuda_state_read(const struct device_state *state, const struct weights *weights);

/** See device_ops. */
void cuda_state_write(struct device_state *state, const struct weights *weights);
