#pragma once

/** @file
 * The simulator: a schedule on a fabric, message by message, with contention, on SimGrid.
 *
 * SimGrid keeps one engine per process: backend_sim runs once per process, and SimGrid may abort
 * the process.  foretrain therefore starts foretrain-sim as a child.
 */

#include "core/backend.h"

/** The name is "sim". */
extern const struct backend backend_sim;

/** Ranks up to which GRAIN_AUTO prefers the full run when folding does not help. */
enum { SIM_FULL_LIMIT = 1024 };
