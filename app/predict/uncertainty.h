#pragma once

/** @file
 * The uncertainty of a prediction: an interval from the uncertainty of its inputs.
 *
 * Monte Carlo over the closed form.  Each draw scales every compute step by an efficiency and a
 * kernel overhead drawn together (their fit correlates them), by the fit's residual between
 * machines, and by the slowest of all ranks.  It scales every collective by a bandwidth drawn once,
 * and computes the schedule again.  Seeded: the same inputs give the same interval.
 */

#include <stdint.h>

#include "app/job/job.h"
#include "core/backend/trace.h"

/** Uncertain inputs: standard deviations of logarithms unless noted otherwise. */
struct uncertainty {
    double efficiency;  /**< of the fraction of the roofline that kernels reach */
    double overhead;    /**< of the time added per kernel */
    double correlation; /**< of the two, -1 ... 1 */
    double residual;    /**< of a machine's compute time about the fit */
    double jitter;      /**< of the coefficient of variation in point.run.noise */
    double network;     /**< of the time of collectives */
    double model;       /**< of effects missing in the model, on the whole step */
    int32_t draws;      /**< at least 20 */
    uint64_t seed;
};

/** The uncertainties of a job: of its software's fit, or of the device file's own numbers; of its
 * platform's links; on @several_nodes also of effects that models calibrated on one node miss. */
struct uncertainty uncertainty_of(const struct job *job, bool several_nodes);

/** 90 % of the draws are between @low and @high [s]. */
struct interval {
    double low, high;
};

/** The interval of the step time of @point, with the times of collectives in the last iteration of
 * @trace, and @extra seconds of compute outside the schedule.  It contains no model error beyond
 * @uncertainty. */
struct interval uncertainty_step(const struct point *point, const struct trace *trace, double extra,
                                 const struct uncertainty *uncertainty);

/** The standard deviation of the logarithm of a bandwidth with @provenance. */
double uncertainty_tolerance(enum provenance provenance);

/** The largest uncertainty_tolerance() among the numbers of @platform for communication: links,
 * network cards, uplinks, nccl. */
double uncertainty_network(const struct platform *platform);
