#pragma once

/** @file
 * What devices on the CPU tell of themselves: how long a thread had a processor, and how fast it
 * copies memory.
 */

#include "exec/step/device.h"

/** Copies run on the thread of a stream of its own, and count by the time it had a processor. */
extern const struct measure_ops cpu_measure_ops;
