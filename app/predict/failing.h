#pragma once

/** @file
 * Failures of the nodes and the network that a job uses, and the checkpoints it goes on from.
 *
 * All of the time to train counts as work that a failure may undo, the start-up and evaluations
 * too.  Where phases take fewer nodes, the rate of failures is the mean over the time.
 */

#include "app/predict/prediction.h"

/** Fill the toll of the result of @prediction, whose tasks have run, and make the time to train the
 * one that is expected with it.
 * @return 0, or -1: a platform with failures and no cost of a checkpoint, a restart without
 * failures, a run that never ends. */
int failing_find(struct prediction *prediction, struct err *err);

/** The time of draw @number of @prediction, which takes @work [s] without failures and checkpoints,
 * and @epochs (0: those of its plan) [s]. */
double failing_draw(const struct prediction *prediction, double work, double epochs,
                    int32_t number);

/** Whether @quantity is the platform's and moves the toll of @prediction. */
bool failing_depends_on(const struct prediction *prediction, const struct quantity *quantity);

/** Add what the toll of @prediction assumes to the assumptions of its result. */
void failing_assumptions(struct prediction *prediction);
