#pragma once

/** @file
 * MLPerf's log of a training run: lines of ":::MLLOG " and a JSON object.
 *
 * The keys are those of ResNet in the open division, and of the optimizer, as far as they apply to
 * the run; submission_org says that it is no submission.  A block is the training between two
 * evaluations; an evaluation is inside the block it ends.  cache_clear is false: foretrain clears
 * no caches.  Keys of the learning rate are written only for polynomial decay, which they describe.
 * Source: github.com/mlcommons/logging, mlperf_logging/compliance_checker/training_4.0.0 (common,
 * open_common, open_resnet, closed_resnet_lars, closed_resnet_sgd), the last rules with ResNet, and
 * mlperf_logging/mllog/mllog.py for the form of a line.
 */

#include "core/scenario/phase.h"
#include "core/scenario/scenario.h"
#include "exec/log/log_file.h"

enum {
    MLLOG_BATCH_TOLD = -1, /**< as global_batch: the previous run has already logged that of the
                                next step */
};

/** A log being written; members are private. */
struct mllog {
    struct log_file file;
    const char *run;                 /**< borrowed */
    const struct scenario *scenario; /**< borrowed */
    const struct plan *plan;         /**< borrowed */
    int32_t ranks;
    double opened_unix_s; /**< when the process began */
    int64_t global_batch; /**< last logged; 0: none */
    bool started;
    bool in_block;
    double block_epoch; /**< where the block began */
};

/** Open @directory/mllog.txt for run @run of @plan on @ranks; all pointers are borrowed until it is
 * closed.
 * @return 0, or -1 (exit code 73). */
int mllog_open(struct mllog *log, const char *directory, const char *run,
               const struct scenario *scenario, const struct plan *plan, int32_t ranks,
               struct err *err);

/** Log the job and its start at @epoch.  A run that continues after @step in a file with lines
 * removes its last run_stop and logs "foretrain_resumed" instead. */
void mllog_start(struct mllog *log, int64_t step, double epoch);

/** Log the global batch of a step, if it has changed. */
void mllog_batch(struct mllog *log, int64_t global_batch);

/** Log an evaluation of @seconds that ends now; another block begins if there is @more to train.
 */
void mllog_evaluation(struct mllog *log, double epoch, double accuracy, double seconds, bool more);

/** Log the end, with "success" or "aborted", and close.  @return 0, or -1 (exit code 74). */
int mllog_close(struct mllog *log, double epoch, const char *status, struct err *err);
