#pragma once

/** @file
 * From times by size to the links of a platform.
 */

#include "app/import/import.h"
#include "app/import/import_fit.h"

/** What a platform takes of a fit. */
struct curve_line {
    double latency;           /**< of the smallest sizes [s] */
    double latency_deviation; /**< its standard deviation [s] */
    double bandwidth;         /**< of the largest sizes [bytes/s] */
    double bandwidth_spread;  /**< its standard deviation, as a part of it */
};

/** Fit lines to @curve and tell of them.
 * @return 0, or -1 with the messages of curve_fit_lines(), behind the file's name. */
int import_fit_line(struct import *import, struct curve *curve, struct curve_line *line,
                    struct err *err);

/** Take @curve as all-reduces of @ranks ranks on @nodes nodes, done as a ring of 2 (ranks - 1)
 * messages of one rank-th of the bytes: bandwidth and latency of the links of a platform of equal
 * nodes.
 * @return 0, or -1: not equally many ranks a node, or the messages of import_fit_line(). */
int import_fit_ring(struct import *import, struct curve *curve, int32_t ranks, int32_t nodes,
                    struct err *err);
