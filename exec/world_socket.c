#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/base.h"
#include "exec/socket_link.h"
#include "exec/socket_meet.h"
#include "exec/socket_place.h"
#include "exec/world/plane.h"

static struct {
    struct exec_world self;
    struct socket_peer *peer; /* (ranks) */
} plane;

const char *const plane_name = "the control plane";

/* ---- meeting and parting ---- */

static void on_end(int code)
{
    if (plane.self.rank == 0)
        link_end(code, -1);
    fflush(NULL);
    _exit(code);
}

/* Ranks above 0 all lose rank 0 at the same time: the first speaks, and who started the job ends
 * the others before it is their turn. */
static void on_loss(int32_t rank)
{
    const struct socket_peer *who = &plane.peer[rank];
    int32_t turn = plane.self.rank < 9 ? plane.self.rank - 1 : 8;
    if (plane.self.rank > 0)
        nanosleep(&(struct timespec){.tv_sec = 2 * turn}, NULL);
    fprintf(stderr, "foretrain-exec: rank %d of %d (host %s, pid %lld) has ended or was killed\n",
            rank, plane.self.ranks, who->host, (long long)who->process);
    world_abort(71);
}

struct exec_world plane_start(int *argc, char ***argv)
{
    const struct link_events events = {on_end, on_loss};
    struct socket_place place;
    struct err err = {0};
    (void)argc;
    (void)argv;
    int failed = socket_place_read(&place, &err);
    if (!failed) {
        plane.peer = base_alloc(place.ranks, sizeof(*plane.peer));
        failed = socket_meet(&place, plane.peer, &err);
    }
    if (failed) {
        fprintf(stderr, "foretrain-exec: %s", err.text);
        exit(err.exit_code);
    }
    plane.self = (struct exec_world){place.rank, place.ranks, place.local_rank, place.local_ranks};
    link_start(plane.peer, place.ranks, &events);
    return plane.self;
}

void plane_stop(void)
{
    link_stop();
    free(plane.peer);
    plane.peer = NULL;
}

void plane_abort(int code)
{
    link_end(code, -1);
}

/* ---- messages ---- */

struct parcel *plane_send(enum plane_channel channel, int32_t rank, const void *data, int64_t bytes)
{
    return link_send(channel, rank, data, bytes);
}

struct parcel *plane_receive(enum plane_channel channel, int32_t rank, void *data, int64_t bytes)
{
    return link_receive(channel, rank, data, bytes);
}

bool plane_done(struct parcel **parcel)
{
    return link_done(parcel);
}

void plane_wait(struct parcel **parcel, const char *what)
{
    world_waiting(1);
    link_wait(parcel);
    world_waiting(-1);
    world_progress(what);
}

bool plane_lost(int32_t rank)
{
    return link_lost(rank);
}

void plane_watch(bool watched)
{
    link_watch(watched);
}

/* ---- what all ranks do together: everything goes by rank 0 ---- */

static void tell(int32_t rank, const void *data, int64_t bytes, const char *what)
{
    struct parcel *parcel = link_send(PLANE_CALLS, rank, data, bytes);
    plane_wait(&parcel, what);
}

static void hear(int32_t rank, void *data, int64_t bytes, const char *what)
{
    struct parcel *parcel = link_receive(PLANE_CALLS, rank, data, bytes);
    plane_wait(&parcel, what);
}

/* From rank 0 to all others but @except, which may be -1. */
static void tell_all(const void *data, int64_t bytes, int32_t except, const char *what)
{
    struct parcel **parcel = base_alloc(plane.self.ranks, sizeof(struct parcel *));
    for (int32_t rank = 1; rank < plane.self.ranks; rank++)
        if (rank != except)
            parcel[rank] = link_send(PLANE_CALLS, rank, data, bytes);
    for (int32_t rank = 1; rank < plane.self.ranks; rank++)
        if (parcel[rank])
            plane_wait(&parcel[rank], what);
    free(parcel);
    world_progress(what);
}

/* Added in the order of ranks, on one of them: all get the same bits. */
void world_sum(double *value, int32_t count)
{
    int64_t bytes = count * (int64_t)sizeof(*value);
    if (plane.self.rank > 0) {
        tell(0, value, bytes, "sum");
        hear(0, value, bytes, "sum");
        return;
    }
    double *other = base_alloc(count, sizeof(*other));
    for (int32_t rank = 1; rank < plane.self.ranks; rank++) {
        hear(rank, other, bytes, "sum");
        for (int32_t i = 0; i < count; i++)
            value[i] += other[i];
    }
    free(other);
    tell_all(value, bytes, -1, "sum");
}

void world_max(int64_t *value, int32_t count)
{
    int64_t bytes = count * (int64_t)sizeof(*value);
    if (plane.self.rank > 0) {
        tell(0, value, bytes, "maximum");
        hear(0, value, bytes, "maximum");
        return;
    }
    int64_t *other = base_alloc(count, sizeof(*other));
    for (int32_t rank = 1; rank < plane.self.ranks; rank++) {
        hear(rank, other, bytes, "maximum");
        for (int32_t i = 0; i < count; i++)
            value[i] = value[i] > other[i] ? value[i] : other[i];
    }
    free(other);
    tell_all(value, bytes, -1, "maximum");
}

void world_broadcast(void *data, int64_t bytes, int32_t root)
{
    int32_t rank = plane.self.rank;
    if (rank == 0 && root != 0)
        hear(root, data, bytes, "broadcast");
    if (rank == 0)
        tell_all(data, bytes, root, "broadcast");
    else if (rank == root)
        tell(0, data, bytes, "broadcast");
    else
        hear(0, data, bytes, "broadcast");
}

int64_t world_gather(const void *mine, int64_t bytes, void **all)
{
    int64_t *size = base_alloc(plane.self.ranks, sizeof(*size)), total = bytes, at = bytes;
    *all = NULL;
    if (plane.self.rank > 0) {
        tell(0, &bytes, sizeof(bytes), "gather");
        tell(0, mine, bytes, "gather");
        free(size);
        return 0;
    }
    for (int32_t rank = 1; rank < plane.self.ranks; rank++) {
        hear(rank, &size[rank], sizeof(*size), "gather");
        total += size[rank];
    }
    char *to = base_alloc(total, 1);
    if (bytes > 0)
        memcpy(to, mine, (size_t)bytes);
    for (int32_t rank = 1; rank < plane.self.ranks; at += size[rank], rank++)
        hear(rank, to + at, size[rank], "gather");
    free(size);
    *all = to;
    return total;
}

void world_barrier(void)
{
    world_sum(NULL, 0);
}
