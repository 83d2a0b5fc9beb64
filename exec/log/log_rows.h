#pragma once

/** @file
 * Inner side of log.h: records as lines of CSV and of JSON, by one table of members.
 */

#include <stddef.h>

#include "core/base/base.h"

/** Type of a member. */
enum log_kind {
    LOG_INTEGER, /**< int64_t */
    LOG_REAL,    /**< double */
    LOG_TIME,    /**< double, seconds since 1970: written in whole milliseconds */
    LOG_BOOLEAN, /**< bool */
    LOG_WORD     /**< const char *, without quotes, commas and blanks */
};

/** One member; a table ends with name NULL. */
struct log_row {
    const char *name; /**< column and key */
    enum log_kind kind;
    size_t offset; /**< in the record */
};

/** Append the names as the first line of a CSV file. */
void log_rows_header(struct text *out, const struct log_row *rows);

/** Append @record as a line of CSV: booleans are 0 and 1, numbers that are not finite "nan", "inf"
 * and "-inf". */
void log_rows_csv(struct text *out, const struct log_row *rows, const void *record);

/** Append @record as a line of JSON whose first member is "event": @event; numbers that are not
 * finite are null.  Other numbers have the same digits as in CSV: 9 of them. */
void log_rows_json(struct text *out, const struct log_row *rows, const void *record,
                   const char *event);
