#pragma once

/** @file
 * What communicates: the second of the two inner interfaces of the executor.
 *
 * Streams are those of the device it is paired with (exec/device.h).
 */

#include <stdint.h>

#include "core/collective.h"
#include "core/grid.h"

/** See exec/device.h. */
struct stream;

/** The communicators of one rank along each axis of the grid; each transport defines its own. */
struct comm_state;

/** One transport. */
struct comm_ops {
    const char *name; /**< "mpi" */

    /** Connect the ranks of @grid; all of them call this together. */
    struct comm_state *(*open)(struct grid grid);
    /** Disconnect, together; accepts NULL. */
    void (*close)(struct comm_state *state);
    /** Issue @collective among the ranks along @axis on @data (collective.elements).  Along one
     * axis all ranks issue the same collectives in the same order, always on the same stream. */
    void (*issue)(struct comm_state *state, struct stream *stream, enum axis axis,
                  const struct collective *collective, float *data);
    /** Messages this rank has sent so far. */
    int64_t (*messages)(struct comm_state *state);
};
