#pragma once

/** @file
 * What the sources of NCCL in software (tests/cuda/fake/fake_nccl.h) share.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/cuda/fake/fake_nccl.h"

enum {
    FAKE_NCCL_RANKS = 64,
    FAKE_NCCL_SLOT = 512 << 10, /**< [bytes]; only what is used takes memory */
};

/** Where the ranks of a communicator exchange: memory that their processes share. */
struct fake_nccl_table {
    pthread_barrier_t barrier;
    char slot[FAKE_NCCL_RANKS][FAKE_NCCL_SLOT]; /**< by place: an order and its numbers */
};

/** A communicator. */
struct ncclComm {
    int32_t member[FAKE_NCCL_RANKS], size, place; /**< ranks of the job; this one's place */
    int32_t busy;                                 /**< questions until what is under way is done */
    bool finalized, blocking;
    struct fake_nccl_table *table;
};

/** Say what was wrong, and abort(). */
_Noreturn void fake_nccl_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Write a line of fake_nccl_log(). */
void fake_nccl_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** "{0,1}"; valid until the next call. */
const char *fake_nccl_members(const struct ncclComm *comm);

/** Whether a collective of @comm on @stream is refused. */
bool fake_nccl_refuses(const struct ncclComm *comm, cudaStream_t stream);

/** How far @place is behind that of fake_nccl_base() [bytes]. */
int64_t fake_nccl_offset(const void *place);

/** Begin @call: no other thread may be inside, and @comm (or NULL) must be ready. */
void fake_nccl_enter(const char *call, ncclComm_t comm);

/** End it: what it began on @comm (or NULL) goes on in the background. */
ncclResult_t fake_nccl_leave(ncclComm_t comm);
