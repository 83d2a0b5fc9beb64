#pragma once

/** @file
 * The answer of `collective`: a row per size and back end, with the columns of nccl-tests, and the
 * errors of predictions where the same was measured.
 */

#include "app/measure/measure.h"

/** The verdict on a prediction that is compared with a measurement. */
enum verdict {
    VERDICT_NONE,      /**< no measurement, or not in a lab, or a size below TABLE_JUDGED_BYTES */
    VERDICT_PASS,      /**< within the tolerance */
    VERDICT_FAIL,      /**< not */
    VERDICT_DISTURBED, /**< the measurement is no judge */
    VERDICT_COUNT
};

/** Below this size a lab measures how processes share this machine's processors. */
#define TABLE_JUDGED_BYTES 1000000

/** One row.  table_compare() fills what follows from the rest. */
struct table_row {
    const char *backend, *grain; /**< "sim", "folded"; borrowed */
    const char *choice;          /**< of algorithm nccl; or NULL; borrowed */
    int64_t bytes;
    int32_t steps; /**< rounds */
    double time_s;
    double algbw, busbw; /**< as nccl-tests has them [bytes/s] */
    double error;        /**< of a prediction relative to the measurement of the same size; NAN:
                              there is none */
    double tolerance;    /**< of the error; NAN: no verdict */
    enum verdict verdict;
    const char *judgement;           /**< the same in words; NULL: nothing was compared */
    const struct measured *measured; /**< of a measurement; else NULL; borrowed */
};

/** The rows, and their common properties. */
struct table {
    const char *platform;  /**< or NULL; borrowed */
    const char *algorithm; /**< borrowed */
    const char *software;  /**< that says the version of NCCL; NULL: the default; borrowed */
    int32_t nccl;          /**< that version, 100 * major + minor; 0: not by NCCL */
    const char *backends;  /**< as in the row, or as the user listed them; borrowed */
    const char *backend;   /**< of all rows, or the list; borrowed */
    const char *grain;     /**< of the first row; borrowed */
    const char *verdict;   /**< the worst of the rows'; NULL: one back end that predicts */
    const char *gradients; /**< type of exchanged numbers in measurements; NULL: no measurement */
    bool converts;         /**< the type has 16 bits, while predictions know only the bytes */
    bool judged;           /**< measured in a lab: verdicts count */
    int32_t ranks;
    struct grid grid;                 /**< {0}: its rows and columns mean nothing */
    const char *why;                  /**< this grid was chosen; NULL: it was given; borrowed */
    const struct grid_choice *choice; /**< of the grid; borrowed */
    enum rank_order order;
    char *cards;           /**< cards_text(), or NULL; owned */
    struct table_row *row; /**< (count) owned; one size after another */
    int32_t count;
};

/** Compare each prediction of @table with the measurement of its size, if there is one, and fill
 * what follows from the rows. */
void table_compare(struct table *table);

/** The worst verdict of all: fail, disturbed, pass, none. */
enum verdict table_verdict(const struct table *table);

/** Append the table for people. */
void table_print(struct text *out, const struct table *table);

/** The answer of `collective`, and its rows. */
extern const struct answer_columns collective_columns, collective_row_columns;

void table_release(struct table *table);
