#pragma once

/** @file
 * Epochs of training to a target accuracy, against the global batch: a model of published runs.
 *
 * A curve is a few points, epochs at a batch, each the mean of several runs by one recipe.  A run
 * has to see a number of images, and to take a number of steps that no larger batch saves, so its
 * epochs are linear in the batch: E0 (1 + B / Bc), fitted to MLPerf's reference points. (McCandlish
 * et al., An Empirical Model of Large-Batch Training, arXiv 1812.06162.)  Between two points the
 * mean is linear in the batch, too.  Beyond the last one it grows by E0 / Bc an image: recipes
 * differ in the epochs of small batches, and are taken to share the steps.  Before the first point
 * it is scaled by the formula.  Callers ask before they go there.
 *
 * Two things spread: runs with one batch (the standard deviations of the points), and the curve
 * between its points, like a Brownian bridge over the logarithm of the batch: nothing at the
 * points, most midway, more where they are farther apart.  How much there is what E0 (1 + B / Bc)
 * is wrong by where it is fitted to all reference points but one; midway between two points a
 * factor of 4 apart it is just that.
 */

#include <stdbool.h>
#include <stdint.h>

/** A row of recipes.csv: mean epochs to `target` with one batch.  The last has recipe NULL. */
struct convergence_row {
    const char *recipe;
    double target; /**< top-1 accuracy, a fraction */
    int64_t batch;
    double epochs, spread; /**< mean, and standard deviation of the runs; 0: not known */
    int64_t runs;          /**< 0: not known */
    const char *source;
};

/** A row of accuracies.csv: what others reached.  0 is not known; the array ends with work NULL. */
struct convergence_accuracy {
    const char *work;
    int64_t batch, batch_end; /**< the second where the batch grew during the run */
    double epochs, accuracy;  /**< top-1, a fraction */
    const char *note, *source;
};

/** The first table, made from the CSV file of this folder. */
extern const struct convergence_row convergence_rows[];

/** The second. */
extern const struct convergence_accuracy convergence_accuracies[];

/** The recipes in convergence_rows, NULL-terminated. */
extern const char *const convergence_recipes[];

/** E0 (1 + B / Bc), least squares on the logarithm of the epochs of all reference points (rcp-...),
 * and its errors (of the logarithm) at each of them when it is fitted to the others. */
struct convergence_fit {
    double epochs;               /**< E0 */
    double batch;                /**< Bc */
    double median, largest, rms; /**< of |error| */
    double spread;               /**< of runs at a reference point [epochs], root mean square */
};

/** The fit. */
struct convergence_fit convergence_fit(void);

/** One point of a curve. */
struct convergence_point {
    int64_t batch;
    double epochs;
    double spread; /**< standard deviation of runs [epochs] */
};

enum { CONVERGENCE_POINTS = 64 /**< of a curve, at most */ };

/** A curve: points in the order of their batches.  Start from {0}. */
struct convergence {
    struct convergence_point point[CONVERGENCE_POINTS];
    int32_t count;
    double target; /**< top-1 accuracy that it is for, a fraction; 0: of its owner's choice */
    struct convergence_fit fit; /**< set with the first point */
};

/** Append a point of a larger batch; a spread of 0 becomes that of the reference points. */
void convergence_add(struct convergence *curve, struct convergence_point point);

/** Whether the runs of @recipe trained with LARS, which MLPerf allows from v0.6 on, and not SGD. */
bool convergence_is_lars(const char *recipe);

/** The curve of @recipe, which is one of convergence_recipes. */
struct convergence convergence_of(const char *recipe);

/** The largest batch of both tables [images]. */
int64_t convergence_largest(void);

/** convergence_fit() to @point (count, at least 3), whose batches differ. */
struct convergence_fit convergence_fit_to(const struct convergence_point *point, int32_t count);

/** What a curve says of one batch. */
struct convergence_need {
    double epochs; /**< mean */
    double spread; /**< standard deviation, of runs and of the curve */
};

/** The epochs that a run with batches of @batch images needs, by @curve, which has a point. */
struct convergence_need convergence_epochs(const struct convergence *curve, int64_t batch);

/** Whether @batch is before the first or behind the last point. */
bool convergence_is_outside(const struct convergence *curve, int64_t batch);

/** Evaluations that a run needs beyond the one at the end of its schedule, in the mean: 0.112 in
 * 1269 runs.  Source: closed submissions with LARS to MLPerf Training v0.7 to v4.0, by batch in
 * experiments/02_published_runs/epochs.csv: epochs beyond the fewest of the batch, evaluated every
 * 4.  Left out: batch 1000 (an outlier), and 16384, 20480, 40448 and 64800, whose runs the model is
 * checked against. */
#define CONVERGENCE_EXTRA 0.112

/** The epochs that a run takes: those of its schedule, a whole number, and @every more for each
 * evaluation that does not find the target.  @schedule is a draw of what the recipe needs, @uniform
 * decides the number of evaluations (geometric, CONVERGENCE_EXTRA in the mean). */
double convergence_end(double schedule, double every, double uniform);
