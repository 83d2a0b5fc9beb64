#pragma once

/** @file
 * What the user asked for: the one record behind the options of foretrain and foretrain-sim.
 *
 * Both programs share the rows, so an option means the same in each, and foretrain can pass its
 * request to a child word by word.
 */

#include "app/cli/option.h"
#include "core/backend/backend.h"
#include "core/collective/collective.h"

/** Words of --backend: the index in backend_words. */
enum backend_choice { BACKEND_ANALYTIC, BACKEND_SIM, BACKEND_CHOICE_COUNT };

/** "analytic", "sim", NULL-terminated, in the order of enum backend_choice. */
extern const char *const backend_words[];

enum { REQUEST_CHOOSE = INT32_MIN /**< the program is to choose */ };

/** All options of all commands.  Texts are borrowed from argv. */
struct request {
    struct option_list argument;     /**< what is no option: JOB, the kind of `show`, ... */
    struct option_list set;          /**< "key=value", over the scenario */
    struct option_list allow_change; /**< keys that may differ from the run's that is resumed */
    bool help, version, json, explain, assumed, manual, baseline, no_noise, verbose;
    int32_t backend;      /**< enum backend_choice, or -1: sim when there is one */
    int32_t grain;        /**< enum grain */
    int32_t algorithm;    /**< enum algorithm */
    int32_t iterations;   /**< to simulate, or REQUEST_CHOOSE */
    int32_t traced_ranks; /**< whose spans are kept; 0: all */
    int32_t phase;        /**< from 1; 0: the last */
    int32_t nodes;        /**< 0: not given */
    int32_t order;        /**< enum rank_order */
    int32_t repeats;      /**< of what is measured */
    int32_t ranks;
    int32_t image;              /**< [pixels] */
    const char *backends, *lab; /**< of collective: "sim,exec"; a platform to build */
    const char *extent;         /**< of foretrain-sim: "4x8", nodes and devices of each */
    const char *bytes, *grid, *platform, *trace, *paje, *keep, *from, *to, *without;

    int32_t started; /**< ranks to start; 0: as many as the job has devices */
    int32_t device;  /**< index in device_words */
    int32_t threads; /**< per rank; 0: the cores of the machine, shared out */
    int32_t steps;   /**< 0: to the end */
    int32_t shorter; /**< side of packed images [pixels] */
    int32_t split;   /**< enum split */
    int32_t traced;  /**< training steps to trace */
    int32_t timeout; /**< of the watchdog [s]; 0: none */
    bool quiet, dry_run, strict_data, overwrite, ensemble;
    const char *directory, *resume, *spans, *job, *time_scale;
    const char *predicted, *measured, *tolerance; /**< of validate */
    const char *networks, *batches;               /**< of what is measured */
    int32_t dtype;                                /**< enum dtype, of its arithmetic */
    int32_t gradients;                            /**< enum dtype, that they travel in */
    bool pairs;         /**< neighbours exchange instead of all ranks reducing */
    bool oversubscribe; /**< more ranks than cores may take turns */
};

/** Words of --device: the index in device_words. */
enum device_choice { DEVICE_CPU, DEVICE_CPU_NAIVE, DEVICE_CUDA, DEVICE_REPLAY };

/** What `train` computes on, NULL-terminated, in the order of enum device_choice. */
extern const char *const device_words[];

/** The record before any option is read. */
struct request request_default(void);

/** Whether the options that say which run is trained fit each other.
 * @return 0, or -1 (exit code 64): one that has no effect beside or without another. */
int request_check_run(const struct request *request, struct err *err);

/** Iterations to walk: the user's, or 1 where every iteration is like the first, or 2 where input
 * is prefetched or every rank draws its own noise. */
int32_t request_iterations(const struct request *request, const struct run *run);

/** The rows.  A command lists pointers to those it takes. */
extern const struct option option_help_row, option_version_row, option_set_row, option_json_row,
    option_backend_row, option_grain_row, option_iterations_row, option_traced_ranks_row,
    option_trace_row, option_paje_row, option_phase_row, option_baseline_row, option_explain_row,
    option_assumed_row, option_manual_row, option_image_row, option_platform_row, option_grid_row,
    option_nodes_row, option_ranks_row, option_algorithm_row, option_bytes_row,
    option_collective_row, option_keep_row, option_from_row, option_to_row, option_without_row,
    option_no_noise_row, option_verbose_row, option_order_row, option_repeats_row,
    option_backends_row, option_lab_row, option_gradients_row;

/** The rows of training. */
extern const struct option option_started_row, option_device_row, option_threads_row,
    option_steps_row, option_traced_row, option_timeout_row, option_quiet_row, option_dry_run_row,
    option_strict_data_row, option_directory_row, option_overwrite_row, option_resume_row,
    option_allow_change_row, option_spans_row, option_train_trace_row, option_job_row,
    option_ensemble_row, option_time_scale_row;
