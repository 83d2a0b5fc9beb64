#pragma once

/** @file
 * Communicators of NCCL, the thread that watches them, and messages when one fails;
 * only for exec/cuda/nccl/comm_nccl*.c.
 *
 * A process has one set of communicators.  A call of NCCL may continue in the background:
 * nccl_settle() waits for its end.  A thread checks each communicator for failures ten times a
 * second, and reports the GPU's current bucket (world_at()).
 */

#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

enum {
    NCCL_WATCHED = 4,
    NCCL_PATIENCE_S = 300, /**< for ranks to connect [s]; our choice */
    NCCL_BUCKETS = 4096    /**< messages distinguish this many buckets */
};

/** Begin a call of NCCL. Every call is between nccl_enter() and nccl_settle(), so that the watching
 * thread does not call NCCL at the same time. */
void nccl_enter(void);

/** End the call @call ("ncclAllReduce") with @result on @comm (or NULL), and wait until its work in
 * the background is done.  Ends the job if it failed, or if it takes more than NCCL_PATIENCE_S
 * while nothing is watched, since heartbeats do not run yet. */
void nccl_settle(ncclResult_t result, ncclComm_t comm, const char *call);

/** Like nccl_settle(), and @return what came of it instead of ending the job. */
ncclResult_t nccl_try(ncclResult_t result, ncclComm_t comm);

/** Watch @comm (@count, at most NCCL_WATCHED) from now on. */
void nccl_watch_start(const ncclComm_t *comm, int32_t count);

/** Stop watching; does nothing if nothing was started. */
void nccl_watch_stop(void);

/** The next calls belong to @bucket of @step; bucket -1: the launch of @step, which was captured
 * before.  Messages name the last issued step, whose bucket may not have begun. */
void nccl_note(int64_t step, int32_t bucket);

/** Issue a report on @stream that the GPU has reached the bucket of nccl_note(), if it differs from
 * the last reported one. */
void nccl_note_place(cudaStream_t stream);
