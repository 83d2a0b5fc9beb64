#pragma once

/** @file
 * The simulator: a run message by message, with contention, on SimGrid.
 *
 * SimGrid keeps one engine per process, and may abort it.  foretrain therefore starts foretrain-sim
 * as a child.
 *
 * There is one actor per class and lane, each of which runs the steps of its lane in order.  A
 * lane's clock may run ahead of SimGrid's while no other lane can see it: compute steps only add to
 * it (unless lanes slow each other down, see struct pace), and the actor sleeps until that time
 * when another lane waits for the step or the lane itself must wait.  A collective runs round by
 * round: send, receive, wait for both; a message begins when its sender and its receiver have both
 * entered the round.
 */

#include "core/backend/trace.h"
#include "core/traffic/workload.h"

/** Told how many messages are simulated, and of how many: 0 before the first, then now and then. */
typedef void sim_progress(int64_t done, int64_t total);

/** Run @workload and fill zeroed @trace; @progress may be NULL.  Once per process.
 * @return 0, or -1 with the trace released: SimGrid cannot be started, or an actor waits for ever
 * (exit code 70). */
int sim_run(const struct workload *workload, sim_progress *progress, struct trace *trace,
            struct err *err);
