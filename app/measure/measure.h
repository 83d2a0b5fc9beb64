#pragma once

/** @file
 * All-reduces measured by foretrain-exec: in a lab (app/lab/lab.h), or under mpirun on this
 * machine.
 */

#include <stdbool.h>

#include "app/cli/measure_list.h"
#include "app/cli/request.h"
#include "app/job/job.h"
#include "app/lab/lab.h"

/** One size, measured. */
struct measured {
    double time_s; /**< the lower quartile, since disturbances can only lengthen it */
    double minimum_s, median_s, maximum_s;
    double spread; /**< from lower to upper quartile, relative to the median */
    double steal,
        foreign; /**< fractions of the processors' time, mean of all runs: exec/measure/timing.h */
    int64_t retransmits; /**< retransmitted TCP segments, in all runs */
    int64_t drops;       /**< packets dropped by a lab's links, in all runs */
    int32_t runs, clean; /**< clean: undisturbed runs; only these are used unless there are too
                              few */
    bool disturbed;      /**< the result is too uncertain for a verdict */
    char reason[128];    /**< why it is disturbed, or "" */
};

/** A result with quartiles further apart than this is disturbed. */
#define MEASURE_SPREAD_LIMIT 0.15

/** Run @launch, which starts the ranks of a point in @lab (launch.hosts), or with NULL on this
 * machine. mpirun warns of its own races while it starts ranks in a lab, so there its messages are
 * shown only after a failure.
 * @return the exit code, with the lab's counts in @result, or -1: the messages of launch_run() and
 * lab_run(). */
int measure_launch(struct launch *launch, const struct cabling *lab, struct lab_result *result,
                   struct err *err);

/** The hosts of @lab for the ranks of @point, for launch.hosts; the caller frees it.  NULL without
 * @lab. */
char *measure_hosts(const struct cabling *lab, const struct point *point);

/** Measure the all-reduce of @point with the algorithm, gradients and repeats of @options into
 * @measured (sizes->count), for each of @sizes.  Ranks run in @lab where @point places them, or,
 * when that is NULL, all on this machine.
 * @return 0, or -1: mpirun or foretrain-exec is missing (exit code 69), the messages of lab_run(),
 * foretrain-exec failed or answered with something else (its exit code, or 70). */
int measure_collective(const struct exchange_options *options, const struct point *point,
                       const struct cabling *lab, const struct sizes *sizes,
                       struct measured *measured, struct err *err);
