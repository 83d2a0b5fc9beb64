#pragma once

/** @file
 * The same job on fewer nodes.
 */

#include "app/predict/predict.h"
#include "core/base/json.h"

/** @prediction of the job at @path with @options, and the same on 1, 2, 4, ... nodes, where the
 * program chooses the grid: nodes, devices, own ("this job", or null), backend, step_s and its
 * parts, images_per_s, scaling_efficiency, time_to_train_s, each with _low and _high where it has
 * an interval.  A number of nodes that makes no job has a "reason" instead.
 *
 * Other points than the job's own are in closed form.  If the job was simulated they have the
 * factors that make its closed form its answer: *@exposed that of the communication that nothing
 * hides (NAN: no simulation), and constant ones of efficiency and time to train. */
struct json *curve_rows(const struct prediction *prediction, const char *path,
                        const struct predict_options *options, double *exposed);
