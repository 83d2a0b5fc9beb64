#pragma once

/** @file
 * A prediction against a measurement: two traces of one schedule, joined step by step.
 *
 * It uses the last iteration of the prediction, and all but the first of the measurement.
 */

#include <stdbool.h>

#include "core/backend/trace.h"
#include "core/base/base.h"
#include "core/base/err.h"
#include "core/report/report.h"
#include "core/schedule/schedule.h"

/** What a row is about. */
enum validate_group {
    VALIDATE_STEP, /**< the whole step, from the end of one iteration to the next one's */
    VALIDATE_KIND, /**< all steps of one kind, mean over the ranks */
    VALIDATE_LANE, /**< busy time of one lane, mean over the ranks */
    VALIDATE_PART, /**< a part of the step, on the rank that ends last: core/report/report.h */
    VALIDATE_COLLECTIVE, /**< one collective: from the entry of the last rank to the exit of the
                              last rank */
    VALIDATE_GROUP_COUNT
};

/** One predicted and measured time [s]. */
struct validate_row {
    enum validate_group group;
    const char *name;   /**< "forward", "bucket 0 row reduce-scatter"; borrowed */
    double predicted_s; /**< in the last iteration */
    double measured_s;  /**< median over the iterations */
    double quartile_s;  /**< the lower one, since disturbances can only lengthen */
    double error;       /**< of the prediction, relative to the median, in a lab to the lower
                             quartile; NAN where either is 0 */
};

/** The verdict on the step time. */
enum validate_verdict {
    VALIDATE_PASS,      /**< within the tolerance */
    VALIDATE_FAIL,      /**< not */
    VALIDATE_DISTURBED, /**< measured longer, but the lower quartile is within the tolerance, or
                             other processes had the processors.  In a lab: whenever they had,
                             unless the prediction is longer by more than the tolerance.  Repeat on
                             a quieter machine */
    VALIDATE_VERDICT_COUNT
};

/** The comparison.  Release with validation_release(). */
struct validation {
    double tolerance;         /**< on the step's error, as a fraction */
    bool lab;                 /**< measured in a lab: all other influences than its network only
                                   disturb */
    const char *error_of;     /**< "median", in a lab "lower quartile" */
    int32_t iterations;       /**< measured */
    double *time;             /**< (iterations) the step times in their order [s]; owned */
    struct validate_row *row; /**< (count) the first is the whole step; owned */
    int32_t count;
    double waiting_s;       /**< predicted for waiting for slower ranks, beyond the trace [s] */
    double step_s;          /**< predicted */
    struct interval likely; /**< its 90 % interval [s]; NAN where there is none */
    bool inside;            /**< the measured step is in it */
    bool busy;              /**< other processes' share of the processors, or lost packets, may have
                                 lengthened steps */
    enum validate_verdict verdict;
};

/** Check that two traces can be compared: one schedule (@schedule's, unless that is NULL), at least
 * one predicted iteration and two measured ones, spans of that schedule's steps.
 * @return 0, or -1 (exit code 65). */
int validate_check(const struct schedule *schedule, const struct trace *predicted,
                   const struct trace *measured, struct err *err);

/** Compare two checked traces into @validation, whose tolerance, lab, likely and busy are
 * filled.  Without a @schedule there is only the row of the whole step.  Names are borrowed from
 * @schedule.
 */
void validate_compare(const struct schedule *schedule, const struct trace *predicted,
                      const struct trace *measured, struct validation *validation);

/** The measured iteration whose step time is nearest to the median. */
int32_t validate_typical(const struct trace *measured);

/** Append the rows for people. */
void validation_print(struct text *out, const struct validation *validation);

/** The answer of `validate`. */
struct validation_answer {
    const char *sha256, *platform;       /**< NULL: there is no job; borrowed */
    const char *device;                  /**< that was run; NULL: none was; borrowed */
    bool lab;                            /**< it ran in the platform's lab */
    int32_t ranks;                       /**< that were measured */
    const struct trace *predicted;       /**< borrowed */
    const struct validation *validation; /**< borrowed */
    const struct validate_notes *notes;  /**< borrowed */
};

/** Its columns. */
extern const struct answer_columns validation_columns;

/** Write @all, what `validate --json` prints, as a page to @file.
 * @return 0, or -1: it cannot be written (exit codes 73, 74). */
int validation_page(const char *file, const struct json *all, struct err *err);

void validation_release(struct validation *validation);
