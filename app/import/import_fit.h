#pragma once

/** @file
 * Lines through times by size: seconds = latency + per_byte * bytes, in up to three pieces.
 *
 * Libraries change their protocol with the size of a message, and each protocol has its own line.
 * Weights are 1 / seconds^2, as errors of timing are relative.  The number of pieces minimises the
 * Bayesian information criterion (Schwarz 1978).  Deterministic.
 */

#include <stdbool.h>

#include "core/base/err.h"

enum {
    CURVE_PIECES = 3,    /**< lines, at most */
    CURVE_ROWS = 256,    /**< sizes, at most */
    CURVE_PIECE_ROWS = 4 /**< minimum number of sizes per line, with several lines */
};

/** Times by size.  Start from {0}. */
struct curve {
    double size[CURVE_ROWS];    /**< (count) [bytes] */
    double seconds[CURVE_ROWS]; /**< (count) */
    int32_t count;
};

/** One line, with the covariance of its two parameters. */
struct curve_piece {
    double from, to;         /**< the sizes it goes through [bytes] */
    double latency;          /**< [s] */
    double per_byte;         /**< [s/byte] */
    double latency_variance; /**< [s^2] */
    double covariance;       /**< [s^2/byte] */
    double per_byte_variance;
    int32_t rows;
};

/** The answer. */
struct curve_fit {
    struct curve_piece piece[CURVE_PIECES]; /**< by size */
    int32_t pieces;
};

/** Add a time in the order of sizes.  @return whether there was room and both are above 0. */
bool curve_add(struct curve *curve, double size, double seconds);

/** A relative standard deviation of two times from which nothing about their spread is known.  Our
 * choice: as of an assumed number. */
#define CURVE_UNKNOWN 0.30

/** Fit @curve.
 * @return 0, or -1: fewer than two sizes, times that do not grow, or a build without GSL (exit code
 * 69). */
int curve_fit_lines(struct curve_fit *fit, const struct curve *curve, struct err *err);

/** Fit one line to the rows of @curve from row @first on, two at least. */
void curve_fit_from(struct curve_piece *piece, const struct curve *curve, int32_t first);

/** A relative standard deviation s of @rows times about a line, widened by Student's t so that
 * 1.645 s is half of a 90 % interval; CURVE_UNKNOWN if fewer than three rows leave none.
 * @squares: the sum of squares of (measured - line) / measured. */
double curve_spread(double squares, int32_t rows);
