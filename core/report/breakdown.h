#pragma once

/** @file
 * Where the time of one step goes, from its trace.
 */

#include "core/backend/lanes.h"

/** Where the time of one step goes, on the rank that finishes last, of a pipeline on one of the
 * stage that computes most [s]; sums to time. */
struct breakdown {
    double time;
    double compute;                     /**< forward, loss and backward, of a rank that nothing
                                             slows down */
    double slowed;                      /**< computing longer because a collective is in flight */
    double slower;                      /**< waiting for the slowest rank to compute */
    double exposed_communication;       /**< waiting for a collective while not computing */
    double exposed_row, exposed_column; /**< the same, by the axis waited for */
    double exposed_tensor, exposed_context, exposed_expert;
    double input_wait; /**< waiting for input */
    double bubble;     /**< waiting for other stages */
    double other;      /**< optimizer and whatever is left */
};

/** Add (@a - @b) / @count to each part of @step, which may be one of them. */
void breakdown_add(struct breakdown *step, const struct breakdown *a, const struct breakdown *b,
                   double count);

/** Multiply each part of @step. */
void breakdown_scale(struct breakdown *step, double ratio);

/** Waiting for what is exchanged inside of layers: tensor, context and expert. */
double breakdown_inside(const struct breakdown *step);

/** The traced rank that ends the last iteration, or, of a pipeline, computes most; -1: none. */
int32_t breakdown_rank(const struct schedule *schedule, const struct trace *trace);

/** Split the last iteration of @trace, which ran without noise and with @slowdown; with noise a
 * step takes @step [s]. */
struct breakdown report_breakdown(const struct schedule *schedule, struct slowdown slowdown,
                                  const struct trace *trace, double step);

/** @a - @b, both parts of @whole or sums of some: 0 where they differ by rounding alone. */
double breakdown_difference(double a, double b, double whole);

/** What is not bytes of the wait for collectives along an axis; at most 1 together. */
struct wait_share {
    double slowed; /**< they go slower beside compute */
    double launch;
    double latency;
};

/** The shares of a wait @all that is @unslowed if nothing goes slower beside compute, @launched if
 * launching takes no time either, and @swift if messages have no latency either [s]. */
struct wait_share wait_share(double all, double unslowed, double launched, double swift);
