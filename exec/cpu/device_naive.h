#pragma once

/** @file
 * A CPU that trains with the reference kernels (exec/cpu/ops_naive.h), in fp32 on one thread: slow,
 * plain, and what every other device is checked against.
 */

#include "exec/step/device.h"

/** The name is "cpu-naive". */
extern const struct device_ops device_naive_ops;
