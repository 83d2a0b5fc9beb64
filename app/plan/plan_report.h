#pragma once

/** @file
 * What a plan answers.
 */

#include "app/plan/search.h"

/** The answer. */
struct json *plan_json(const struct search *search);

/** Its columns. */
extern const struct answer_columns plan_columns;

/** The best, the next best and the front, a row each. */
struct json *plan_rows(const struct search *search);

/** Append all of it for people, and the `predict` that answers the same of the best. */
void plan_print(struct text *out, const struct search *search);

/** Write the answer as a page to @file: the sentence, the best and the next best, the front of time
 * and cost or device-hours, what moves the best.
 * @return 0, or -1: it cannot be written (exit codes 73, 74). */
int plan_page(const char *file, const struct search *search, struct err *err);

/** Add a message with exit code 1 to @err if no plan keeps the limits: by how much the nearest
 * misses them.  @return 0, or -1. */
int plan_verdict(const struct search *search, struct err *err);
