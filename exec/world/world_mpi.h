#pragma once

/** @file
 * Waiting for requests, shared by the files of exec/ that call MPI.
 */

#include <mpi.h>

#include "exec/world/plane.h"

/** Wait until @count requests are done, polling under the lock and pausing without it. */
void world_wait(int32_t count, MPI_Request *request, const char *what);
