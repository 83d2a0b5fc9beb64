#pragma once

/** @file
 * All-reduce by the MPI library; only for exec/cpu/mpi/comm_mpi*.c.
 */

#include <mpi.h>
#include <stdint.h>

#include "core/base/dtype.h"

/** Memory and operations that successive calls reuse.  Start from {0}. */
struct library_memory {
    uint16_t *wire;
    int64_t capacity; /**< of wire */
    MPI_Op sum[DTYPE_COUNT];
};

/** Make the operations; under the lock. */
void library_init(struct library_memory *memory);

/** Release; under the lock. */
void library_release(struct library_memory *memory);

/** Replace @count numbers of @data by their sums over the ranks of @comm, with MPI_Iallreduce();
 * blocks until this rank is done.  With a @payload of 16 bits the library adds such numbers, so it
 * rounds each of its partial sums. */
void library_all_reduce(struct library_memory *memory, MPI_Comm comm, int64_t count,
                        enum dtype payload, float *data);
