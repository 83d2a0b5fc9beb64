#pragma once

/** @file
 * The memory of a device that training takes, from shapes and types alone.
 *
 * The sum includes the arrays that any implementation keeps: masters of the weights, their
 * gradients, the optimizer's state, a copy of the weights in the type of the arithmetic if that
 * differs, every value that backward reads (sums, copies and what is inside of one kernel of
 * attention it does not; dropout keeps a byte for each value), the gradients of the largest two
 * values, and the images read ahead.  What only narrow products read (precision.products) is kept
 * narrow; narrow copies of weights are not counted.  Fused attention keeps its weights of all
 * positions, flash attention none.  Of what ranks gather to share a layer each keeps its part and
 * gathers it again (Megatron-LM).  What they sum is read by a stream of its own, so the allocator
 * holds it until the device is done, and a host may be ahead by as many as merges.ahead says
 * (PyTorch, CUDACachingAllocator.cpp: insert_events, and record_stream of ProcessGroupNCCL.cpp).
 * The loss of words is computed in fp32: scores and their gradients are there once more, and the
 * narrow gradient takes the place of the narrow scores (Megatron-LM, vocab_parallel_cross_entropy).
 * Where the optimizer is sharded, a rank keeps its part of that
 * state alone, and of the masters if there is a copy to compute with; those of biases and batch
 * norm, which every rank then keeps, are left out.  With parallel.sharding 2 it keeps its part of
 * the gradients, too, beside those of two groups of layers, which are computed and sent; with 3 its
 * part of the weights, of both types, beside those of the two groups that are gathered and those
 * that other layers use.  A GPU that crops pictures itself also keeps some of them before that,
 * which need more room if it decodes JPEG files; a CPU keeps none.  The workspace of libraries does
 * not follow from shapes; callers add it.  The libraries' code and buffers of communication are not
 * included.  Weights that are not trained are there in the type of the arithmetic alone.
 */

#include "core/scenario/scenario.h"
#include "core/schedule/model.h"

/** Memory that a convolution on a GPU may need while it runs [bytes]: engines that need more are
 * not used.  Our choice. */
enum { MEMORY_WORKSPACE_LIMIT = 1024 * 1024 * 1024 };

/** Bytes of one device. */
struct memory_plan {
    int64_t weights;     /**< masters, and the copy to compute with */
    int64_t gradients;   /**< of the weights, as they are exchanged */
    int64_t momentum;    /**< and all other state of the optimizer */
    int64_t activations; /**< values for backward, and gradients of two, of one micro-batch */
    int64_t loss;        /**< of words, of one micro-batch */
    int64_t input;       /**< local batches read ahead, the one in use, and pictures before they are
                              cropped */
    int64_t workspace;   /**< of libraries; 0 until the caller sets it */
    int64_t reserve;     /**< that the allocator holds beyond all these */
    int64_t first;       /**< the sum of all these of the first stage, where another needs most */
};

/** What is trained, and how. */
struct memory_case {
    const struct model *model;
    const struct scenario *scenario;
    struct merges merges; /**< of the device's software */
    int32_t shards;       /**< of the optimizer: iteration_shards() */
    int64_t batch, micro; /**< images of a device, and those that pass through at once */
};

/** The first of the layers that run forward again before the backward of layer @last, which is the
 * last of them: those of a block with parallel.recompute full, of its attention with selective; -1:
 * none end there. */
int32_t memory_again(const struct model *model, const struct scenario *scenario, int32_t last);

/** Workspace of libraries on a GPU that trains @model [bytes]: the limit if a window of
 * convolutions is wider than one value, else that of cuBLAS.  Source: PyTorch,
 * CUBLAS_WORKSPACE_CONFIG: 8 MiB, on Hopper 32. */
int64_t memory_workspace(const struct model *model);

/** What that takes, without a workspace, of a pipeline on the stage that takes most.  A stage keeps
 * the values of several micro-batches, as many as pipeline_in_flight() says of batch / micro. */
struct memory_plan memory_plan(const struct memory_case *of);

/** Sum of all. */
int64_t memory_total(const struct memory_plan *plan);

/** The largest batch, passing through at once, that fits into @capacity bytes beside a workspace of
 * @fixed bytes and @image bytes for each image, with all else as of @of, also as many
 * micro-batches; 0: none does. */
int64_t memory_largest_batch(const struct memory_case *of, int64_t fixed, int64_t image,
                             int64_t capacity);
