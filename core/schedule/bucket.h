#pragma once

/** @file
 * Gradient buckets: the order in which gradients become ready, cut into messages.
 *
 * Backward visits the layers from last to first.  Gradients are packed in that order into buckets
 * of at most `limit` bytes; a tensor may span two buckets, so all buckets but the last are full.
 * Gradients of experts that ranks share are summed over other ranks, and have buckets of their own.
 * So have weights that two stages use where an optimizer is sharded, since a rank must have the
 * same shard of them in both (as Megatron-LM's distributed optimizer). Weights that several layers
 * use are ready after the first of them in the list, which has them. Source: the fixed-size packing
 * of Sony's nnabla-ext-cuda all_reduce_callback.
 */

#include "core/scenario/scenario.h"
#include "core/schedule/model.h"

/** One bucket. */
struct bucket {
    int64_t bytes; /**< payload */
    int32_t layer; /**< ready once this layer's gradient is: the lowest layer index inside */
    bool experts;  /**< of those that ranks share */
    bool apart;    /**< of one layer alone, of any size */
};

/** Buckets in the order they become ready. */
struct bucket_list {
    struct bucket *bucket;
    int32_t count;
};

/** What allreduce.bucket says; else all gradients of @model, or where these are sharded those of
 * its largest block, as users of FSDP wrap layers [bytes]. */
int64_t bucket_limit(const struct model *model, const struct scenario *scenario);

/** Cut the gradients of @model in @dtype.  @limit [bytes] of 0: one bucket of everything.  Layer
 * @apart has a bucket of its own; -1: none has.  Release with bucket_list_release(). */
struct bucket_list bucket_build(const struct model *model, enum dtype dtype, int64_t limit,
                                int32_t apart);

void bucket_list_release(struct bucket_list *list);
