#pragma once

/** @file
 * The memory of a device that training takes, from shapes and types alone.
 *
 * The sum includes the arrays that any implementation keeps: masters of the weights, their
 * gradients, the optimizer's state, a copy of the weights in the type of the arithmetic if that
 * differs, the value of every layer (kept for backward; of a sum that ranks share,
 * what is left of it), the gradients of the largest two values,
 * and the images read ahead.  Where the optimizer is sharded, a rank keeps its part of that state
 * alone, and of the masters if there is a copy to compute with; those of biases and batch norm,
 * which every rank then keeps, are left out.  With parallel.sharding 2 it keeps its part of the
 * gradients, too, beside those of two groups of layers, which are computed and sent; with 3 its
 * part of the weights, of both types, beside those of the two groups that are gathered and those
 * that other layers use.  A GPU that crops pictures itself also keeps some of
 * them before that, which need more room if it decodes JPEG files; a CPU keeps none.  The workspace
 * of libraries does not follow from shapes; callers add it.  The libraries' code and buffers of
 * communication are not included.
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
    int64_t activations; /**< values of all layers, and gradients of two, of one micro-batch */
    int64_t input;       /**< local batches read ahead, the one in use, and pictures before they are
                              cropped */
    int64_t workspace;   /**< of libraries; 0 until the caller sets it */
};

/** For @batch images per device of which @micro pass through at once, with an optimizer in @shards
 * (iteration_shards()). */
struct memory_plan memory_plan(const struct model *model, const struct scenario *scenario,
                               int32_t shards, int64_t batch, int64_t micro);

/** Whether nothing is negative.  For assert(). */
bool memory_check(const struct memory_plan *plan);

/** Sum of all. */
int64_t memory_total(const struct memory_plan *plan);

/** The largest batch, passing through at once, that fits into @capacity bytes beside a workspace of
 * @fixed bytes and @image bytes for each image; 0: none does. */
int64_t memory_largest_batch(const struct model *model, const struct scenario *scenario,
                             int32_t shards, int64_t fixed, int64_t image, int64_t capacity);
