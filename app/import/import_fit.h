#pragma once

/** @file
 * Lines through times by size: seconds = latency + per_byte * bytes, in up to three pieces.
 *
 * Libraries change their protocol with the size of a message, and each protocol has its own line.
 * Weights are 1 / seconds^2, as errors of timing are relative.  The number of pieces minimises the
 * Bayesian information criterion (Schwarz 1978).  Deterministic.
 */

#include <stdbool.h>
#include <stdint.h>

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
    double residual; /**< root mean square of (measured - fitted) / measured */
};

/** Add a time.  @return whether there was room and both are above 0. */
bool curve_add(struct curve *curve, double size, double seconds);

/** Fit @curve, and sort it by size.
 * @return 0, or -1: fewer than two sizes, times that do not grow, or a build without GSL (exit code
 * 69). */
int curve_fit_lines(struct curve_fit *fit, struct curve *curve, struct err *err);
