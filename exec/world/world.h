#pragma once

/** @file
 * The control plane of a job: its processes, their messages besides gradients, and the detection of
 * processes that do not answer.
 *
 * MPI runs with MPI_THREAD_SERIALIZED: every call of MPI in the process is made under the one lock
 * of world_lock(), which is never held while waiting for another process.  The calls below that
 * wait release the lock and sleep between polls, so they neither occupy a core nor delay the
 * collectives of exec/step/comm.h.  They use their own communicator; every rank makes them in the
 * same order, from the thread that trains.  A failure of MPI ends the job with MPI's own message.
 * In a build without MPI a job has one rank.
 */

#include "core/base/base.h"

/** Who this process is. */
struct exec_world {
    int32_t rank, ranks;             /**< in the job */
    int32_t local_rank, local_ranks; /**< among the processes of this machine */
};

/** Start MPI, on all ranks together.  @return who this process is.  Ends the job with exit code 69
 * when MPI was built without support for threads, and with 64 when the environment (Open MPI's,
 * Slurm's or torchrun's variables) gives more ranks than MPI connects: each of them would believe
 * to be the only one. */
struct exec_world world_start(int *argc, char ***argv);

/** Stop MPI, on all ranks together, after world_heartbeat_stop(). */
void world_stop(void);

/** Who this process is; valid after world_start(). */
struct exec_world world_self(void);

/** End all processes of the job with exit code @code, now; from any thread, with the lock held or
 * not.  Does not return. */
_Noreturn void world_abort(int code);

/** Take the lock for calls of MPI. */
void world_lock(void);

/** Give the lock back. */
void world_unlock(void);

/** Replace each of @count numbers by its sum over all ranks, the same bits on each. */
void world_sum(double *value, int32_t count);

/** Replace each of @count numbers by the largest of all ranks. */
void world_max(int64_t *value, int32_t count);

/** Copy @bytes of rank @root to all ranks. */
void world_broadcast(void *data, int64_t bytes, int32_t root);

/** Collect the @bytes of @mine, of any number on each rank, at rank 0.
 * @return how many there are in @all, in the order of ranks, which the caller frees; 0 and NULL on
 * the other ranks. */
int64_t world_gather(const void *mine, int64_t bytes, void **all);

/** Wait until all ranks have called it. */
void world_barrier(void);

/** Seconds by the monotonic clock. */
double world_now(void);

/** Offset of this process's monotonic clock from that of rank 0. */
struct clock_offset {
    double seconds; /**< to be added to world_now() for the time of rank 0 */
    double error;   /**< at most: half the shortest round trip; 0 where it is the same clock [s] */
};

/** Compare clocks with rank 0 by a few round trips; all ranks together, in the thread that trains.
 * Source: Cristian 1989, "Probabilistic clock synchronization": of several round trips, the
 * shortest is used. */
struct clock_offset clock_compare(void);

/** The last sign of life of this process. */
struct liveness {
    const char *what; /**< the last progress: "all-reduce", "step" */
    int64_t count;    /**< of such signs so far */
    int64_t step;     /**< of world_at() */
    int32_t bucket;   /**< of world_at() */
    double age_s;     /**< since the last sign [seconds] */
    bool waiting;     /**< a thread waits for other ranks */
};

/** Report progress; @what is a literal.  Cheap, from any thread. */
void world_progress(const char *what);

/** Report the current step of training and bucket of this process; @bucket -1: none.  It is also a
 * report of progress.  From any thread. */
void world_at(int64_t step, int32_t bucket);

/** What this process did last. */
struct liveness world_last_progress(void);

/** Start to watch each other, on all ranks together.  A thread of each rank reports its progress to
 * rank 0 once a second (4 times in @timeout_s if that is shorter), and rank 0 answers.  The job
 * ends with exit code 71 and a message that names each missing rank with machine, process and last
 * position when
 *
 *   - rank 0 has not heard from a rank for @timeout_s, or a rank not from rank 0;
 *   - no rank has progressed for @timeout_s (no collective, no world_progress()), and at least one
 *     rank waits: those that do not wait are named, else those that are furthest behind.
 *
 * A rank that did not run for a second, as when it is stopped or the machine is overloaded, is
 * named as well once it runs again, and the job goes on; unless rank 0 did not run either.
 *
 * So @timeout_s must be longer than any time in which no rank reports progress.  @advice ends the
 * message ("the last checkpoint is intact"); it is borrowed and may be NULL.  A @timeout_s of 0 or
 * less starts nothing. */
void world_heartbeat_start(double timeout_s, const char *advice);

/** Append "rank 2 of 4 (host a, pid 17)"; machine and process only while ranks watch each other. */
void world_describe(struct text *out, int32_t rank);

/** Stop watching, on all ranks together; does nothing if nothing was started. */
void world_heartbeat_stop(void);

/* ---- what ranks agree on ---- */

/** All ranks together.  @err gets the largest exit code; messages stay on their ranks.  @return 0,
 * or -1 if @failed is set on any rank. */
int world_agree(int failed, struct err *err);
