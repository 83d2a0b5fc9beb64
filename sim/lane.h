#pragma once

/** @file
 * The actors: one per class and lane, each of which runs the schedule's steps of its lane in order.
 *
 * A lane's clock may run ahead of SimGrid's while no other lane can see it: compute steps only add
 * to it (unless lanes slow each other down, see pace.h), and the actor sleeps until that time when
 * another lane waits for the step or the lane itself must wait.  A collective runs round by round:
 * send, receive, wait for both; a message begins when its sender and its receiver have both entered
 * the round.
 */

#include "core/backend/backend.h"
#include "sim/fold.h"

/** The input of the actors.  All pointers are borrowed. */
struct simulation {
    const struct run *run;
    const struct schedule *schedule;
    const struct traffic *traffic;
    const struct fold *fold;
    int64_t messages; /**< of all iterations */
    double slowdown;  /**< of all ranks' compute; 0: each class has the noise of its member */
};

/** Run all iterations in the platform that SimGrid has loaded, and fill iteration ends, messages
 * and the spans of traced classes (under the rank of their member).
 * @return 0, or -1: an actor waits for ever (exit code 70). */
int simulation_run(const struct simulation *simulation, struct trace *trace, struct err *err);
