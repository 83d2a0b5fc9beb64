#pragma once

/** @file
 * Transport of the control plane's messages: the inner interface of exec/world/world.h, only for
 * its own files.  exec/world/world_mpi.c implements it, and the calls of exec/world/world.h that
 * all ranks make together; a build without MPI has exec/world/world_alone.c, for one rank.
 *
 * Messages go between rank 0 and the others.  Messages of one channel between two ranks arrive in
 * the order of sending, with the size that the receiver expects; each channel and rank has at most
 * one receive in progress.
 */

#include "exec/world/world.h"

/** State of a thread that polls without success.  Start from {0}. */
struct patience {
    int64_t polls, nap; /**< nap: how long to sleep next [ns]; 0: not yet */
    double since;       /**< the first poll, by the monotonic clock [seconds] */
};

/** After another unsuccessful poll: yield the core, and sleep after some time.  Not under the
 * lock. */
void world_pause(struct patience *patience);

/** Note that a thread waits for other ranks (@change is 1) or stops waiting (-1). */
void world_waiting(int change);

/** world_lock(), but no longer than @seconds.  @return whether the lock was taken. */
bool world_try_lock(double seconds);

/** The kinds of messages between two ranks. */
enum plane_channel {
    PLANE_CALLS, /**< what all ranks do together */
    PLANE_CLOCK,
    PLANE_BEATS,
    PLANE_CHANNEL_COUNT
};

/** A message on its way. */
struct parcel;

/** Connect all ranks.  @return who this process is. */
struct exec_world plane_start(int *argc, char ***argv);

/** Disconnect, on all ranks together. */
void plane_stop(void);

/** End the other processes of the job with exit code @code, as far as that works within a few
 * seconds; and perhaps this one. */
void plane_abort(int code);

/** Begin to send the @bytes of @data to @rank; @data is borrowed until the parcel is done.  Under
 * world_lock(), as the next two. */
struct parcel *plane_send(enum plane_channel channel, int32_t rank, const void *data,
                          int64_t bytes);

/** Begin to receive @bytes from @rank into @data, which is borrowed until the parcel is done. */
struct parcel *plane_receive(enum plane_channel channel, int32_t rank, void *data, int64_t bytes);

/** Whether *@parcel is done: then it is freed and NULL.  NULL is done. */
bool plane_done(struct parcel **parcel);

/** Wait until *@parcel is done, and report it (world_progress(@what)).  Not under world_lock(). */
void plane_wait(struct parcel **parcel, const char *what);
