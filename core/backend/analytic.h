#pragma once

/** @file
 * The closed-form back end.
 */

#include "core/backend/backend.h"

/** Closed form: max-plus over lanes; a collective takes analytic_collective(), or its floor where
 * shared links make that longer; noise by expectation (every rank computes as long as the slowest
 * is expected to, see noise_expected_slowest()).  Usually early, but no bound: it adds up the
 * slowest rank of each collective, where ranks that run apart may catch up.  Traces rank 0,
 * which stands for all. */
extern const struct backend backend_analytic;

/** Seconds of one collective with every route alone on its links: the max-plus recurrence over
 * ranks and rounds, started together.  A message starts when its sender and its receiver have
 * entered the round, and takes the latency of its route and its bytes over the narrowest link. */
double analytic_collective(const struct fabric *fabric, const struct schedule *schedule,
                           int32_t step);
