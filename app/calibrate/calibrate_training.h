#pragma once

/** @file
 * What ranks that really train together lose beside their own arithmetic: the networks and batches
 * of a measured machine, trained by `foretrain-exec train` with all gradients in one all-reduce
 * after the backward pass, so that nothing hides behind anything.
 */

#include "app/calibrate/calibrate_exchange.h"
#include "app/calibrate/calibrate_machine.h"

/** Medians over the iterations of the quickest run of each network and batch, and then over those.
 */
struct training_cost {
    double contention;    /**< how much longer a rank computes than alone, as a fraction */
    double contention_sd; /**< of one run, from all; MACHINE_UNKNOWN of a single one; at least
                               all of it if other processes held ranks up */
    double jitter;        /**< coefficient of variation of a rank's computing in an iteration */
    double launch;        /**< [s] from the last rank's gradients to the update, beyond the rounds
                               of the all-reduce */
    double between;       /**< [s] from an update to the next iteration's first step */
    double foreign;       /**< of the processors, for other processes or the host while they held
                               ranks up: the most of a run; 0: they did not */
    int32_t runs;
};

/** Train what @alone has measured on @ranks ranks, with the options of @request, within the part of
 * @budget that has begun; a round of an all-reduce takes what @round says.
 * @return 0, or -1: the messages of validate_measure(); other processes used the processors and
 * @budget is strict (exit code 75). */
int training_measure(struct training_cost *cost, const struct machine *alone,
                     const struct calibrate_request *request, int32_t ranks,
                     const struct exchange_line *round, struct budget *budget, struct err *err);
