#pragma once

/** @file
 * Gradient buckets: the order in which gradients become ready, cut into messages.
 *
 * Backward visits the layers from last to first.  Gradients are packed in that order into buckets
 * of at most `limit` bytes; a tensor may span two buckets, so all buckets but the last are full.
 * Gradients of experts that ranks share are summed over other ranks, and have buckets of their own.
 * Weights that several layers use are ready after the first of them in the list, which has them.
 * Source: the fixed-size packing of Sony's nnabla-ext-cuda all_reduce_callback.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/schedule/model.h"

/** One bucket. */
struct bucket {
    int64_t bytes; /**< payload */
    int32_t layer; /**< ready once this layer's gradient is: the lowest layer index inside */
    bool experts;  /**< of those that ranks share */
};

/** Buckets in the order they become ready. */
struct bucket_list {
    struct bucket *bucket;
    int32_t count;
};

/** Cut the gradients of @model in @dtype.  @limit [bytes] of 0: one bucket of everything.
 * Never fails; release with bucket_list_release(). */
struct bucket_list bucket_build(const struct model *model, enum dtype dtype, int64_t limit);

/** Whether the buckets hold every gradient once, all but the last of each kind full.  For assert().
 */
bool bucket_check(const struct bucket_list *list, const struct model *model, enum dtype dtype,
                  int64_t limit);

void bucket_list_release(struct bucket_list *list);
