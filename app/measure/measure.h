#pragma once

/** @file
 * All-reduces measured by foretrain-exec: in a lab (app/lab/lab.h), or under mpirun on this
 * machine.
 */

#include <stdbool.h>

#include "app/cli/request.h"
#include "app/cli/sizes.h"
#include "app/job/job.h"
#include "app/lab/lab.h"

/** One size, measured. */
struct measured {
    double time_s; /**< the lower quartile: what disturbs can only lengthen */
    double minimum_s, median_s, maximum_s;
    double spread; /**< from lower to upper quartile, as a part of the median */
    double steal,
        foreign; /**< part of the processors' time, mean of all runs: exec/measure/timing.h */
    int64_t retransmits; /**< TCP segments sent again, in all runs */
    int64_t drops;       /**< packets that a lab's links threw away, in all its runs */
    int32_t runs, clean; /**< of all runs, those that were not disturbed; only these count unless
                              there are fewer than wanted */
    bool disturbed;      /**< the figure is not to be judged by */
    char reason[128];    /**< why it is disturbed, or "" */
};

/** A figure whose quartiles are further apart counts as disturbed. */
#define MEASURE_SPREAD_LIMIT 0.15

/** The @share quantile (0.25: lower quartile) of sorted @value (@count), linear between ranks. */
double measure_quantile(const double *value, int32_t count, double share);

/** Run @launch, whose words say how the ranks of a point in @lab (launch.hosts), or with NULL on
 * this machine, are started.  mpirun warns of its own races while it starts ranks in a lab: there
 * only a failure is worth its talk.
 * @return the exit code, with the lab's counts in @result, or -1: the messages of launch_run() and
 * lab_run(). */
int measure_launch(struct launch *launch, const struct cabling *lab, struct lab_result *result,
                   struct err *err);

/** The hosts of @lab that the ranks of @point run on, for launch.hosts; the caller frees it.  NULL
 * without @lab. */
char *measure_hosts(const struct cabling *lab, const struct point *point);

/** Measure the all-reduce of @point with the algorithm, gradients and repeats of @options for each
 * of
 * @sizes into @measured (sizes->count).  Ranks run in @lab where @point places them, or, when that
 * is NULL, all on this machine.
 * @return 0, or -1: mpirun or foretrain-exec is missing (exit code 69), the messages of lab_run(),
 * foretrain-exec failed or answered with something else (its exit code, or 70). */
int measure_collective(const struct exchange_options *options, const struct point *point,
                       const struct cabling *lab, const struct sizes *sizes,
                       struct measured *measured, struct err *err);
