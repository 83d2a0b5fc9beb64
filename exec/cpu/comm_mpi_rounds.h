#pragma once

/** @file
 * The rounds of one collective on one communicator, in pieces; inside exec/cpu/comm_mpi*.c alone.
 *
 * A message travels in pieces of ROUNDS_PIECE bytes, so that one is added while the next is on its
 * way, and stays in the cache in between.  A rank need not finish a round to begin the next: a
 * piece is sent as soon as what it carries is there, and taken in as soon as nothing that is still
 * to be sent is overwritten.  What arrives is what it would be round by round, bit by bit.
 *
 * Nothing is sent to a rank that is not in the collective yet: it says so to those that will send
 * to it.  Where MPI takes long messages at once (the lab's does), they would share the wires with
 * what that rank is still busy with, and hold up all who wait for it.
 */

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/dtype.h"
#include "core/collective/collective.h"

enum {
    /** How much of a message travels at once [bytes].  Ours, as the windows, from
     * tests/bench/all_reduce.py: what is on its way in should fit into a core's own cache. */
    ROUNDS_PIECE = 256 << 10,
    /** Pieces that are received at once. */
    ROUNDS_IN_WINDOW = 2,
    /** Pieces that are sent at once, when they are converted first. */
    ROUNDS_LEAVING_WINDOW = 4,
    /** Pieces that are sent at once from where they are, so that receivers find the next one. */
    ROUNDS_WINDOW = 16,
};

/** Whether a rank that this one sends to has entered the collective. */
struct gate {
    int32_t peer;
    bool open;
    MPI_Request request; /**< of its word, while it is closed */
};

/** Memory that collectives use one after the other.  Start from {0}. */
struct rounds_memory {
    char *landing; /**< (ROUNDS_IN_WINDOW, ROUNDS_PIECE bytes) */
    char *leaving; /**< (ROUNDS_LEAVING_WINDOW, ROUNDS_PIECE bytes) */
    struct exchange *exchange;
    int64_t capacity; /**< of exchange */
    struct gate *gate;
    int64_t gate_capacity;
};

/** Let messages travel in pieces of @bytes, at most ROUNDS_PIECE, from now on; the same on all
 * ranks, while nothing is on its way.  For tests: short messages then have many pieces. */
void rounds_set_piece(int32_t bytes);

/** Release; the struct may be used again. */
void rounds_release(struct rounds_memory *memory);

/** Run @collective of rank @place on @data as exec/step/comm.h says; blocks until this rank is
 * done.
 * @return the messages this rank has sent. */
int64_t rounds_run(struct rounds_memory *memory, MPI_Comm comm, int32_t place,
                   const struct collective *collective, enum dtype payload, float *data);
