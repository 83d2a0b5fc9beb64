#pragma once

/** @file
 * The lanes of one rank of each stage in closed form: when each step begins and ends, from how long
 * it lasts.
 *
 * A step begins when its lane, of what is sent also that of the receiver, and all that it depends
 * on are free.  While a collective of the rank is in flight, from its first step's begin to its
 * last one's end, compute goes on at 1 / (1 + slowdown.compute) of its speed; while the rank
 * computes, its collectives go on at 1 / (1 + slowdown.communication).  At most 1 each, so two
 * things at once are never slower than one after the other.  What stages send neither slows nor is
 * slowed down.  The simulator (sim/sim.h) does the same to each rank.
 */

#include "core/backend/trace.h"
#include "core/platform/platform.h"
#include "core/schedule/schedule.h"

/** Extra time of what runs beside the other, as fractions. */
struct slowdown {
    double compute;       /**< while a collective is in flight */
    double communication; /**< while the rank computes */
};

/** Those of @device with its software. */
struct slowdown device_slowdown(const struct device *device);

/** When a step ran [s]. */
struct when {
    double begin, end;
};

/** Run @iterations of @schedule, whose steps take @seconds (steps) alone, compute @factor times as
 * long, into @when (iterations * steps). */
void lanes_run(const struct schedule *schedule, struct slowdown slowdown, const double *seconds,
               double factor, int32_t iterations, struct when *when);

/** Seconds (steps) of the last iteration of the first traced rank of @trace of each stage, each
 * without what it lost to @slowdown.  The caller frees them. */
double *lanes_alone(const struct schedule *schedule, struct slowdown slowdown,
                    const struct trace *trace);
