#pragma once

/** @file
 * The number of cores that this process may use.
 */

#include <stdint.h>

/** Cores that this process may run on, at least 1; hardware threads if hwloc does not work. */
int32_t cores_available(void);
