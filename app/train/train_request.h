#pragma once

/** @file
 * What the user asks of `train` and `evaluate`, for the front end and for the ranks alike: the
 * front end passes it on word by word.
 */

#include "app/cli/command.h"

/** Of both.  `job` and `ensemble` are of `evaluate` alone; it has neither directory nor steps. */
struct train_request {
    struct request head;
    struct compute_options compute;
    struct texts set;          /**< "key=value", over the scenario */
    struct texts allow_change; /**< keys that may differ from those of the resumed run */
    const char *directory, *resume, *trace, *spans, *job;
    double time_scale;
    int32_t steps;   /**< 0: to the end */
    int32_t traced;  /**< training steps to trace */
    int32_t timeout; /**< of the watchdog [s]; 0: none */
    bool quiet, dry_run, strict_data, overwrite, ensemble, tune;
};

/** Before any option is read. */
extern const struct train_request train_defaults;

/** Check the keys of allow_change.  @return 0, or -1 (exit code 64) with the nearest key. */
int train_request_check(const struct train_request *request, struct err *err);

/** Where a member of it lies. */
#define TRAIN_AT(member) offsetof(struct train_request, member)

/** Rows of `evaluate` and its ranks. */
#define ROWS_EVALUATE                                                                              \
    OPTION_ROW("job", 0, OPTION_TEXT, TRAIN_AT(job), "JOB", NULL,                                  \
               "The scenario (default: job.yaml beside the first checkpoint)"),                    \
        OPTION_ROW("ensemble", 0, OPTION_FLAG, TRAIN_AT(ensemble),                                 \
                   .help = "All that are named vote: their class probabilities are averaged"),     \
        ROW_SET(TRAIN_AT(set)), ROW_JSON, ROW_THREADS(TRAIN_AT(compute.threads)),                  \
        ROW_DEVICE(TRAIN_AT(compute.device))

/** Rows of `train` and its ranks, in the order of --help. */
#define ROWS_TRAIN                                                                                 \
    ROW_SET(TRAIN_AT(set)), ROW_JSON, ROW_DIRECTORY(TRAIN_AT(directory)),                          \
        OPTION_ROW("overwrite", 0, OPTION_FLAG, TRAIN_AT(overwrite),                               \
                   .help = "Remove the run that is in --out, all its checkpoints and log files, "  \
                           "and start anew",                                                       \
                   .needs = "out", .bars = "resume"),                                              \
        OPTION_ROW("resume", 'r', OPTION_TEXT, TRAIN_AT(resume), "CKPT", NULL,                     \
                   "Go on from a checkpoint, or from the newest of a directory",                   \
                   .bars = "device=replay"),                                                       \
        OPTION_ROW(                                                                                \
            "allow-change", 0, OPTION_TEXTS, TRAIN_AT(allow_change), "KEY", NULL,                  \
            "A key of the job, or what stands above some, that may have changed; repeatable",      \
            "resume"),                                                                             \
        OPTION_ROW("steps", 0, OPTION_INTEGER, TRAIN_AT(steps), "N", NULL,                         \
                   "Stop after N steps, with a checkpoint where there is an --out"),               \
        ROW_THREADS(TRAIN_AT(compute.threads)), ROW_DEVICE(TRAIN_AT(compute.device)),              \
        OPTION_ROW("tune", 0, OPTION_FLAG, TRAIN_AT(tune),                                         \
                   .help = "Also vary the settings of cuDNN's engines, for half a minute when a "  \
                           "shape is new",                                                         \
                   .needs = "device=cuda"),                                                        \
        OPTION_ROW("time-scale", 0, OPTION_REAL, TRAIN_AT(time_scale), "FACTOR", NULL,             \
                   "This much of the predicted times (default: 1)", "device=replay", .zero = true, \
                   .most = 1000000 /* 1 ms becomes a quarter of an hour */,                        \
                   .example = "a number, 0 to 1000000"),                                           \
        ROW_TIMEOUT(TRAIN_AT(timeout)),                                                            \
        OPTION_ROW(                                                                                \
            "trace", 't', OPTION_OUTPUT, TRAIN_AT(trace), "FILE|DIR/", NULL,                       \
            "Write the traced steps of all ranks as Chrome/Kineto JSON: FILE, FILE.gz, or a file " \
            "for each rank in DIR/",                                                               \
            .holds = "rank-*.json"),                                                               \
        ROW_SPANS(TRAIN_AT(spans)),                                                                \
        OPTION_ROW("traced-steps", 0, OPTION_INTEGER, TRAIN_AT(traced), "N", NULL,                 \
                   "Steps that are recorded, after the first two (default: 4)", "trace|spans"),    \
        OPTION_ROW("quiet", 'q', OPTION_FLAG, TRAIN_AT(quiet), .help = "No progress line"),        \
        OPTION_ROW("strict-data", 0, OPTION_FLAG, TRAIN_AT(strict_data),                           \
                   .help = "End training at the first image that cannot be read")
