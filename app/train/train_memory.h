#pragma once

/** @file
 * The device memory of one rank of a job, for `train --dry-run`.
 *
 * Arrays are those of core/schedule/memory.h.  A workspace is added: on a GPU the maximum of a
 * convolution, on a CPU the workspace of oneDNN that foretrain-exec reports for this machine.
 */

#include "app/job/job.h"
#include "app/train/train_request.h"
#include "core/base/answer.h"
#include "core/schedule/memory.h"

/** How far the workspace is known. */
enum workspace_kind { WORKSPACE_EXACT, WORKSPACE_AT_MOST, WORKSPACE_NOT_COUNTED };

/** The answer; borrows from the job.  Numbers are bytes unless noted otherwise. */
struct train_memory {
    struct memory_plan plan;       /**< its `applied` is 0 if no value can be left out */
    int64_t batch, micro;          /**< images of a rank in the largest phase, and at once */
    int32_t choice;                /**< enum device_choice */
    int32_t threads;               /**< of the workspace; 0: it does not depend on them */
    enum workspace_kind workspace; /**< of plan.workspace */
    const struct device *device;   /**< of the job's platform */
    int64_t activations_least;     /**< if all that can be applied is applied */
    int64_t total;                 /**< of the plan */
    const char *device_name;       /**< of `device` */
    int64_t device_bytes;          /**< its memory */
    bool fits_kind;                /**< the ranks compute on a device of this kind: a GPU, or
                                        none */
    int64_t largest;               /**< images at once that fit into it; -1 without fits_kind */
};

/** Fill @memory for each of @ranks ranks on this machine with the device, threads and assignments
 * of @request.  For oneDNN, foretrain-exec reports the workspace; if it cannot be started or does
 * not answer, the workspace is left out.  @return 0, or -1 without a message: the device cannot run
 * the job, and foretrain-exec has reported the reason on stderr (exit code 69), or a signal N ended
 * it (128 + N). */
int train_memory_find(struct train_memory *memory, const struct job *job,
                      const struct train_request *request, int32_t ranks, struct err *err);

/** Append a table for people. */
void train_memory_print(struct text *out, const struct train_memory *memory);

/** The answer of a dry run.  Everything is borrowed. */
struct dry_run_answer {
    const char *sha256, *network, *device;
    int32_t ranks;
    struct train_memory memory;
    const char *const *command; /**< (words) that would be run */
    int32_t words;
};

/** Its columns. */
extern const struct answer_columns dry_run_columns;
