#pragma once

/** @file
 * Collectives over MPI: point-to-point messages, round by round as core/collective/collective says,
 * or the library's own for ALGORITHM_MPI (whose messages nobody counts).
 *
 * Works with the streams of exec/cpu/stream.h.  The lanes take turns calling MPI
 * (exec/world/world.h), and none of these calls blocks but open and close.
 */

#include "exec/step/comm.h"

/** The name is "mpi". */
extern const struct comm_ops comm_mpi_ops;
