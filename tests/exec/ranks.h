#pragma once

/** @file
 * Claims of a program that runs on several ranks.
 */

#include <stdatomic.h>

#include "exec/world/world.h"

/** Claims that did not hold on this rank. */
static atomic_int faults;

/** @holds, or this rank says @what does not. */
static inline void check(bool holds, const char *what)
{
    if (!holds)
        printf("rank %d: does not hold: %s\n", world_self().rank, what);
    faults += !holds;
}

/** Leave the world.  @return the exit status of main(): 1 if a claim of any rank did not hold. */
static inline int ranks_end(void)
{
    int64_t any = faults;
    world_max(&any, 1);
    world_heartbeat_stop();
    world_stop();
    return any > 0;
}
