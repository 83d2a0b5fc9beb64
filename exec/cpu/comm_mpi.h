#pragma once

/** @file
 * Collectives over MPI point-to-point messages, round by round as core/collective says.
 *
 * Works with the streams of exec/cpu/stream.h and needs MPI_THREAD_SERIALIZED: the lanes take
 * turns calling MPI, and none of these calls blocks.
 */

#include "exec/comm.h"

/** The name is "mpi". */
extern const struct comm_ops comm_mpi_ops;
