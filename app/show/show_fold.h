#pragma once

/** @file
 * An all-reduce of many ranks, folded: all rounds of all ranks are played, a few ranks are shown,
 * and rounds that are alike are shown once.
 */

#include "app/show/show_collective.h"

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

/** Before the first round of @c, whose ranks are as many as on @grid, which chooses those that are
 * shown.  @fabric may be NULL. */
struct folded *folded_new(const struct collective *c, struct grid grid, const struct fabric *fabric,
                          int64_t bytes);

void folded_free(struct folded *fold);

/** Play the next round, or with @rest all that are like the one before.  @return those played. */
struct folded_rounds folded_play(struct folded *fold, bool rest);

/** Whether there is a round, and with @rest whether it is like the one before. */
bool folded_goes_on(const struct folded *fold, bool rest);

/** The chunks that @rank holds as SHOW_CELLS letters at most: . each its own, + sums of some, *
 * some sums of all, # nothing but those. */
void folded_letters(const struct folded *fold, int32_t rank, char letters[SHOW_CELLS + 1]);

/** show_messages() with one line for messages of a round that go equally far. */
void folded_messages(struct text *out, const struct collective *c);

/** show_holdings() of the ranks that are shown, with how many chunks of all ranks are complete, and
 * at the end the busiest link of each kind. */
void folded_holdings(struct text *out, const struct collective *c, const struct fabric *fabric,
                     int64_t bytes);
