#pragma once

/** @file
 * The rounds of one collective on one communicator, in pieces; only for exec/cpu/mpi/comm_mpi*.c.
 *
 * A message is sent in pieces of ROUNDS_PIECE bytes, so that one is added while the next is on its
 * way, and stays in the cache in between.  A rank need not finish a round to begin the next: a
 * piece is sent as soon as its data is there, and received as soon as it overwrites no data that is
 * still to be sent.  The results equal those of strict rounds, bit by bit.
 *
 * Nothing is sent to a rank that is not in the collective yet: each rank announces its entry to its
 * senders.  Where MPI sends long messages at once (the lab's does), they would otherwise share the
 * links with that rank's current messages, and delay all ranks that wait for it.
 */

#include <mpi.h>

#include "core/base/dtype.h"
#include "core/collective/collective.h"

enum {
    /** Size of a piece [bytes].  Our choice, like the windows, by trial:
     * incoming pieces should fit into a core's own cache. */
    ROUNDS_PIECE = 256 << 10,
    /** Pieces that are received at once. */
    ROUNDS_IN_WINDOW = 2,
    /** Pieces sent at the same time, if they are converted first. */
    ROUNDS_LEAVING_WINDOW = 4,
    /** Pieces sent at the same time without conversion, so that the next one is always on its
     * way. */
    ROUNDS_WINDOW = 16,
};

/** Whether a rank that this one sends to has entered the collective. */
struct gate {
    int32_t peer;
    bool open;
    MPI_Request request; /**< of its announcement, while it is closed */
};

/** Memory that successive collectives reuse.  Start from {0}. */
struct rounds_memory {
    char *landing; /**< (ROUNDS_IN_WINDOW, ROUNDS_PIECE bytes) */
    char *leaving; /**< (ROUNDS_LEAVING_WINDOW, ROUNDS_PIECE bytes) */
    struct exchange *exchange;
    int64_t capacity; /**< of exchange */
    struct gate *gate;
};

/** Send messages in pieces of @bytes, at most ROUNDS_PIECE, from now on; the same on all ranks,
 * while no message is on its way.  For tests: short messages then have many pieces. */
void rounds_set_piece(int32_t bytes);

void rounds_release(struct rounds_memory *memory);

/** Run @collective of rank @place on @data as exec/step/comm.h says; blocks until this rank is
 * done.
 * @return the messages this rank has sent. */
int64_t rounds_run(struct rounds_memory *memory, MPI_Comm comm, int32_t place,
                   const struct collective *collective, enum dtype payload, float *data);
