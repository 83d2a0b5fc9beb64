#include "exec/world/clock.h"

#include <math.h>

#include "exec/world/plane.h"
#include "exec/world/world.h"

enum { ROUND_TRIPS = 16 };

static void send_time(int32_t to, double time)
{
    world_lock();
    struct parcel *parcel = plane_send(PLANE_CLOCK, to, &time, sizeof(time));
    world_unlock();
    plane_wait(&parcel, "clock");
}

static double receive_time(int32_t from)
{
    double time = 0;
    world_lock();
    struct parcel *parcel = plane_receive(PLANE_CLOCK, from, &time, sizeof(time));
    world_unlock();
    plane_wait(&parcel, "clock");
    return time;
}

static struct clock_offset ask_first(void)
{
    struct clock_offset best = {.error = INFINITY};
    for (int32_t i = 0; i < ROUND_TRIPS; i++) {
        double before = world_now();
        send_time(0, before);
        double there = receive_time(0), after = world_now(), error = (after - before) / 2;
        if (error < best.error)
            best = (struct clock_offset){there - (before + after) / 2, error};
    }
    return best;
}

struct clock_offset clock_compare(void)
{
    struct exec_world world = world_self();
    if (world.rank != 0)
        return ask_first();
    for (int32_t rank = 1; rank < world.ranks; rank++)
        for (int32_t i = 0; i < ROUND_TRIPS; i++) {
            receive_time(rank);
            send_time(rank, world_now());
        }
    return (struct clock_offset){0};
}
