#pragma once

/** @file
 * How the ranks of a job find each other without MPI: rank 0 listens, the others connect, each says
 * who it is, and rank 0 tells each which of the ranks of its machine it is.
 *
 * Whoever connects and is none of them (a scanner of ports, a rank of another job) is sent away
 * and holds nobody up.  All machines have the same byte order; others are sent away too.
 */

#include <stdint.h>

#include "core/base/err.h"
#include "exec/socket_place.h"

/** What a rank tells of itself. */
struct socket_peer {
    int fd;           /**< the connection; -1: none */
    char host[64];    /**< the machine's name */
    int64_t process;  /**< its id there */
    uint64_t machine; /**< equal on the same machine; told to rank 0 only */
};

/** Meet the others.  @place gets its local ranks; @peer (ranks) those this one is connected to:
 * on rank 0 all others, on these rank 0.  Connections are left non-blocking.
 * @return 0, or -1: rank 0 cannot listen, cannot be reached, or ranks are missing when
 * @place->timeout_s is over (exit code 69, with their names); another rank with this number, or for
 * another number of ranks (64). */
int socket_meet(struct socket_place *place, struct socket_peer *peer, struct err *err);
