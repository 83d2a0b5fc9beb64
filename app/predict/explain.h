#pragma once

/** @file
 * Why a run scales as it does: the lost efficiency, split into causes that add up.
 *
 * Efficiency is the device time per image in the baseline divided by that in the run, so 1 -
 * efficiency is the share of the run's step that the baseline would not have spent on the same
 * images.  Each cause is the time that the run spends on one thing minus the baseline's time for
 * it; the causes add up to 1 - efficiency by construction.
 *
 * Each cause has a 90 % interval over the draws of a prediction (app/predict/uncertainty.h).  There
 * a step may take longer for reasons that no part of it has; they are a cause of their own, which
 * is 0 in the answer itself.  A sum of intervals is not the interval of the sum.
 *
 * Causes are removed in a fixed order, since they hide each other:
 *
 *   1. jitter and slow ranks: the step, less the step without noise on the same back end.  First,
 * because all other waits are defined only when all ranks compute equally fast;
 *   2. input, communication by axis, and the rest, as the step without noise waits for them;
 *   3. compute is split: what it takes longer because a collective is in flight, as timed;
 *   4. communication is split again, by what would not be waited for: first if compute did not slow
 *      collectives down, then if launching them took no time either, then if messages had no
 *      latency.  Its bytes are the rest (and contention with them).  Latency goes before
 *      them, because a faster link helps the bytes and leaves the latency.  NCCL's latency is
 *      that of its own cost model.
 */

#include "app/predict/uncertainty.h"

enum { EXPLAIN_RUN, EXPLAIN_BASELINE };

/** Where device-time goes, in the order of the table. */
enum cause_kind {
    CAUSE_NOISE,
    CAUSE_INPUT,
    CAUSE_SLOWED_COMPUTE,
    CAUSE_SLOWED_COMMUNICATION,
    CAUSE_LAUNCH,
    CAUSE_ROW_LATENCY, /**< of torus2d, as the next three */
    CAUSE_ROW_BYTES,
    CAUSE_COLUMN_LATENCY,
    CAUSE_COLUMN_BYTES,
    CAUSE_WORLD_LATENCY, /**< of every other algorithm */
    CAUSE_WORLD_BYTES,
    CAUSE_TENSOR,  /**< inside of layers that ranks share */
    CAUSE_CONTEXT, /**< of sequences that ranks share */
    CAUSE_EXPERT,  /**< to experts that ranks share, and back */
    CAUSE_BUBBLE,  /**< of a pipeline: a stage waits for others */
    CAUSE_BATCH,   /**< computing an image takes longer in a smaller batch */
    CAUSE_OTHER,
    CAUSE_LEFT_OUT, /**< of draws alone: what the model leaves out, and what is slower than usual */
    CAUSE_COUNT
};

/** For people: "latency of the row exchange". */
extern const char *const cause_names[CAUSE_COUNT];

/** One cause of one run. */
struct cause {
    const char *name; /**< of cause_names */
    const char *link; /**< the limiting kind of link: "rack uplink"; NULL: none; borrowed */
    double seconds;   /**< per step of the run, minus the baseline's for the same number of
                           images */
    double points;    /**< percent of the step, which are points of efficiency */
    struct interval seconds_likely, points_likely; /**< 90 % of the draws; NAN: not drawn */
};

/** One draw of everything uncertain. */
struct explained_draw {
    int32_t number;    /**< of the random numbers behind it; equal ones are equal in two runs */
    double images;     /**< of a device of the run */
    double efficiency; /**< at most 1, unless the prediction is more */
    struct cause cause[CAUSE_COUNT];
};

/** One run, explained.  Start from {0}; release with explanation_release(). */
struct explanation {
    struct job job;
    const char *scenario, *platform, *backend, *grain; /**< borrowed from it and its task */
    int32_t devices[2];                                /**< of the run and its baseline */
    int32_t phase;                                     /**< from 1 */
    struct task task[2];                               /**< the run and its baseline */
    double efficiency; /**< device-time of an image in the baseline over that in the run */
    struct interval efficiency_likely; /**< 90 % of the draws; NAN: not drawn */
    struct cause cause[CAUSE_COUNT];
    struct explained_draw *draw; /**< (draws) owned */
    int32_t draws;
    char *warning; /**< about the back end; owned; NULL: none */
};

/** Explain @phase (from 1; 0: the last) of job @path into zeroed @explanation, with the back end,
 * grain and --set of @options.
 * @return 0, or -1 with the message of whatever failed first; release it then as well. */
int explanation_make(struct explanation *explanation, const char *path,
                     const struct predict_options *options, int32_t phase, struct err *err);

/** Draw @explanation, which is complete but for its intervals: the same draws as those of a
 * prediction, unknown inputs among them; @all: those of all jobs that are compared.
 * @return 0, or -1 as draws_each(). */
int explanation_draw(struct explanation *explanation, const struct predict_options *options,
                     const struct unknowns *all, struct err *err);

/** The intervals of what explanation_difference() says, of the draws that both have, into @cause,
 * and that of the difference of the efficiencies into @efficiency. */
void explanation_difference_likely(const struct explanation *a, const struct explanation *b,
                                   struct cause cause[CAUSE_COUNT], struct interval *efficiency);

/** How much more @b loses to @cause than @a: seconds per step of @b, and points of efficiency.
 * Points add up to the difference of the efficiencies. */
struct cause explanation_difference(const struct explanation *a, const struct explanation *b,
                                    enum cause_kind cause);

void explanation_release(struct explanation *explanation);
