#pragma once

/** @file
 * What fails on one rank fails on all.
 */

#include "core/base/err.h"

/** All ranks together: whether it @failed on any of them.  @err gets the largest exit code; the
 * message stays with the ranks that have one.  @return 0, or -1. */
int world_agree(int failed, struct err *err);
