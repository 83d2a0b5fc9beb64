#pragma once

/** @file
 * A second stream, on which gradients of weights are formed beside batch norm's backward: the first
 * need arithmetic, the passes of the second memory.  Inside exec/cuda/device_cuda*.c alone.
 *
 * Only iterations that are launched whole may use it, and only on one rank: with several, a
 * bucket's exchange would have to wait for it, and all ranks would have to choose the same.  The
 * same kernels run on the same numbers, so the bits are the same.  Every other iteration uses it
 * until SIDE_RUNS of both kinds were timed from begin to end; the kind with the lower median then
 * stays, without the second stream if they tie.
 *
 * Gradients of weights read a gradient that the backward pass would overwrite soon
 * (exec/step/backward_plan.h): the step that does so waits.  So do the next forward pass and the
 * optimizer.  They need a workspace of their own, which together with the other must be within
 * MEMORY_WORKSPACE_LIMIT (core/schedule/memory.h); else there is no second stream.
 */

#include "exec/cuda/device_cuda_state.h"

/** Make the stream if it may be used; after plans were found, before memory is laid out. */
void cuda_side_open(struct device_state *state);

/** Release. */
void cuda_side_close(struct device_state *state);

/** Launch the graph of @slot, of the kind whose turn it is, on @compute.  @return false: there is
 * none yet. */
bool cuda_side_launch(struct device_state *state, struct cuda_slot *slot, struct stream *compute);

/** Fill *@choice once both kinds were timed: see device_ops.choices.  @return how many: 1 or 0. */
int32_t cuda_side_choices(const struct device_state *state, struct choice *choice);

/** The stream for work that reads gradient @read, which work before on @stream has written: a
 * second one, or @stream.  To be followed by cuda_side_forked(). */
cudaStream_t cuda_side_fork(struct device_state *state, cudaStream_t stream, const void *read);

/** That work was issued. */
void cuda_side_forked(struct device_state *state);

/** Let @stream wait for all of it. */
void cuda_side_join(struct device_state *state, cudaStream_t stream);

/** The same, if it reads what the backward step of layer @index may write. */
void cuda_side_clear(struct device_state *state, cudaStream_t stream, int32_t index);
