#pragma once

/** @file
 * The transport of a build without one: for a job of one rank, which exchanges nothing.
 */

#include "exec/step/comm.h"

/** Transport "none". */
extern const struct comm_ops comm_none_ops;
