#pragma once

/** @file
 * What pictures of one step show: who does what when, and how busy links are.
 */

#include "core/backend/backend.h"

enum {
    PICTURE_RANKS = 4,    /**< at most */
    PICTURE_STAGES = 16,  /**< of a pipeline, at most */
    PICTURE_PIECES = 700, /**< of all ranks, at most: fewer ranks are shown, then longer pieces */
};

/** The last iteration of @trace, which ran @schedule: rank, lane, what ("forward", "backward",
 * "optimizer", "input", or the axis), name, bucket, begin_s and end_s of each piece, by rank, lane
 * and time, since the iteration began.  Compute steps that follow each other are one piece, up to
 * the one that a bucket waits for, whose number that piece has; other compute has null.  Where that
 * is too much, a piece is the forward or backward pass of a micro_batch and what ranks exchange in
 * it, waits included: busy_s is the time without them.  "repeat" is of many, alike if it has times:
 * how often what is before it runs again.
 *
 * Of a pipeline what one rank of each stage computes: lane "stage N", a piece for each micro_batch
 * (which also tells chunks of a stage apart where others run between them) or "repeat". */
struct json *picture_lanes(const struct schedule *schedule, const struct trace *trace);

/** The links that carry bytes in an iteration: link (the kind), bandwidth of the busiest of that
 * kind [bytes/s], busy_s: the time it needs for its bytes at full speed, share: of a step of @step
 * seconds, and places: how many nodes or groups of nodes have such links, 0 of those inside nodes.
 * The busiest first. */
struct json *picture_links(const struct fabric *fabric, const struct schedule *schedule,
                           double step);
