#pragma once

/** @file
 * Messages between rank 0 and the others over the connections of exec/socket_meet.h.
 *
 * A thread of its own takes in what arrives, at once, and sends what the network did not take
 * at once; so a process that computes notices, too, when the job ends.  Who has to say nothing any
 * more says so before it disconnects; a connection that ends otherwise has lost its rank.
 *
 * Functions may be called from any thread unless they say otherwise.
 */

#include <stdbool.h>
#include <stdint.h>

#include "exec/socket_meet.h"
#include "exec/world/plane.h"

/** What the thread does when something ends; called once, on that thread. */
struct link_events {
    /** Another rank ends the job with @code. */
    void (*ended)(int code);
    /** @rank has been lost, and nobody asks link_lost() (see link_watch()). */
    void (*lost)(int32_t rank);
};

/** Start; takes the connections of @peer (@count).  Dies where it gets no thread. */
void link_start(const struct socket_peer *peer, int32_t count, const struct link_events *events);

/** Say that nothing more will come, wait until the others have said so or are lost, disconnect.
 * All ranks together, from one thread; nothing may be on its way. */
void link_stop(void);

/** Tell all ranks this one is connected to, but @except, to end with exit code @code; gives up
 * after a second.  Nothing can be sent after it. */
void link_end(int code, int32_t except);

/** Begin to send; see plane_send(). */
struct parcel *link_send(enum plane_channel channel, int32_t rank, const void *data, int64_t bytes);

/** Begin to receive; see plane_receive(). */
struct parcel *link_receive(enum plane_channel channel, int32_t rank, void *data, int64_t bytes);

/** See plane_done(). */
bool link_done(struct parcel **parcel);

/** Wait until *@parcel is done. */
void link_wait(struct parcel **parcel);

/** See plane_lost(). */
bool link_lost(int32_t rank);

/** See plane_watch(). */
void link_watch(bool watched);
