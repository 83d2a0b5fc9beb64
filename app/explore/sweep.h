#pragma once

/** @file
 * A sweep: every point of a cross product of axes in closed form, and the simulator where it
 * matters.
 *
 * The closed form screens all points.  Then the simulator runs those on the front of time and
 * device-hours, their neighbours in the grid of points and a random part, and, until nothing moves,
 * the points that come onto the front because a simulated one has left it.  So each point on the
 * front is simulated, and the others say what the screening is worth.  Which points are checked
 * depends on the answers alone, not on how many workers there are.
 */

#include "app/explore/axes.h"
#include "app/explore/finding.h"

enum {
    SWEEP_DRAWS = 100, /**< behind an interval; `predict` has 400, at four times the cost */
};

/** The part of all points that is simulated whatever they are.  Our choice. */
#define SWEEP_RANDOM 0.02

/** Why a point was simulated: the first reason that holds. */
enum sweep_check { CHECK_NONE, CHECK_FRONT, CHECK_NEIGHBOUR, CHECK_RANDOM, CHECK_COUNT };

/** "", "front", "neighbour", "random". */
extern const char *const sweep_check_names[];

/** What to do. */
struct sweep_plan {
    const char *job;                       /**< borrowed */
    const struct predict_options *predict; /**< whose backend is -1: closed form, then checks;
                                                borrowed */
    const struct price_file *prices;       /**< or NULL; borrowed */
    int32_t workers;                       /**< at least 1 */
};

/** A sweep.  Start from {0}; release with sweep_release(). */
struct sweep {
    struct sweep_plan plan;
    struct axes axes;
    struct finding *found;   /**< (axes.points) by the screening back end; owned */
    struct finding *checked; /**< (axes.points) by the simulator; owned */
    enum sweep_check *check; /**< (axes.points) owned */
    bool *front;             /**< (axes.points) on the front, by what sweep_row() has; owned */
};

/** Do all points of @plan with the @given axes.
 * @return 0, or -1 with a message: as axes_read(), findings_find(); a key that --set
 * gives, too, what axes_check() refuses (exit code 64).  Points that make no job are
 * no failure. */
int sweep_run(struct sweep *sweep, const struct sweep_plan *plan, const struct texts *given,
              struct err *err);

/** What stands in the row of @point: the simulator's finding where there is one, with the ratio of
 * both; a point whose check failed has the reason of that.  Borrows from @sweep. */
struct finding sweep_row(const struct sweep *sweep, int64_t point);

void sweep_release(struct sweep *sweep);
