#pragma once

/** @file
 * Jobs beside each other: the figures of each, and for each pair which one is faster, by how much
 * and how surely.
 *
 * The k-th draws of all jobs share their random numbers, so what is uncertain in two jobs in the
 * same way cancels in the ratio of their times.  That is right for one job with a key changed; for
 * other devices or software, whose errors are of other fits, it is a warning.
 */

#include "app/predict/explain.h"
#include "app/predict/predict.h"
#include "core/base/columns.h"
#include "core/price/price.h"

enum {
    COMPARE_MOST = 4 /**< jobs: as many columns as fit beside each other */
};

/** "A", "B", ... */
extern const char *const compare_names[COMPARE_MOST];

/** Those of a job that a table shows (core/base/columns.h). */
#define COMPARE_FIGURES                                                                            \
    "step_s~, images_per_s~, samples_per_s~, time_to_train_s~, device_hours~, cost~, currency, "   \
    "energy_kwh~, carbon_kg~, memory_bytes: memory of a device, "                                  \
    "weak_scaling_efficiency~: weak scaling, strong_scaling_efficiency~: strong scaling"

/** One job. */
struct column {
    const char *path;               /**< borrowed */
    const struct option_list *own;  /**< assignments to this job alone; borrowed */
    struct predict_options options; /**< with the assignments to all and to this one; owned list */
    struct prediction prediction;
    const struct price_file *prices; /**< of its tariffs; NULL: none */
    struct figures figures;
    double memory;                  /**< of a device, for the arrays of training [bytes] */
    struct explanation explanation; /**< of its last phase, once it is asked for */
    bool explained;
};

/** What two times may differ by. */
enum difference {
    DIFFERENCE_IMAGES,     /**< images to train on: epochs, size of the data set */
    DIFFERENCE_DEVICES,    /**< their number, mean over the time */
    DIFFERENCE_SPEED,      /**< images/s of a device in the baseline */
    DIFFERENCE_EFFICIENCY, /**< images/s of a device in the run over that in the baseline */
    DIFFERENCE_REST,       /**< start-up and evaluations */
    DIFFERENCE_FAILURES,   /**< failures and checkpoints */
    DIFFERENCE_COUNT
};

/** For people. */
extern const char *const difference_names[DIFFERENCE_COUNT];

/** By what two times differ. */
struct time_factor {
    const char *name; /**< of difference_names */
    double factor;
};

/** Two jobs. */
struct pair {
    int32_t a, b;           /**< columns */
    double ratio;           /**< time of b over that of a */
    struct interval likely; /**< of the ratio; NAN: not known */
    double faster;          /**< probability that a is faster, ties counting half; NAN: not known */
    int32_t draws;          /**< that both have */
    struct time_factor factor[DIFFERENCE_COUNT]; /**< their product is the ratio */
    char *cause; /**< what makes most of the difference; NULL: they take equally long; owned */
};

/** All.  Start from {0} with the prices; release with comparison_release(). */
struct comparison {
    struct tariffs tariffs; /**< of all jobs or of some */
    struct column column[COMPARE_MOST];
    int32_t count;
    struct pair pair[COMPARE_MOST * (COMPARE_MOST - 1) / 2];
    int32_t pair_count;
    char *sentence; /**< the fastest against the next; owned */
    char **warning; /**< (warning_count) owned */
    int32_t warning_count;
};

/** Append job @path with @own assignments after those of @options, both borrowed. */
void comparison_add(struct comparison *comparison, const char *path,
                    const struct predict_options *options, const struct option_list *own);

/** Predict all jobs and compare them.
 * @return 0, or -1 with the message of a prediction, or more unknown inputs than one job may have
 * (exit code 65). */
int comparison_make(struct comparison *comparison, struct err *err);

/** Whether @ratio is another one than 1 in the digits that are printed. */
bool compare_differs(double ratio);

/** Append "98 %", or what it is over or under: some hundred draws tell no more. */
void compare_print_probability(struct text *out, double probability);

/** Append everything as text. */
void comparison_print(struct text *out, const struct comparison *comparison);

/** The same as JSON. */
struct json *comparison_json(const struct comparison *comparison);

/** Its columns. */
extern const struct answer_columns compare_columns;

/** Write it as a page to @file.  @return 0, or -1: it cannot be written (exit codes 73, 74). */
int comparison_page(const char *file, const struct comparison *comparison, struct err *err);

void comparison_release(struct comparison *comparison);
