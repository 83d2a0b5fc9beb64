#pragma once

/** @file
 * Messages over links that nothing else uses at the same time.
 *
 * The messages of one lane of one class leave one after the other, so links that no other lane and
 * no other class crosses are never shared: the message takes its bytes over the narrowest of them.
 * What a simulator of shared links would find, too, but for a hundred times as much work.
 */

#include "core/traffic/workload.h"

/** How fast the message of each class goes in each relation (relations * classes) if all its links
 * are its own [bytes/s]; 0: they are shared, or it sends none.  The caller frees it. */
double *alone_rates(const struct workload *workload);

/** The traffic of @workload without the messages that have a @rate, to be released with
 * alone_release(); borrows the rest. */
struct traffic alone_others(const struct workload *workload, const double *rate);

void alone_release(struct traffic *others);
