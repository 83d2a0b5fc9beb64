#pragma once

/** @file
 * A nonlinear least-squares fit of step times: how much of its roofline each group of runs reaches
 * and what each kernel costs.
 *
 * Model: seconds = slowest * (roof / efficiency[group] + kernels * overhead[kind]) + fixed.
 * Fitted are the logarithms of efficiency and overhead to the logarithm of the seconds, by
 * Levenberg and Marquardt with weights after Huber, so that a run which something else held up does
 * not pull the others.  Runs of one batch size cannot tell the two apart: an overhead is kept near
 * FIT_OVERHEAD_PRIOR unless the runs say otherwise.  Deterministic.
 */

#include <stdint.h>

#include "core/base/err.h"

/** What a kernel costs as far as is known without the runs [s].
 * Assumed: 2 to 5 us to launch a kernel or to start it from a graph, and about as much for its
 * ramp-up and tail. */
#define FIT_OVERHEAD_PRIOR 8e-6

/** How sure that is: standard deviation of its logarithm. */
#define FIT_OVERHEAD_PRIOR_SD 0.5

/** One run. */
struct fit_row {
    int32_t group;  /**< shares an efficiency */
    int32_t kind;   /**< shares an overhead */
    double roof;    /**< time of all kernels at the full roofline [s] */
    double kernels; /**< how many */
    double slowest; /**< the slowest device takes that many times the mean */
    double fixed;   /**< time that depends on neither [s] */
    double seconds; /**< measured */
};

/** What is to be fitted.  Every group and every kind has at least one row. */
struct fit_problem {
    const struct fit_row *row; /**< (rows) borrowed */
    int32_t rows, groups, kinds;
};

/** The answer.  Release with fit_release(). */
struct fit {
    double *parameter;  /**< (parameters) logarithms: groups' efficiencies, then kinds' overheads */
    double *covariance; /**< (parameters x parameters) of those */
    int32_t parameters;
    double residual; /**< robust standard deviation of log seconds */
};

/** Fit @problem into @fit.
 * @return 0, or -1: a run shorter than what is fixed in it, or no convergence. */
int fit_solve(struct fit *fit, const struct fit_problem *problem, struct err *err);

/** Release; accepts a zeroed struct. */
void fit_release(struct fit *fit);

/** Seconds of @row with @efficiency and @overhead. */
double fit_predict(const struct fit_row *row, double efficiency, double overhead);
