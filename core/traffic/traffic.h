#pragma once

/** @file
 * The messages of a running schedule: its collectives as rounds, with senders, receivers and links.
 *
 * Rounds whose messages go between the same ranks share one relation, so the routes of all ranks
 * are looked up once per relation and not once per round.  Relations belong to a lane: the messages
 * of one relation are sent and received in the same order, so a queue per relation and rank is
 * enough to match them.
 */

#include "core/network/fabric.h"
#include "core/schedule/schedule.h"

/** One way for ranks to exchange messages: each sends to at most one and receives from at most one.
 * All arrays are owned by the traffic. */
struct relation {
    enum lane lane;
    int32_t beside; /**< equal for relations whose messages are sent at the same time: channels */
    int32_t ranks, ends, links; /**< ends: ranks + 1; links: path[ranks] */
    int32_t *to;     /**< (ranks) the receiver of each rank's message, or -1; to[from[r]] = r */
    int32_t *from;   /**< (ranks) the sender to each rank, or -1 */
    double *latency; /**< (ranks) of the route to `to` [s] */
    int32_t *path;   /**< (ends) rank r's route is link[path[r]] ... link[path[r + 1] - 1] */
    int32_t *link;   /**< (links) one that is crossed k times is there k times */
};

/** One message from every rank that has a peer in the relation. */
struct round {
    int32_t relation;
    int32_t merged; /**< number of rounds merged into this one: 1 unless coarse */
    int32_t times;  /**< how often it comes, one after the other: 1 until folded */
    double share;   /**< size of a message as a fraction of the collective's bytes */
};

/** The rounds of one channel of all collectives that differ only in bytes. */
struct program {
    int32_t step;       /**< the first of them */
    int32_t begin, end; /**< half-open range in traffic.round */
    int32_t channels;   /**< of the first channel: programs from here on that run side by side */
};

/** Read freely; release with traffic_free(). */
struct traffic {
    int32_t ranks, link_count;
    int32_t stages;    /**< of a pipeline: ranks / stages ranks run the same, one after the other */
    double *bandwidth; /**< (link_count) [bytes/s] */
    struct relation *relation;
    struct round *round;
    struct program *program;
    int32_t *step_program; /**< (steps) index of its first channel, or -1: the step sends nothing */
    int32_t relation_count, round_count, program_count;
};

/** The traffic of @schedule on @fabric.  Never fails. */
struct traffic *traffic_build(const struct fabric *fabric, const struct schedule *schedule);

/** Merge up to @limit consecutive rounds of one relation: one message carries the bytes of them all
 * and pays all their latencies. */
void traffic_merge(struct traffic *traffic, int32_t limit);

/** Messages the ranks @rank (count) send in one iteration of @schedule. */
int64_t traffic_messages(const struct traffic *traffic, const struct schedule *schedule,
                         const int32_t *rank, int32_t count);

/** Without peers and routes. */
struct relation relation_new(enum lane lane, int32_t ranks);

void relation_release(struct relation *relation);

void traffic_release(struct traffic *traffic);

void traffic_free(struct traffic *traffic);
