#pragma once

/** @file
 * From times by size to the links of a platform.
 */

#include "app/import/import.h"
#include "app/import/import_fit.h"

/** The numbers of a fit that a platform uses. */
struct curve_line {
    double latency;           /**< of the smallest sizes [s] */
    double latency_deviation; /**< its standard deviation [s] */
    double bandwidth;         /**< of the largest sizes [bytes/s] */
    double bandwidth_spread;  /**< its standard deviation, relative */
};

/** Fit lines to @curve and report them.  @return 0, or -1 with the file's name and the messages of
 * curve_fit_lines(). */
int import_fit_line(struct import *import, struct curve *curve, struct curve_line *line,
                    struct err *err);

/** Interpret @curve as all-reduces of @ranks ranks on @nodes nodes, as rings of 2 (ranks - 1)
 * messages of one rank-th of the bytes; this gives bandwidth and latency of the links of a platform
 * with equal nodes.  @return 0, or -1: unequal numbers of ranks per node, or the messages of
 * import_fit_line(). */
int import_fit_ring(struct import *import, struct curve *curve, int32_t ranks, int32_t nodes,
                    struct err *err);
