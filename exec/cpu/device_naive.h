#pragma once

/** @file
 * A CPU that trains with the reference kernels (exec/cpu/ops_naive.h), in fp32 on one thread: slow,
 * plain, and the reference in tests of every other device.
 */

#include "exec/step/device.h"

/** The name is "cpu-naive". */
extern const struct device_ops device_naive_ops;
