#pragma once

/** @file
 * From times by size to the links of a platform.
 */

#include "app/import/import.h"
#include "app/import/import_fit.h"

/** The one line that a platform can hold. */
struct curve_line {
    double latency, bandwidth; /**< [s], [bytes/s] */
    int32_t first;             /**< the row of the sorted curve from which on it is fitted */
};

/** Fit lines to @curve and report them, and choose one: the only one, or else the one with the
 * least relative error over the sizes from @matter [bytes] on; over all if fewer than three are as
 * large.
 * @return 0, or -1 with the file's name and the messages of curve_fit_lines(). */
int import_fit_line(struct import *import, struct curve *curve, double matter,
                    struct curve_line *line, struct err *err);

/** List for each size of @curve the time measured and that of @line, which the platform predicts.
 * @return curve_spread() of the rows that @line is fitted to. */
double import_compare(struct import *import, const struct curve *curve,
                      const struct curve_line *line);

/** Take two ranks on @nodes nodes, 1 or 2: seconds by size of one message (@latency) and of
 * messages in flight together (@bandwidth); one of both may be empty.  Latency follows from the
 * first; bandwidth from the second, where it is there, at the sizes that gradients have.  @return
 * 0, or -1: the messages of import_fit_line(). */
int import_fit_pair(struct import *import, struct curve *latency, struct curve *bandwidth,
                    int32_t nodes, struct err *err);

/** Interpret @curve as all-reduces of @ranks ranks on @nodes nodes, as rings of 2 (ranks - 1)
 * messages of one rank-th of the bytes; this gives bandwidth and latency of the links of a platform
 * with equal nodes.  @return 0, or -1: unequal numbers of ranks per node, or the messages of
 * import_fit_line(). */
int import_fit_ring(struct import *import, struct curve *curve, int32_t ranks, int32_t nodes,
                    struct err *err);
