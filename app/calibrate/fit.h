#pragma once

/** @file
 * A nonlinear least-squares fit of step times: the efficiency of each group of runs on the roofline
 * and the cost of a kernel.
 *
 * Model: seconds = roof / efficiency[group] + kernels * overhead.  It fits logarithms of efficiency
 * and overhead to the logarithm of the seconds, by Levenberg and Marquardt with weights after
 * Huber, so that a disturbed run does not shift the others.  Runs of one batch size cannot separate
 * the two: the overhead stays near FIT_OVERHEAD_PRIOR unless the runs determine it.  Deterministic.
 */

#include "core/base/err.h"

/** Cost of a kernel, without knowledge from runs [s].  Assumed: 2 to 5 us to launch a kernel or to
 * start it from a graph, and about as much for its ramp-up and tail. */
#define FIT_OVERHEAD_PRIOR 8e-6

/** Its uncertainty: standard deviation of its logarithm. */
#define FIT_OVERHEAD_PRIOR_SD 0.5

/** One run. */
struct fit_row {
    int32_t group;  /**< shares an efficiency */
    double roof;    /**< time of all kernels at the full roofline [s] */
    double kernels; /**< how many */
    double seconds; /**< measured, above 0 */
};

/** The data of a fit.  Every group has at least one row. */
struct fit_problem {
    const struct fit_row *row; /**< (rows) borrowed */
    int32_t rows, groups;
};

/** Fit @problem into @value and @sd (groups + 1): the logarithms of the groups' efficiencies, then
 * of the overhead, and their standard deviations.
 * @return 0, or -1: no convergence. */
int fit_solve(const struct fit_problem *problem, double *value, double *sd, struct err *err);
