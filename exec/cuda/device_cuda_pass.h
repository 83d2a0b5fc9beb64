#pragma once

/** @file
 * Forward and backward passes on a GPU, layer by layer; inside exec/cuda/device_cuda*.c alone.
 */

#include "exec/cuda/device_cuda_state.h"

/** Issue layer @index forward, on micro-batch @micro of @images (its images); with @micro of -1 in
 * inference. */
void cuda_pass_forward(struct device_state *state, cudaStream_t stream, int32_t index,
                       const void *images, int32_t micro);

/** Issue the loss of micro-batch @micro and its gradient. */
void cuda_pass_loss(struct device_state *state, cudaStream_t stream, struct cuda_slot *slot,
                    int32_t micro);

/** Issue the gradient of layer @index's input; of batch norm that of its parameters too. */
void cuda_pass_backward_data(struct device_state *state, cudaStream_t stream, int32_t index,
                             int32_t micro);

/** Issue the gradient of the weights of layer @index. */
void cuda_pass_backward_filter(struct device_state *state, cudaStream_t stream, int32_t index,
                               const void *images, int32_t micro);
