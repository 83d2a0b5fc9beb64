#pragma once

/** @file
 * SimGrid's one engine of this process: its settings and its platform.
 */

#include "core/base/err.h"
#include "sim/fold.h"

/** Start SimGrid with the platform of @traffic folded by @fold.  Once per process; SimGrid aborts
 * the process if it refuses the platform.  @return 0, or -1: the platform cannot be passed to
 * SimGrid (exit code 70). */
int engine_start(const struct traffic *traffic, const struct fold *fold, struct err *err);
