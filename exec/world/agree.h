#pragma once

/** @file
 * A failure on one rank becomes a failure on all.
 */

#include "core/base/err.h"

/** All ranks together.  @err gets the largest exit code; messages stay on their ranks.  @return 0,
 * or -1 if @failed is set on any rank. */
int world_agree(int failed, struct err *err);
