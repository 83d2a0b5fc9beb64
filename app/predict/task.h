#pragma once

/** @file
 * Points and their traces: run some points on a back end, equal ones once, and refuse results that
 * beat their physical floor.
 */

#include "app/cli/option.h"
#include "app/job/job.h"
#include "core/backend/simulation.h"
#include "core/price/price.h"
#include "core/report/report.h"

/* How to predict a job: what the commands that predict share. */

enum {
    PREDICT_CHOOSE = INT32_MIN /**< the program is to choose */
};

/** How to predict. */
struct predict_options {
    struct texts set;     /**< "key=value", over the scenario */
    int32_t backend;      /**< enum backend_choice, or -1: sim when there is one */
    int32_t grain;        /**< enum grain */
    int32_t order;        /**< enum rank_order */
    int32_t iterations;   /**< to simulate, or PREDICT_CHOOSE */
    int32_t traced_ranks; /**< number with spans kept; 0: all */
    int32_t noise;        /**< enum noise_choice */
    bool alone;           /**< without a baseline: efficiencies mean nothing */
    bool ignore_memory;   /**< predict batches that no device can hold */

    const struct files *files;         /**< of the job and what it names; borrowed; NULL: on disk */
    const struct simulator *simulator; /**< of back end sim; borrowed; NULL: there is none */
    struct memory *memory; /**< of all predictions that share it; borrowed; NULL: none */
};

/** Before any option is read. */
#define PREDICT_DEFAULTS .backend = -1, .iterations = PREDICT_CHOOSE, .traced_ranks = 4

/** The rows for the back end of the options at the member @of of a command's record. */
#define ROWS_BACKEND(of)                                                                           \
    ROW_BACKEND(AT(of.backend)), ROW_GRAIN(AT(of.grain)), ROW_NOISE(AT(of.noise)),                 \
        ROW_IGNORE_MEMORY(AT(of.ignore_memory))

/** The assignments of @options, behind that of @prices (NULL: none); owned. */
struct texts predict_set(const struct predict_options *options, const struct price_file *prices);

/** job_open() of @path with the --set of @options, and what they ask. */
int predict_open_job(struct job *job, const char *path, const struct predict_options *options,
                     const struct draw *draw, struct err *err);

/** One point to run.  Start from {0}; release with task_release(). */
struct task {
    struct point point; /**< whose run is without noise */
    struct noise noise; /**< of the job */
    char *what;         /**< "phase 1 of job.yaml", for messages; owned */
    struct trace trace; /**< of any back end */
    const struct trace
        *quiet;         /**< the answer without noise; borrowed from a task of the same array */
    double step;        /**< time of a step with noise: what is expected, or drawn [s] */
    struct task *drawn; /**< one draw of the noise; owned; NULL: not asked for */
};

/** When its steps ran: as drawn, else without noise. */
const struct trace *task_trace(const struct task *task);

/** The back end of @options: as given, else sim when its simulator is there, else analytic with a
 * line in *@warning (owned by the caller; NULL when there is nothing to say). */
enum backend_choice task_backend(const struct predict_options *options, char **warning);

/** Make zeroed @task the run of @phase of @job (as job_point() has it), with the iterations and
 * --set of @options.  Borrows from @job.
 * @return 0, or -1 with the message of job_point(). */
int task_build(struct task *task, const struct job *job, int32_t phase,
               const struct predict_options *options, struct err *err);

/** Run all @task (@count) of one platform with the grain, iterations and traced ranks of @options,
 * and check every trace against its floor.  Noise is not run but added to the step, with its
 * expectation (core/backend/steady.h), so that every back end and grain agrees on it; with
 * options->noise drawn, each task is run once more with noise.
 * @return 0, or -1 with the message of the back end or of the floor. */
int task_run_all(struct task *task, int32_t count, enum backend_choice backend,
                 const struct predict_options *options, struct err *err);

/** Where the step of @task, which has run, goes. */
struct breakdown task_breakdown(const struct task *task);

void task_release(struct task *task);
