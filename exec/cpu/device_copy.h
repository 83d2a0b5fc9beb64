#pragma once

/** @file
 * How fast a computing thread of the CPU copies memory.
 */

#include <stdint.h>

/** See device_ops.copy: on the thread of a stream of its own, by the time it had a processor. */
double cpu_device_copy(int64_t bytes);
