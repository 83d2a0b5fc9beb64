#pragma once

/** @file
 * `foretrain show collective`: the rounds of an all-reduce, message by message, or drawn: what each
 * rank holds of each chunk.
 */

#include "core/base/base.h"
#include "core/base/err.h"
#include "core/collective/collective.h"
#include "core/network/fabric.h"

/** The most ranks that are all shown: a set of ranks is 64 bits.  More: folded_new(). */
enum { SHOW_COLLECTIVE_RANKS = 64 };

/** What one round costs when each link is shared evenly by what crosses it. */
struct show_round {
    double seconds;  /**< of its slowest message */
    int64_t largest; /**< message [bytes] */
    int32_t busiest; /**< the link that carries most */
    double load;     /**< on it [bytes] */
};

/** Append who sends which elements of @c to whom, in every round. */
void show_messages(struct text *out, const struct collective *c);

/** Append what each rank holds of each of @c's elements, at first and after every round: its own, a
 * part of the sum or all of it.  Ranks stand as on the grid where the algorithm follows one.  Each
 * round on @fabric (NULL: none) also tells the largest message of a vector of @bytes, the link that
 * carries most, and how long the slowest message takes when each link is shared evenly by what
 * crosses it in the round. */
void show_holdings(struct text *out, const struct collective *c, const struct fabric *fabric,
                   int64_t bytes);

/* ---- many ranks, folded ---- */

/* An all-reduce of many ranks, folded: all rounds of all ranks are played, a few ranks are shown,
 * and rounds that are alike are shown once. */

enum {
    SHOW_FOLDED_RANKS = 8192, /**< at most: what they hold is two bytes for each pair of ranks */
    SHOW_CELLS = 64,          /**< letters of a rank, each for as many chunks */
};

/** What all ranks hold.  From folded_new() to folded_free(). */
struct folded {
    const struct collective *c;  /**< with one element a rank; borrowed */
    const struct fabric *fabric; /**< or NULL; borrowed */
    int64_t bytes;               /**< of the vector, with a fabric */
    int32_t shown[16], count;    /**< first and last ranks of first and last rows */
    int32_t across;              /**< of them in a row */
    uint16_t *held;              /**< (ranks x ranks) summands of each chunk; owned */
    double *load;                /**< (link_count) [bytes] so far, with a fabric; owned */
    int32_t round;               /**< the next one */
};

/** Rounds that are alike: same peers, same part of the vector, same phase. */
struct folded_rounds {
    int32_t first, last;
    double seconds;         /**< of all of them, with a fabric */
    struct show_round cost; /**< of the last one */
};

/** show_messages() with one line for messages of a round that go equally far. */
void folded_messages(struct text *out, const struct collective *c);

/** show_holdings() of the ranks that are shown, with how many chunks of all ranks are complete, and
 * at the end the busiest link of each kind. */
void folded_holdings(struct text *out, const struct collective *c, const struct fabric *fabric,
                     int64_t bytes);

/* ---- in motion ---- */

/* An all-reduce in motion: a page on which every round is played, forwards and back, beside other
 * algorithms on the same ranks and links. */

/** Write the page to @path: @c, and beside it those of ring, tree, halving-doubling, hierarchical
 * and torus2d that it is not.  With a @fabric (else NULL) each round takes as long as
 * show_holdings() says for a vector of @bytes, else one beat; groups of hierarchical are of @group
 * ranks.
 * @return 0, or -1: it cannot be written (exit codes 73, 74). */
int show_motion(const char *path, const struct collective *c, int32_t group,
                const struct fabric *fabric, int64_t bytes, struct err *err);
