#pragma once

/** @file
 * Communication: the second of the two inner interfaces of the executor.
 *
 * Streams are those of the device it is paired with (exec/step/device.h).
 */

#include "core/collective/collective.h"
#include "core/collective/grid.h"
#include "core/schedule/schedule.h"

/** See exec/step/device.h. */
struct stream;

/** The communicators of one rank along each axis of the grid; each transport defines its own. */
struct comm_state;

/** One transport. */
struct comm_ops {
    const char *name; /**< "mpi" */
    /** The data of every collective begins at a multiple of this number of elements from
     * gradients(), and along a row each rank has a multiple of it (exec/step/packing.h). 0: no
     * alignment. */
    int64_t alignment;

    /** Whether this process can run the collectives of @schedule, and prepare for them; on all
     * ranks of the job, before open.  May be NULL: it can.
     * @return 0, or -1 with the reason (exit code 69). */
    int (*check)(const struct schedule *schedule, struct err *err);
    /** Connect the ranks of @grid; all ranks of the job call this together; ranks beyond the grid
     * then issue nothing.  On GPUs a collective takes at most @ctas thread blocks; 0: as many as
     * the library likes. */
    struct comm_state *(*open)(struct grid grid, int32_t ctas);
    /** Disconnect, together; accepts NULL. */
    void (*close)(struct comm_state *state);
    /** Memory of the device for @bytes of gradients, and of parameters that are gathered, of which
     * this transport makes more than of any other; all ranks call this together.  NULL: it has
     * none.  May be NULL. */
    void *(*allocate)(struct comm_state *state, int64_t bytes);
    /** Release @data of allocate(), which is attached no longer; accepts NULL. */
    void (*release)(struct comm_state *state, void *data);
    /** From now on the @data of all collectives but norms is within these @bytes of the device's
     * memory; all ranks call this together.  NULL: no longer.  May be NULL. */
    void (*attach)(struct comm_state *state, void *data, int64_t bytes);
    /** Issue @collective among the ranks along @axis on @data (collective.elements).  Along one
     * axis all ranks issue the same collectives in the same order, always on the same stream.
     *
     * Unless device_ops.exchanges_payload, @data stays fp32; messages carry numbers of type
     * @payload.  Received numbers are added in fp32, so a partial sum is rounded once per message.
     * The rank that holds a finished sum rounds it before passing it on, so after an all-reduce all
     * ranks hold the same bits.  The result blocks of a reduce-scatter are not rounded.
     */
    void (*issue)(struct comm_state *state, struct stream *stream, enum axis axis,
                  const struct collective *collective, enum dtype payload, void *data);
    /** Issue the sending of @count fp32 numbers at @data, which travel as @payload, to the rank of
     * this one's group along AXIS_PIPELINE that has stage @peer, or, if it @receives, the
     * receiving.  What two stages send each other, @back or not, is received in the order in which
     * it is sent.  NULL: the transport connects no stages. */
    void (*send)(struct comm_state *state, struct stream *stream, int32_t peer, bool receives,
                 bool back, int64_t count, enum dtype payload, void *data);
    /** Issue a note on @stream: the following work belongs to @bucket of @step (world_at()); bucket
     * -1: the launch of a step with captured collectives.  May be NULL. */
    void (*note)(struct stream *stream, int64_t step, int32_t bucket);
    /** Messages this rank has sent so far, as core/collective/collective.h counts them; a long one
     * may be sent in pieces. */
    int64_t (*messages)(struct comm_state *state);
};
