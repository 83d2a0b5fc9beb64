#pragma once

/** @file
 * The physical floor under a result: no schedule may finish faster, or the result is refused.
 *
 * For each collective: the largest sum of latencies any rank must pay one after the other, and for
 * each link the bytes that must cross it over its bandwidth.  For each lane: the sum of its steps.
 */

#include "core/backend.h"

/** The floor of one collective step [s]; @what names it ("bytes over rack uplink", "latency of 62
 * rounds"), borrowed static text. */
double floor_collective(const struct fabric *fabric, const struct schedule *schedule, int32_t step,
                        const char **what);

/** The floor of one iteration [s]: the longest lane. */
double floor_iteration(const struct run *run, const struct schedule *schedule, const char **what);

/** Refuse a trace that beats its floor by more than one part in 1e9.
 * @return 0, or -1 with exit code 70 and a message that says which floor, and by how much. */
int floor_check(const struct run *run, const struct schedule *schedule, const struct trace *trace,
                struct err *err);
