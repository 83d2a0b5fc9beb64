#pragma once

/** @file
 * The answer of `collective`: a row per size and back end, with the columns of nccl-tests, and the
 * errors of predictions where the same was measured.
 */

#include <stdbool.h>

#include "app/measure/measure.h"
#include "core/base/json.h"

/** The verdict on a prediction that is compared with a measurement. */
enum verdict {
    VERDICT_NONE,      /**< no measurement, or not in a lab, or a size below TABLE_JUDGED_BYTES */
    VERDICT_PASS,      /**< within the tolerance */
    VERDICT_FAIL,      /**< not */
    VERDICT_DISTURBED, /**< the measurement is no judge */
    VERDICT_COUNT
};

/** "-", "pass", "fail", "disturbed". */
const char *verdict_name(enum verdict verdict);

/** Below this size a lab measures how processes share this machine's processors. */
#define TABLE_JUDGED_BYTES 1000000

/** Tolerance of a prediction for @bytes in a lab, as a fraction of the measurement: 5 % from 8 MB,
 * else 15 %, because the wake-up of processes affects short messages. */
double table_tolerance(int64_t bytes);

/** One row. */
struct table_row {
    const char *backend, *grain; /**< "sim", "folded"; borrowed */
    char *choice;                /**< of algorithm nccl; or NULL; owned */
    int64_t bytes;
    int32_t steps; /**< rounds */
    double time_s;
    bool compared; /**< there is a measurement of the same size */
    double error;  /**< of a prediction relative to the measurement */
    enum verdict verdict;
    const struct measured *measured; /**< of a measurement; else NULL; borrowed */
};

/** The rows, and their common properties. */
struct table {
    const char *platform;  /**< or NULL; borrowed */
    const char *algorithm; /**< borrowed */
    const char *backends;  /**< as in the row, or as the user listed them; borrowed */
    const char *gradients; /**< type of exchanged numbers in measurements; NULL: no measurement */
    bool converts;         /**< the type has 16 bits, while predictions know only the bytes */
    bool judged;           /**< measured in a lab: verdicts count */
    struct grid grid;
    bool has_rows;                    /**< the rows and columns of the grid mean something */
    const struct grid_choice *choice; /**< of the grid; borrowed */
    enum rank_order order;
    char *cards;           /**< cards_text(), or NULL; owned */
    struct table_row *row; /**< (count) owned; one size after another */
    int32_t count;
};

/** Compare each prediction of @table with the measurement of its size, if there is one. */
void table_compare(struct table *table);

/** The worst verdict of all: fail, disturbed, pass, none. */
enum verdict table_verdict(const struct table *table);

/** Append the table for people. */
void table_print(struct text *out, const struct table *table);

/** The rows as a JSON array. */
struct json *table_rows(const struct table *table);

/** Append the table as one JSON object. */
void table_print_json(struct text *out, const struct table *table);

void table_release(struct table *table);
