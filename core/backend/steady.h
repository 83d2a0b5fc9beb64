#pragma once

/** @file
 * A steady iteration in closed form, from the duration of each of its steps.
 */

#include "core/backend/chains.h"
#include "core/backend/lanes.h"
#include "core/backend/noise.h"
#include "core/schedule/schedule.h"

/** The steps of one rank.  Release with steady_release(). */
struct steady {
    const struct schedule *schedule; /**< borrowed */
    struct slowdown slowdown;        /**< of what runs beside each other */
    double *seconds;                 /**< (steps) of each alone [s] */
    struct when *when;               /**< (2 * steps) private */
    struct chains chains;            /**< where nothing is slowed down; else without any */
};

/** Durations in the last iteration of the first traced rank of @trace, run with @slowdown. */
struct steady steady_new(const struct schedule *schedule, struct slowdown slowdown,
                         const struct trace *trace);

/** Seconds of an iteration in which compute takes @factor times as long and everything else as long
 * as stated (see core/backend/lanes.h). */
double steady_step(const struct steady *steady, double factor);

/** Append two iterations of one rank to zeroed @trace. */
void steady_trace(const struct steady *steady, struct trace *trace);

/** By how much the iteration is expected to be longer, because all of @ranks ranks wait for the one
 * that @noise makes slowest [s]. */
double steady_waiting(const struct steady *steady, const struct noise *noise, int32_t ranks);

void steady_release(struct steady *steady);
