#pragma once

/** @file
 * Which rank holds up the others.  In synchronous training all ranks take equally long for a step:
 * the slow ones compute, the others wait for their gradients.  So it is the rank that waits least.
 */

#include <stdint.h>

/** How long the ranks have waited since one was last named, the same on all.  Start from {0}. */
struct straggler {
    double *wait;   /**< (ranks) owned; NULL: nothing was added yet [s] */
    double seconds; /**< of these steps */
};

/** A rank that holds up the others. */
struct straggling {
    int32_t rank;   /**< -1: none */
    double wait_s;  /**< the others waited so much longer than this one, on average */
    double seconds; /**< in these steps */
};

/** Add that this rank waited for @wait_s for all-reduces in steps of @seconds; on all ranks
 * together.  A rank is named when the others have waited for it for a second and for a fifth of the
 * time: our choices.  After ten seconds counting begins anew. */
struct straggling straggler_add(struct straggler *straggler, double wait_s, double seconds);

void straggler_release(struct straggler *straggler);
