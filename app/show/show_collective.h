#pragma once

/** @file
 * `foretrain show collective`: the rounds of an all-reduce, message by message, or drawn: what each
 * rank holds of each chunk.
 */

#include "core/base/base.h"
#include "core/collective/collective.h"
#include "core/network/fabric.h"

/** The most ranks that are all shown: a set of ranks is 64 bits.  More: app/show/show_fold.h. */
enum { SHOW_COLLECTIVE_RANKS = 64 };

/** What one round costs when each link is shared evenly by what crosses it. */
struct show_round {
    double seconds;  /**< of its slowest message */
    int64_t largest; /**< message [bytes] */
    int32_t busiest; /**< the link that carries most */
    double load;     /**< on it [bytes] */
};

/** The cost of @round of @sized, whose elements are bytes; what it puts on each link is added to
 * @sum (link_count) if that is not NULL. */
struct show_round show_time_round(const struct collective *sized, const struct fabric *fabric,
                                  int32_t round, double *sum);

/** Append that @cost, after a word about the round. */
void show_tell_round(struct text *out, const struct fabric *fabric, const struct show_round *cost);

/** Append the busiest link of each kind with its @load (link_count) [bytes], a line each. */
void show_loads(struct text *out, const struct fabric *fabric, const double *load);

/** Append what rank @from sends, as a line. */
void show_message(struct text *out, int32_t from, const struct message *message);

/** What @round of @c does: "all-reduce in columns".  Which of the algorithm's phases it is. */
const char *show_phase_name(const struct collective *c, int32_t round);

/** Append who sends which elements of @c to whom, in every round. */
void show_messages(struct text *out, const struct collective *c);

/** Append what each rank holds of each of @c's elements, at first and after every round: its own, a
 * part of the sum or all of it.  Ranks stand as on the grid where the algorithm follows one.  Each
 * round on @fabric (NULL: none) also tells the largest message of a vector of @bytes, the link that
 * carries most, and how long the slowest message takes when each link is shared evenly by what
 * crosses it in the round. */
void show_holdings(struct text *out, const struct collective *c, const struct fabric *fabric,
                   int64_t bytes);
