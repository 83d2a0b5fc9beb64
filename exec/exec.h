#pragma once

/** @file
 * The executor: a schedule run for real, one process per rank.
 *
 * Every rank of the job calls these functions together, exec_start() first and exec_stop() last.
 * A failure of MPI ends the job with MPI's own message.
 */

#include <stdbool.h>

#include "core/model.h"
#include "core/schedule.h"
#include "core/trace.h"

/** Who this process is. */
struct exec_world {
    int32_t rank, ranks;
};

/** Start MPI. */
struct exec_world exec_start(int *argc, char ***argv);

/** Stop MPI. */
void exec_stop(void);

/** Ask all ranks whether they @failed.  @return the lowest rank that did, or -1. */
int32_t exec_first_failure(bool failed);

/** What to train.  All pointers are borrowed. */
struct exec_job {
    const struct model *model;
    const struct schedule *schedule; /**< of @model: sealed, arithmetic and gradients in fp32 */
    int32_t batch;                   /**< images per rank */
    int32_t iterations;              /**< at least 1 */
    uint64_t seed;                   /**< of weights and data */
    bool same_data; /**< all ranks train on the same batch: the losses are then those of one rank */
    double learning_rate, momentum, weight_decay, label_smoothing;
};

/** What came of it, on rank 0.  Start from {0}; release with exec_result_release(). */
struct exec_result {
    int32_t iterations;
    double *loss; /**< (iterations) mean over all ranks */
};

/** Train @job and fill zeroed @trace and @result; both stay empty on ranks other than 0.
 * @return 0, or -1, on all ranks alike: the number of ranks is not that of the schedule's grid
 * (exit code 64), a network that the device cannot run (exit code 69), a schedule whose buckets
 * are not the model's gradients in fp32 (exit code 69). */
int exec_run(const struct exec_job *job, struct trace *trace, struct exec_result *result,
             struct err *err);

/** Release. */
void exec_result_release(struct exec_result *result);
