#pragma once

/** @file
 * What one collective algorithm provides to core/collective/collective.c.  Private to
 * core/collective/.
 *
 * Two ideas keep the algorithms small.  A broadcast is a reduction played backwards: the same
 * rounds in reverse order with the two ends of each message exchanged (exchange_reversed()).  And
 * a two-level algorithm is a one-level algorithm on a subset of ranks and elements, with peers and
 * offsets translated (exchange_translated()).
 */

#include "core/collective/collective.h"

/** One algorithm.  All arguments are valid and ranks is at least 2. */
struct collective_ops {
    bool supports[COLLECTIVE_OP_COUNT]; /**< which operations it can compute */

    /** Rounds until all ranks are done. */
    int32_t (*rounds)(const struct collective *c);

    /** What @rank does in @round. */
    struct exchange (*exchange)(const struct collective *c, int32_t rank, int32_t round);

    /** The largest message of @round as a fraction of the vector. */
    double (*share)(const struct collective *c, int32_t round);

    /** The pattern of @round.  NULL: each round is a pattern of its own. */
    int32_t (*pattern)(const struct collective *c, int32_t round);

    /** How many patterns.  NULL with pattern. */
    int32_t (*pattern_count)(const struct collective *c);

    /** The first round of @pattern.  NULL with pattern. */
    int32_t (*pattern_round)(const struct collective *c, int32_t pattern);
};

extern const struct collective_ops collective_ring;                 /**< collective_ring.c */
extern const struct collective_ops collective_tree;                 /**< collective_tree.c */
extern const struct collective_ops collective_double_tree;          /**< collective_double_tree.c */
extern const struct collective_ops collective_halving_doubling;     /**< collective_halving.c */
extern const struct collective_ops collective_halving_doubling_far; /**< collective_halving.c */
extern const struct collective_ops collective_hierarchical; /**< collective_hierarchical.c */
extern const struct collective_ops collective_torus2d;      /**< collective_torus2d.c */

/** The absence of a message. */
#define MESSAGE_NONE ((struct message){.peer = -1})

/** The first element of block @block when @elements are cut into @blocks blocks, as even as can be;
 * @block may be @blocks, which gives @elements. */
int64_t block_offset(int64_t elements, int32_t blocks, int32_t block);

/** The message with @peer that carries elements @begin ... @end - 1. */
struct message message_range(int32_t peer, int64_t begin, int64_t end, bool reduce);

/** The broadcast that belongs to the reduction @exchange: received elements are sent back and sent
 * elements are received, overwriting. */
struct exchange exchange_reversed(struct exchange exchange);

/** @exchange of a smaller collective seen from the larger one: peer p becomes @base + p * @stride,
 * offsets grow by @offset. */
struct exchange exchange_translated(struct exchange exchange, int32_t base, int32_t stride,
                                    int64_t offset);

/** The smallest k with 2^k >= @n. */
int32_t log2_ceiling(int32_t n);
