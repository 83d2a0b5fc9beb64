#pragma once

/** @file
 * Starting the ranks of a job on this machine where there is no mpirun.
 */

#include <stdint.h>

/** Start @argument, a command line that ends with NULL, @ranks times, each with the environment by
 * which the ranks find each other (exec/socket_place.h), and wait for all.  SIGTERM, SIGINT and
 * SIGUSR1 are passed on to them.  Once one has failed the others have a second to end by
 * themselves; they end with this process in any case.  Rank 0 alone keeps the standard input.
 * @return 0, the exit code of the rank that failed first, 128 + the signal that killed it, or 71:
 * they could not be started (said on stderr). */
int start_ranks(int32_t ranks, char **argument);
