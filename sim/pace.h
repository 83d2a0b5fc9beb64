#pragma once

/** @file
 * How fast the lanes of one rank go while they run beside each other: core/backend/lanes.h in the
 * time of the simulation.
 *
 * A collective that runs beside compute is simulated at full speed, and then goes on for what it
 * lost; so it holds links no longer than it would alone.  Waiting for other ranks counts as part
 * of it.
 */

#include <simgrid/semaphore.h>

#include "core/backend/lanes.h"

/** From when on a lane works at which speed: @factor seconds for each of its own. */
struct stretch {
    double begin, done, factor; /**< done: of its work until then [s] */
};

/** Of one rank.  Start with pace_init(); release with pace_release(). */
struct pace {
    struct slowdown slowdown;
    bool any;                     /**< whether there is a slowdown at all */
    bool computes;                /**< now */
    int32_t flights;              /**< collectives that are in flight now */
    double since, computed;       /**< when `computes` changed, and seconds computed until then */
    sg_sem_t changed[LANE_COUNT]; /**< what a working lane waits for */
    bool works[LANE_COUNT];
    struct stretch *stretch; /**< (stretches) of what the compute lane worked last */
    int32_t stretches;
};

/** Start without work. */
void pace_init(struct pace *pace, struct slowdown slowdown);

void pace_release(struct pace *pace);

/** From now on the rank computes, or does not. */
void pace_compute(struct pace *pace, bool computes);

/** Now a collective starts (1) or ends (-1). */
void pace_fly(struct pace *pace, int32_t change);

/** How long the rank has computed until now [s]. */
double pace_computed(const struct pace *pace);

/** Sleep until @lane has done what takes @seconds alone, from @begin (now) on.
 * @return when that is. */
double pace_work(struct pace *pace, enum lane lane, double begin, double seconds);

/** When the first @seconds of what the compute lane worked last were done. */
double pace_when(const struct pace *pace, double seconds);
