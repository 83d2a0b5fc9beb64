#pragma once

/** @file
 * A whole prediction: what the tasks of a job take, with failures, assumptions and intervals, in
 * one result.
 */

#include "app/predict/prediction.h"

/** Predict job @path into @prediction, which is zero but for `shared`.
 * @return 0, or -1 with the message of whatever failed first. */
int prediction_make(struct prediction *prediction, const char *path,
                    const struct predict_options *options, struct err *err);

/** The same for one of many jobs: in its result there are only nodes, devices, times, images/s,
 * efficiencies and their intervals, from @draws draws.
 * @return 0, or -1 with the message of whatever failed first. */
int prediction_screen(struct prediction *prediction, const char *path,
                      const struct predict_options *options, enum backend_choice backend,
                      int32_t draws, struct err *err);
