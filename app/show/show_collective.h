#pragma once

/** @file
 * `foretrain show collective`: the rounds of an all-reduce, message by message, or drawn: what each
 * rank holds of each chunk.
 */

#include "core/collective/collective.h"
#include "core/network/fabric.h"

/** The most ranks: a set of them is 64 bits. */
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
