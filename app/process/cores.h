#pragma once

/** @file
 * How many cores this process may use.
 */

#include <stdint.h>

/** Cores that this process is allowed to run on, at least 1: two hardware threads of one core count
 * once where hwloc tells them apart; without hwloc, or where it fails, hardware threads. */
int32_t cores_available(void);
