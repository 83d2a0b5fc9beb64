#pragma once

/** @file
 * The number of cores that this process may use.
 */

#include <stdint.h>

/** Cores that this process is allowed to run on, at least 1: cores if hwloc works, else hardware
 * threads. */
int32_t cores_available(void);
