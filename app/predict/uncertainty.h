#pragma once

/** @file
 * How sure a prediction is: an interval from what is known about its inputs.
 *
 * Monte Carlo over the closed form.  Each draw scales every compute step by an efficiency and a
 * kernel overhead drawn together (they are correlated by the fit they come from), by what the fit
 * leaves unexplained from machine to machine, and by the slowest of all ranks; every collective by
 * a bandwidth drawn once; and walks the schedule again.  Seeded: the same inputs give the same
 * interval.
 */

#include <stdint.h>

#include "app/job/job.h"
#include "core/backend/trace.h"

/** What is not known exactly: standard deviations of logarithms unless said otherwise. */
struct uncertainty {
    double efficiency;  /**< of the fraction of the roofline that kernels reach */
    double overhead;    /**< of the time added per kernel */
    double correlation; /**< of the two, -1 ... 1 */
    double residual;    /**< of a machine's compute time about the fit */
    double jitter;      /**< of the coefficient of variation that point.run.noise states */
    double network;     /**< of the time of collectives */
    double model;       /**< of what the model leaves out, on the whole step */
    int32_t draws;      /**< at least 20 */
    uint64_t seed;
};

/** What is not known about a job: its software's fit, or where the device file's own numbers come
 * from; its platform's links; on @several_nodes also what models calibrated on one node miss. */
struct uncertainty uncertainty_of(const struct job *job, bool several_nodes);

/** From @low to @high lie 90 % of the draws [s]. */
struct interval {
    double low, high;
};

/** The interval of the step time of @point, whose collectives took as long as in the last iteration
 * of @trace, with @extra seconds of compute outside the schedule.  Contains no model error beyond
 * what @uncertainty states. */
struct interval uncertainty_step(const struct point *point, const struct trace *trace, double extra,
                                 const struct uncertainty *uncertainty);

/** The standard deviation of the logarithm that a bandwidth known as @provenance says is given. */
double uncertainty_tolerance(enum provenance provenance);

/** The largest uncertainty_tolerance() among the numbers of @platform that set how fast devices
 * talk: links, network cards, uplinks, nccl. */
double uncertainty_network(const struct platform *platform);
