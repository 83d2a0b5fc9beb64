#pragma once

/** @file
 * Rows of an answer's JSON as a table for people, in text and on pages.
 *
 * Columns are words such as "devices, step_s, reason: no answer because": keys, in their order,
 * each with a heading where answer_label() will not do.  "step_s~" is followed by the ends of its
 * 90 % interval.  Units follow from the keys (core/base/answer.h).  A column without any value is
 * left out.
 */

#include "core/base/answer.h"

/** One of them. */
struct columns_item {
    char *key, *label; /**< owned */
    bool text;         /**< some row has what is no number here */
    bool end;          /**< of the interval of the column before */
};

/** The columns that are shown.  Release with columns_release(). */
struct columns {
    struct columns_item *item; /**< (count) owned */
    int32_t count;
};

/** Those of @words that @rows, an array of objects, have. */
struct columns columns_of(const char *words, const struct json *rows);

void columns_release(struct columns *columns);

/** The cell of @row: "yes" or "no" of a boolean; of null "" or, among numbers, "-"; owned. */
char *columns_cell(const struct columns_item *item, const struct json *row);

/** Append @rows as lines: numbers to the right, texts to the left, columns as wide as needed. */
void columns_print(struct text *out, const char *words, const struct json *rows);
