#pragma once

/** @file
 * All-reduces measured by foretrain-exec under mpirun on this machine.
 */

#include "app/cli/measure_list.h"
#include "app/cli/request.h"
#include "app/job/job.h"
#include "app/process/launch.h"

/** One size, measured. */
struct measured {
    double time_s; /**< the lower quartile, since disturbances can only lengthen it */
    double minimum_s, median_s, maximum_s;
    double spread; /**< from lower to upper quartile, relative to the median */
    double steal,
        foreign; /**< fractions of the processors' time, mean of all runs: exec/measure/timing.h */
    int64_t retransmits; /**< retransmitted TCP segments, in all runs */
    int32_t runs, clean; /**< clean: undisturbed runs; only these are used unless there are too
                              few */
    bool disturbed;      /**< the result is too uncertain for a verdict */
    char reason[128];    /**< why it is disturbed, or "" */
};

/** A result with quartiles further apart than this is disturbed. */
#define MEASURE_SPREAD_LIMIT 0.15

/** Whether this process runs in a lab, a network that tools/lab.py built. */
bool measure_in_lab(void);

/** Set @hosts to the hosts of the ranks of @point in this lab, for launch.hosts; the caller frees
 * it.  Outside of labs it is NULL.
 * @return 0, or -1: the lab has fewer devices (exit code 64). */
int measure_hosts(const struct point *point, char **hosts, struct err *err);

/** Measure the all-reduce of @point with the algorithm, gradients and repeats of @options into
 * @measured (sizes->count), for each of @sizes.  In a lab, ranks run where @point places them.
 * @return 0, or -1: mpirun or foretrain-exec is missing (exit code 69), the messages of
 * measure_hosts(), foretrain-exec failed or answered with something else (its exit code, or 70). */
int measure_collective(const struct exchange_options *options, const struct point *point,
                       const struct sizes *sizes, struct measured *measured, struct err *err);
