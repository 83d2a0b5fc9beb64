#include "sim/pace.h"

#include <simgrid/engine.h>

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
}

void pace_fly(struct pace *pace, int32_t change)
{
    pace->flights += change;
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

double pace_work(struct pace *pace, enum lane lane, double begin, double seconds)
{
    while (seconds > 0) {
        double factor = factor_of(pace, lane), end = begin + seconds * factor;
        double left = end - simgrid_get_clock();
        pace->works[lane] = true;
        bool ended = left <= 0 || sg_sem_acquire_timeout(pace->changed[lane], left);
        pace->works[lane] = false;
        if (ended)
            return end;
        double now = simgrid_get_clock();
        seconds -= (now - begin) / factor;
        begin = now;
    }
    return begin;
}
