#pragma once

/** @file
 * What failures and checkpoints add to the time of a prediction, for people and programs.
 */

#include "core/base/base.h"
#include "core/base/json.h"
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

/** Put "failures" into @json: an object of nulls if there are none. */
void toll_put(struct json *json, const struct toll *toll);

/** Append them as rows of a table, "  %-24s%16s"; nothing if there are none. */
void toll_print(struct text *out, const struct toll *toll);
