#pragma once

/** @file
 * A CPU that trains with the reference kernels, in fp32, on one fixed synthetic batch per rank.
 *
 * Runs networks whose layers form a chain, with SGD.
 */

#include "exec/device.h"

/** The name is "cpu-naive". */
extern const struct device_ops device_naive_ops;
