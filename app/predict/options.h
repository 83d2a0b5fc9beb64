#pragma once

/** @file
 * How to predict a job: what the commands that predict share.
 */

#include "app/cli/option.h"
#include "app/job/job.h"
#include "core/price/price.h"

enum {
    PREDICT_CHOOSE = INT32_MIN /**< the program is to choose */
};

/** How to predict. */
struct predict_options {
    struct option_list set; /**< "key=value", over the scenario */
    int32_t backend;        /**< enum backend_choice, or -1: sim when there is one */
    int32_t grain;          /**< enum grain */
    int32_t order;          /**< enum rank_order */
    int32_t iterations;     /**< to simulate, or PREDICT_CHOOSE */
    int32_t traced_ranks;   /**< number with spans kept; 0: all */
    int32_t noise;          /**< enum noise_choice */
    bool ignore_memory;     /**< predict batches that no device can hold */

    const struct files *files;         /**< of the job and what it names; borrowed; NULL: on disk */
    const struct simulator *simulator; /**< of back end sim; borrowed; NULL: there is none */
    struct memory *memory; /**< of all predictions that share it; borrowed; NULL: none */
};

/** Before any option is read. */
#define PREDICT_DEFAULTS .backend = -1, .iterations = PREDICT_CHOOSE, .traced_ranks = 4

/** The assignments of @options, behind that of @prices (NULL: none); owned. */
struct option_list predict_set(const struct predict_options *options,
                               const struct price_file *prices);

/** What @options ask of a job. */
struct wish predict_wish(const struct predict_options *options);

/** job_open() of @path with the --set of @options, and what they ask. */
int predict_open_job(struct job *job, const char *path, const struct predict_options *options,
                     const struct draw *draw, struct err *err);

/** Iterations to walk: the user's, or 1 where every iteration is like the first, or 2 where input
 * is prefetched or every rank draws its own noise. */
int32_t predict_iterations(const struct predict_options *options, const struct run *run);
