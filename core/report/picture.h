#pragma once

/** @file
 * What pictures of one step show: who does what when, and how busy links are.
 */

#include "core/backend/backend.h"
#include "core/base/json.h"

enum {
    PICTURE_RANKS = 4,    /**< at most */
    PICTURE_PIECES = 700, /**< of all ranks, at most: fewer ranks are shown, then longer pieces */
    PICTURE_PLACES = 12,  /**< of a part, each shown alone, at most */
    PICTURE_KINDS = 5,    /**< of a part with more of them, at most */
};

/** The last iteration of @trace, which ran @schedule: rank, lane, what ("forward", "backward",
 * "optimizer", "input", or the axis), name, bucket, begin_s and end_s of each piece, by rank, lane
 * and time, since the iteration began.  Compute steps that follow each other are one piece, up to
 * the one that a bucket waits for, whose number that piece has; other compute has null. */
struct json *picture_lanes(const struct schedule *schedule, const struct trace *trace);

/** The links that carry bytes in an iteration: link (the kind), bandwidth of the busiest of that
 * kind [bytes/s], busy_s: the time it needs for its bytes at full speed, and share: of a step of
 * @step seconds.  The busiest first. */
struct json *picture_links(const struct fabric *fabric, const struct schedule *schedule,
                           double step);

/** Where the links of picture_links() are: part ("row" and "column" of the schedule's grid, except
 * by NCCL, then the links of nodes and of groups of nodes, by the name of their tier), name ("row
 * 3", "rack2"), alike, bandwidth, busy_s and share of the busiest link that carries it.  Many are
 * folded: alike is how many are equally busy as this one, and the last stands for the rest, none of
 * which is busier.  Parts without bytes are left out. */
struct json *picture_map(const struct fabric *fabric, const struct schedule *schedule, double step);
