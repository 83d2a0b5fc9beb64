#pragma once

/** @file
 * The answer of `collective`: a row per size and back end, with the columns of nccl-tests, and what
 * predictions are off by where the same was measured.
 */

#include <stdbool.h>

#include "app/measure/measure.h"

/** What is to be said of a prediction beside a measurement. */
enum verdict {
    VERDICT_NONE,      /**< nothing was measured, or not in a lab, or the size is below
                            TABLE_JUDGED_BYTES */
    VERDICT_PASS,      /**< within the tolerance */
    VERDICT_FAIL,      /**< not */
    VERDICT_DISTURBED, /**< the measurement is no judge */
    VERDICT_COUNT
};

/** "-", "pass", "fail", "disturbed". */
const char *verdict_name(enum verdict verdict);

/** Below, a lab measures how processes share the processors of this machine. */
#define TABLE_JUDGED_BYTES 1000000

/** What a prediction for @bytes may be off by in a lab, as a fraction of the measurement: 5 % from
 * 8 MB, else 15 %, for messages so short that waking processes shows. */
double table_tolerance(int64_t bytes);

/** One row. */
struct table_row {
    const char *backend, *grain; /**< "sim", "folded"; borrowed */
    char *choice;                /**< of algorithm nccl; or NULL; owned */
    int64_t bytes;
    int32_t steps; /**< rounds */
    double time_s;
    bool compared; /**< a measurement of the same size stands beside it */
    double error;  /**< of a prediction relative to the measurement */
    enum verdict verdict;
    const struct measured *measured; /**< of a measurement; else NULL; borrowed */
};

/** The rows, with what they have in common. */
struct table {
    const char *platform;  /**< or NULL; borrowed */
    const char *algorithm; /**< borrowed */
    const char *backends;  /**< as in the row, or as the user listed them; borrowed */
    const char
        *gradients; /**< the type in which measured ones travelled; NULL: none was measured */
    bool converts;  /**< it has 16 bits, and back ends that predict know only its bytes */
    bool judged;    /**< measured in a lab: verdicts count */
    struct grid grid;
    enum rank_order order;
    struct table_row *row; /**< (count) owned; one size after another */
    int32_t count;
};

/** Compare each prediction of @table with the measurement of its size, if there is one. */
void table_compare(struct table *table);

/** The worst verdict of all: fail, disturbed, pass, none. */
enum verdict table_verdict(const struct table *table);

/** Append the table for people. */
void table_print(struct text *out, const struct table *table);

/** Append the table as one JSON object. */
void table_print_json(struct text *out, const struct table *table);

/** Release. */
void table_release(struct table *table);
