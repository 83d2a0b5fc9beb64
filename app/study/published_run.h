#pragma once

/** @file
 * Predict published runs and report the errors.
 */

#include "app/cli/request.h"
#include "app/predict/uncertainty.h"
#include "app/study/published_map.h"
#include "core/base/json.h"

/** One row, predicted.  Start from {0}; release with published_answer_release(). */
struct published_answer {
    const struct published_row *row; /**< borrowed */
    char *refusal;                   /**< why there is no prediction, or NULL; owned */
    struct published_job job;
    char backend[16], grain[16];
    double step;            /**< one step, without copies into the fusion buffer [s] */
    double predicted;       /**< one step [s] */
    double measured;        /**< [s], or NAN */
    struct interval likely; /**< 90 % of the draws [s] */
    double exposed;         /**< waiting for the exchange of gradients [s] */
    double startup;         /**< part of the time to train [s] */
    double evaluation;      /**< part of the time to train [s] */
    double train;           /**< predicted time to train, without evaluation's overheads [s] */
};

/** Predict @row into zeroed @answer with the back end of @options; the platform and scenario it is
 * mapped to are written to @directory, or for NULL to memory.
 * @return 0, also for a refused row; -1: files cannot be written, or the back end failed on the
 * mapped row (our mistake, exit code 70). */
int published_predict(struct published_answer *answer, const struct published_row *row,
                      const char *directory, const struct predict_options *options,
                      struct err *err);

/** Predicted / measured - 1; NAN without a measurement. */
double published_error(const struct published_answer *answer);

void published_answer_release(struct published_answer *answer);

/** How well one role is predicted. */
struct published_summary {
    int32_t rows;    /**< predicted and measured */
    double median;   /**< of |error| */
    double p90;      /**< 90th percentile of |error| */
    double worst;    /**< largest |error| */
    double coverage; /**< measured values inside their interval */
};

/** Sum up the rows of @role.  All NAN but rows when there are none. */
struct published_summary published_sum_up(const struct published_answer *answer, int32_t count,
                                          enum published_role role);

/** Append the table and the summary for people. */
void published_print(struct text *out, const struct published_answer *answer, int32_t count);

/** The rows of the table as a JSON array; those that are refused have a reason. */
struct json *published_rows(const struct published_answer *answer, int32_t count);

/** All as JSON, schema "foretrain/published/1". */
struct json *published_json(const struct published_answer *answer, int32_t count);
