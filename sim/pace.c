#include "sim/pace.h"

#include <math.h>
#include <simgrid/engine.h>
#include <stdlib.h>

#include "core/base/base.h"

void pace_init(struct pace *pace, struct slowdown slowdown)
{
    *pace = (struct pace){.slowdown = slowdown,
                          .any = slowdown.compute > 0 || slowdown.communication > 0};
    for (int32_t lane = 0; lane < LANE_COUNT; lane++)
        pace->changed[lane] = sg_sem_init(0);
}

void pace_release(struct pace *pace)
{
    for (int32_t lane = 0; lane < LANE_COUNT; lane++)
        sg_sem_destroy(pace->changed[lane]);
    free(pace->stretch);
}

/* One that is awake already is woken once too often, and goes on with its work. */
static void wake(struct pace *pace, enum lane lane)
{
    if (pace->works[lane])
        sg_sem_release(pace->changed[lane]);
}

void pace_compute(struct pace *pace, bool computes)
{
    if (pace->computes == computes)
        return;
    pace->computed = pace_computed(pace);
    pace->since = simgrid_get_clock();
    pace->computes = computes;
    wake(pace, LANE_ROW);
    wake(pace, LANE_COLUMN);
    wake(pace, LANE_TENSOR);
}

void pace_fly(struct pace *pace, int32_t change)
{
    bool before = pace->flights > 0;
    pace->flights += change;
    if (before != (pace->flights > 0))
        wake(pace, LANE_COMPUTE);
}

double pace_computed(const struct pace *pace)
{
    return pace->computed + (pace->computes ? simgrid_get_clock() - pace->since : 0);
}

static double factor_of(const struct pace *pace, enum lane lane)
{
    if (lane == LANE_COMPUTE)
        return pace->flights > 0 ? 1 + pace->slowdown.compute : 1;
    return pace->computes ? 1 + pace->slowdown.communication : 1;
}

static void keep(struct pace *pace, struct stretch stretch)
{
    pace->stretch = base_room(pace->stretch, pace->stretches, sizeof(*pace->stretch));
    pace->stretch[pace->stretches++] = stretch;
}

double pace_work(struct pace *pace, enum lane lane, double begin, double seconds)
{
    double done = 0;
    if (lane == LANE_COMPUTE)
        pace->stretches = 0;
    while (seconds > 0) {
        double factor = factor_of(pace, lane), end = begin + seconds * factor;
        double left = end - simgrid_get_clock();
        if (lane == LANE_COMPUTE)
            keep(pace, (struct stretch){begin, done, factor});
        pace->works[lane] = true;
        bool ended = left <= 0 || sg_sem_acquire_timeout(pace->changed[lane], left);
        pace->works[lane] = false;
        if (ended)
            return end;
        double now = simgrid_get_clock();
        done += (now - begin) / factor;
        seconds -= (now - begin) / factor;
        begin = now;
    }
    return begin;
}

double pace_when(const struct pace *pace, double seconds)
{
    const struct stretch *stretch = pace->stretch, *last = stretch + pace->stretches - 1;
    while (stretch < last && stretch[1].done <= seconds)
        stretch++;
    double when = stretch->begin + (seconds - stretch->done) * stretch->factor;
    return stretch < last ? fmin(when, stretch[1].begin) : when;
}
