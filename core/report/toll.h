#pragma once

/** @file
 * What failures and checkpoints add to the time of a prediction, for people and programs.
 */

#include "core/base/base.h"
#include "core/report/doubts.h"
#include "core/report/failures.h"

/** Of one prediction.  Start from {0}. */
struct toll {
    bool any;                    /**< the files say something of them */
    struct failures failures;    /**< of the centre */
    double spread;               /**< standard deviation of the logarithm of the mtbf */
    double every;                /**< [epochs] between checkpoints; 0: only one, at the end */
    bool chosen;                 /**< `every` is the best, not given */
    double work;                 /**< time to train without both [s]; set if !any, too */
    struct interval work_likely; /**< its 90 % interval */
    double total;                /**< expected with both [s] */
};

/** The numbers of a toll as an answer has them, NAN where there is none. */
struct toll_answer {
    double mtbf, expected, restart, checkpoint, checkpoints;
    double interval, epochs; /**< between checkpoints [s], [epochs] */
    const char *from;        /**< where the interval comes from; NULL: there are no checkpoints */
    double daly, young, saving, failing, without;
    struct interval without_likely;
};

/** They follow from @toll. */
struct toll_answer toll_answer(const struct toll *toll);

/** The columns of a toll_answer. */
extern const struct answer_columns toll_columns;

/** Append them as rows of a table, "  %-24s%16s"; nothing if there are none. */
void toll_print(struct text *out, const struct toll *toll);
