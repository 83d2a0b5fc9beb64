#pragma once

/** @file
 * One clock for all ranks, so that their traces can be compared.
 */

/** Offset of this process's monotonic clock from that of rank 0. */
struct clock_offset {
    double seconds; /**< to be added to world_now() for the time of rank 0 */
    double error;   /**< at most: half the shortest round trip; 0 where it is the same clock [s] */
};

/** Compare clocks with rank 0 by a few round trips; all ranks together, in the thread that trains.
 * Source: Cristian 1989, "Probabilistic clock synchronization": of several round trips, the
 * shortest is used. */
struct clock_offset clock_compare(void);
