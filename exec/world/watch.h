#pragma once

/** @file
 * Who does not answer, and who does not go on: the rules behind world_heartbeat_start(), without
 * threads, messages or a clock.
 *
 * Ranks above 0 watch rank 0; rank 0 watches all others.  Times are in seconds by any clock that
 * does not run backwards.  Time in which the watcher itself did not run is not held against the
 * others: their messages had nobody to receive them.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/base.h"

/** What a rank reports of itself. */
struct beat {
    int64_t step;
    int32_t bucket;  /**< -1: none */
    int32_t waiting; /**< 1: a thread waits for other ranks */
    int32_t last;    /**< 1: the sender stops watching */
    double age_s;    /**< of its progress */
};

/** Where a rank runs. */
struct identity {
    char host[64];
    int64_t process;
};

/** A rank that is watched. */
struct watched {
    int32_t rank;
    struct beat heard; /**< the last beat */
    double when;       /**< it came */
    bool gone;         /**< it has said that it stops */
};

/** What one rank knows of the others. */
struct watch {
    int32_t rank, ranks;        /**< of the watcher; in the job */
    double timeout_s, period_s; /**< between two calls of watch_check(), as planned */
    int32_t count;              /**< of @peer */
    struct watched *peer;       /**< (count) owned */
    const struct identity *who; /**< (ranks) borrowed */
    double checked;             /**< when watch_check() ran last */
};

/** Start watching at @now: everybody has just been heard.  @who (ranks) is borrowed. */
void watch_init(struct watch *watch, int32_t rank, int32_t ranks, double timeout_s, double period_s,
                const struct identity *who, double now);

/** Release. */
void watch_release(struct watch *watch);

/** @peer has sent @beat, received at @now. */
void watch_hear(struct watched *peer, const struct beat *beat, double now);

/** Append to @out a line for each rank that does not answer, or, on rank 0, for each that holds the
 * job up while nobody goes on (see world_heartbeat_start()); @own is the watcher's beat.
 * @return whether there was one: then the job ends. */
bool watch_check(struct watch *watch, const struct beat *own, double now, struct text *out);

/** Append "foretrain-exec: rank 2 of 4 (host a, pid 17)". */
void watch_describe(struct text *out, const struct watch *watch, int32_t rank);
