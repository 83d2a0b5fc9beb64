#pragma once

/** @file
 * The closed-form back end.
 */

#include "core/backend/backend.h"

/** Closed form: lanes_run().  A collective lasts analytic_collective(), or its floor where
 * shared links make that longer, and its launch before that.  With noise every rank computes
 * as long as the slowest one draws in the last iteration.  Times are usually too short, but not a
 * lower bound: each collective uses its slowest rank, real ranks may catch up.  Traces rank 0. */
extern const struct backend backend_analytic;

/** Seconds of one collective: the max-plus recurrence over ranks and rounds, of the slowest
 * channel; all ranks start together.  A message starts when its sender and its receiver have
 * entered the round; its time is the latency of its route plus its bytes over the narrowest link.
 * Messages of a round that meet on a link have equal parts of it, if all ranks take part, but for a
 * double tree, and where routes choose among uplinks. */
double analytic_collective(const struct fabric *fabric, const struct schedule *schedule,
                           int32_t step);
