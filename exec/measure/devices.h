#pragma once

/** @file
 * The devices and transports of this build, by name.
 */

#include "exec/step/comm.h"
#include "exec/step/device.h"

/** The device called @name: "cpu" (oneDNN), "cpu-naive" (plain loops), "cuda" (an NVIDIA GPU) or
 * "replay" (waits).
 * @return NULL when this build lacks it. */
const struct device_ops *device_find(const char *name);

/** Check that this machine has the hardware of the device called @name.  @return 0, or -1 (exit
 * code 69) with what is missing and the way out. */
int device_present(const char *name, struct err *err);

/** How ranks with the device called @name exchange gradients.  @return NULL as device_find(). */
const struct comm_ops *transport_find(const char *name);
