#pragma once

/** @file
 * The simulator: a schedule on a fabric, message by message, with contention, on SimGrid.
 *
 * SimGrid keeps one engine per process: backend_sim runs once per process, and SimGrid may abort
 * the process.  foretrain therefore starts foretrain-sim as a child.
 *
 * What GRAIN_AUTO takes: without noise, folded, which is exact; with noise, full, because ranks
 * that differ at random are not alike.  Where that would take more than SIM_MESSAGE_LIMIT messages:
 * with noise, folded, and everybody computes as long as the slowest rank is expected to; if that is
 * still too much, smoothed, and if need be with as many rounds merged into one as the limit asks
 * for.  The trace names what was taken ("smoothed/3": three rounds in one); a folded run in which
 * no two ranks are alike is a full run and named so.  GRAIN_COARSE is taken by name only.
 */

#include "core/backend/backend.h"

/** The name is "sim". */
extern const struct backend backend_sim;

/** Messages of a run up to which GRAIN_AUTO looks at each one; about half a second. */
enum { SIM_MESSAGE_LIMIT = 150000 };
