#pragma once

/** @file
 * The rules behind world_heartbeat_start(), without threads, messages or a clock: which ranks do
 * not answer, and which do not progress.
 *
 * Ranks above 0 watch rank 0; rank 0 watches all others.  Times are in seconds by any monotonic
 * clock.  Time in which the watcher itself did not run is not charged to the others, since it could
 * not receive their messages.
 */

#include "core/base/base.h"

/** What a rank reports of itself. */
struct beat {
    int64_t step;
    int32_t bucket;  /**< -1: none */
    int32_t waiting; /**< 1: a thread waits for other ranks */
    int32_t last;    /**< 1: the sender stops watching */
    double age_s;    /**< of its progress */
    double late_s;   /**< its watcher did not run, before its last check; 0: it did */
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

/** The state of the other ranks, as one rank knows it. */
struct watch {
    int32_t rank, ranks;        /**< of the watcher; in the job */
    double timeout_s, period_s; /**< between two calls of watch_check(), as planned */
    int32_t count;              /**< of @peer */
    struct watched *peer;       /**< (count) owned */
    const struct identity *who; /**< (ranks) borrowed */
    double checked;             /**< when watch_check() ran last */
    double late_s;              /**< so much later than planned, until it is told: rank 0 tells
                                 * its own, the others send theirs; 0: less than counts */
    double excused;             /**< until then, nobody is late: the watcher was */
};

/** Start watching at @now, as if every rank had just been heard.  @who (ranks) is borrowed. */
void watch_init(struct watch *watch, int32_t rank, int32_t ranks, double timeout_s, double period_s,
                const struct identity *who, double now);

void watch_release(struct watch *watch);

/** @peer has sent @beat, received at @now. */
void watch_hear(struct watched *peer, const struct beat *beat, double now);

/** Append to @out a line for each rank that does not answer, or, on rank 0, for each that blocks
 * the job while no rank progresses (see world_heartbeat_start()); @own is the watcher's beat.
 * @return whether there was one: then the job must end.  Otherwise @out may have lines on ranks
 * that did not run for a while. */
bool watch_check(struct watch *watch, const struct beat *own, double now, struct text *out);

/** Append "foretrain-exec: rank 2 of 4 (host a, pid 17)". */
void watch_name(struct text *out, const struct watch *watch, int32_t rank);

/** Append " (host a, pid 17)". */
void watch_describe(struct text *out, const struct identity *who);
