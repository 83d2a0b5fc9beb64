#pragma once

/** @file
 * Collectives over MPI: point-to-point messages, round by round as in core/collective/collective.h,
 * or the library's own for ALGORITHM_MPI (its messages are not counted).
 *
 * Works with the streams of exec/cpu/stream.h.  The lanes take turns calling MPI
 * (exec/world/world.h), and only open and close block.
 */

#include "exec/step/comm.h"

/** The name is "mpi". */
extern const struct comm_ops comm_mpi_ops;
