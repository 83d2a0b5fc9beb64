#pragma once

/** @file
 * Who this process is and where it meets the others, from its environment.
 *
 * FORETRAIN_RANK (0 ... ranks - 1), FORETRAIN_RANKS and FORETRAIN_ADDRESS ("host:port" of rank 0;
 * "[::1]:port" for IPv6) say it; FORETRAIN_LOCAL_RANK and FORETRAIN_LOCAL_RANKS may say which of
 * the ranks of a machine this one is, which else the ranks find out.  Where one of
 * them is not set, the variable of torchrun is taken: RANK, WORLD_SIZE, MASTER_ADDR and
 * MASTER_PORT, LOCAL_RANK, LOCAL_WORLD_SIZE.  Without any of them there is one rank.
 *
 * FORETRAIN_START_TIMEOUT is how long ranks wait for each other to start [seconds].
 */

#include <stdint.h>

#include "core/base/err.h"

/** See above. */
struct socket_place {
    int32_t rank, ranks;
    int32_t local_rank, local_ranks; /**< -1: not told */
    char host[256], port[16];        /**< of rank 0; "" when there is one rank */
    int listener;     /**< on rank 0: a socket that listens there already, inherited; or -1 */
    double timeout_s; /**< to meet: 120 unless told (our choice) */
};

/** Read the environment.  @return 0, or -1 (exit code 64): a variable that is no number or out of
 * range, several ranks without an address. */
int socket_place_read(struct socket_place *place, struct err *err);
