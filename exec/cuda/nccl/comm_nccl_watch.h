#pragma once

/** @file
 * Communicators of NCCL that do not block, who watches them, and what is said when one fails;
 * inside exec/cuda/comm_nccl*.c alone.
 *
 * A process has one set of communicators.  NCCL's answer to a call may be that it goes on in the
 * background: nccl_settle() waits for that.  A thread asks each communicator ten times a second
 * whether it has failed since, and passes on where the GPU has come to (world_at()).
 */

#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

enum {
    NCCL_WATCHED = 4,
    NCCL_PATIENCE_S = 300, /**< for ranks to connect [s]; our choice */
    NCCL_BUCKETS = 4096    /**< the first buckets are told apart in messages */
};

/** Begin a call of NCCL; every one is made between these two, so that the thread does not ask at
 * the same time. */
void nccl_enter(void);

/** End it, @result came of @call ("ncclAllReduce") on @comm (or NULL), and wait until what goes on
 * in the background is done.  Ends the job when it has failed; or, while nothing is watched, when
 * that takes more than NCCL_PATIENCE_S: heartbeats do not run yet. */
void nccl_settle(ncclResult_t result, ncclComm_t comm, const char *call);

/** Watch @comm (@count, at most NCCL_WATCHED) from now on. */
void nccl_watch_start(const ncclComm_t *comm, int32_t count);

/** Stop watching; nothing where nothing was started. */
void nccl_watch_stop(void);

/** What is issued from now on belongs to @bucket of @step; with a bucket of -1 @step begins that
 * was captured before.  In messages the step is the last one issued, whose bucket may not have
 * begun. */
void nccl_note(int64_t step, int32_t bucket);

/** Issue on @stream what tells that the GPU has come to the bucket of nccl_note(), where it is not
 * the one told last. */
void nccl_note_place(cudaStream_t stream);
