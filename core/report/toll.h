#pragma once

/** @file
 * What failures and checkpoints add to the time of a prediction, for people and programs.
 */

#include "core/report/doubts.h"

/* Failures come at a constant rate, so the times between them are exponential, and at any moment:
 * while the job trains, saves or restarts.  After one the job restarts and does all work since its
 * last checkpoint again.  For such failures the mean is exact (failures_expected()); what real
 * failures have beyond that, that they come in bursts or more often at first, is left out.
 * Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps,
 * Future Generation Computer Systems 22 (2006) 303-312. */

/** No run is told to take longer [s]: 30,000 years. */
#define FAILURES_LONGEST 1e12

/** What a run is up against. */
struct failures {
    double mtbf;     /**< mean time between failures of all that the run uses [s]; INFINITY: none */
    double cost;     /**< time that a checkpoint takes and training stands still [s] */
    double restart;  /**< from a failure until the lost work begins again [s] */
    double interval; /**< of work between two checkpoints [s]; 0: only one, at the end */
};

/** The best interval of work between checkpoints, to first order: sqrt(2 cost mtbf) [s].  Good
 * while the cost is far smaller than @mtbf.
 *
 * Source: J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17
 * (1974) 530-531. */
double failures_young(double mtbf, double cost);

/** Young's to higher order [s]: sqrt(2 c M) (1 + sqrt(c / 2M) / 3 + (c / 2M) / 9) - c for a cost
 * c < 2 M, and M from there on, where a run hardly comes forward.  A run takes at most 0.2 % longer
 * than with the best interval, below c = M / 2 at most 0.002 %, which a test checks; the best
 * interval does not depend on the restart.
 *
 * Source: Daly 2006 (recalled; a test checks it against the best intervals in the captions of the
 * paper's figures 3 to 5). */
double failures_daly(double mtbf, double cost);

/** Checkpoints of a run of @work seconds: one after each interval, and one at the end. */
double failures_checkpoints(const struct failures *failures, double work);

/** The mean time of a run of @work seconds, with its checkpoints [s]; more than FAILURES_LONGEST,
 * or INFINITY: it never ends.  A stretch of w seconds with its checkpoint takes M exp(R / M) (exp(w
 * / M) - 1), with M the time between failures and R the restart. */
double failures_expected(const struct failures *failures, double work);

/** The time of one such run [s], at most FAILURES_LONGEST: draw @number of @seed.  Equal numbers
 * have equal luck.  Where thousands of stretches fail, their sum is drawn as a normal one, of the
 * same mean and variance. */
double failures_draw(const struct failures *failures, double work, uint64_t seed, uint64_t number);

/** Of one prediction.  Start from {0}. */
struct toll {
    bool any;                    /**< the files say something of them */
    struct failures failures;    /**< of the centre */
    double spread;               /**< standard deviation of the logarithm of the mtbf */
    double every;                /**< [epochs] between checkpoints; 0: only one, at the end */
    bool chosen;                 /**< `every` is the best, not given */
    double work;                 /**< time to train without both [s]; set if !any, too */
    struct interval work_likely; /**< its 90 % interval */
    double total;                /**< expected with both [s] */
};

/** The numbers of a toll as an answer has them, NAN where there is none. */
struct toll_answer {
    double mtbf, expected, restart, checkpoint, checkpoints;
    double interval, epochs; /**< between checkpoints [s], [epochs] */
    const char *from;        /**< where the interval comes from; NULL: there are no checkpoints */
    double daly, young, saving, failing, without;
    struct interval without_likely;
};

/** They follow from @toll. */
struct toll_answer toll_answer(const struct toll *toll);

/** The columns of a toll_answer. */
extern const struct answer_columns toll_columns;

/** Append them as rows of a table, "  %-24s%16s"; nothing if there are none. */
void toll_print(struct text *out, const struct toll *toll);
