#pragma once

/** @file
 * The physical floor under a result: nothing may finish faster, or the result is refused.
 *
 * Latency: a rank's rounds run one after the other, so the latencies of its messages add up.
 * Bytes: a link carries the bytes of all ranks at no more than its bandwidth.  Lanes: the steps of
 * one lane run one after the other.
 */

#include "core/backend/backend.h"

/** A time nothing can beat. */
struct floor {
    double seconds;
    int32_t tier;  /**< of the busiest link, as in fabric.tier_name; -1: no link takes part */
    int32_t next;  /**< the tier of the busiest link of another tier; -1: there is none */
    double beside; /**< that link is busy for this part of the time of the busiest */
    char what[96]; /**< the cause: "bytes over rack uplink", "latency of 62 rounds" */
};

/** The floor of one STEP_COLLECTIVE: the higher one of latency and bytes. */
struct floor floor_collective(const struct fabric *fabric, const struct schedule *schedule,
                              int32_t step);

/** (link_count) The time each link needs for the bytes of all collectives of an iteration at its
 * full bandwidth [s]; the caller frees it. */
double *floor_loads(const struct fabric *fabric, const struct schedule *schedule);

/** The latency of one STEP_COLLECTIVE [s]: of the rounds of the rank that has most of it, or of
 * what NCCL chooses. */
double floor_latency(const struct run *run, const struct schedule *schedule, int32_t step);

/** The floor of a steady iteration: the longest lane or the busiest link.  With noise, compute has
 * the time of the fastest possible rank, and input is left out (it may run ahead).  @collective
 * (steps; NULL: nobody asks) gets that of each collective which is like no earlier one [s]. */
struct floor floor_iteration(const struct run *run, const struct schedule *schedule,
                             double *collective);

/** Refuse a trace whose step time, or any of whose collectives, beats its floor by more than one
 * part in 1e9.
 * @return 0, or -1 with exit code 70 and a message that says which floor, and by how much. */
int floor_check(const struct run *run, const struct schedule *schedule, const struct trace *trace,
                struct err *err);
