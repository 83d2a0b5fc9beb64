#pragma once

/** @file
 * Which uncertain input makes how much of the width of an interval.
 */

#include "core/base/answer.h"

/** What a prediction says. */
enum outcome {
    OUTCOME_STEP,   /**< time of a step of the last phase [s] */
    OUTCOME_IMAGES, /**< throughput in that phase [images/s] */
    OUTCOME_WEAK,   /**< scaling efficiency */
    OUTCOME_STRONG, /**< the same at the same global batch; NAN where that is not fixed */
    OUTCOME_TRAIN,  /**< time to train [s] */
    OUTCOME_COUNT
};

/** One uncertain input. */
struct doubt {
    char *key;                   /**< "platform.transport.between", or a few words; owned */
    char *range;                 /**< "5 us to 20 us"; NULL: not an unknown input but a number that
                                      a fit or its source leaves open; owned */
    double share[OUTCOME_COUNT]; /**< of the variance, alone (first-order Sobol index): 0 to 1; 0 up
                                      to what chance gives, NAN where nothing varies.  They need
                                      not add up to 1 */
};

/** All of a prediction.  Start from {0}; release with doubts_release(). */
struct doubts {
    struct doubt *item; /**< (count), the unknown inputs first; owned */
    int32_t count;
    int32_t unknown;         /**< unknown inputs among them */
    int32_t draws;           /**< of everything at once; 0: none were made */
    int32_t impossible;      /**< draws of unknown inputs that make no job; they are left out */
    char *reason;            /**< why the first of them is none; owned */
    int32_t simulated;       /**< draws that were simulated, too */
    double *seconds;         /**< (draws) time to train of each; owned */
    double *step;            /**< (draws) step of the last phase of each [s]; owned */
    int32_t *number;         /**< (draws) of the random numbers behind it, ascending; equal ones are
                                  equal in all jobs that are compared; owned */
    struct interval control; /**< the least and the greatest simulated step of the last phase over
                                  that of the closed form, as it entered the interval */
};

/** Unknown inputs, shares and draws. */
extern const struct answer_columns doubts_columns;

/** Append what makes the intervals wide: a table where there are unknown inputs, else a line. */
void doubts_print(struct text *out, const struct doubts *doubts);

/** Append the names of the three that do so most, in a line. */
void doubts_print_brief(struct text *out, const struct doubts *doubts);

void doubts_release(struct doubts *doubts);
