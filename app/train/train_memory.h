#pragma once

/** @file
 * The memory that one rank of a job takes of its device, for `train --dry-run`.
 *
 * Arrays are those of core/schedule/memory.h.  Beside them stands a workspace: on a GPU the most
 * that a convolution may need, on a CPU what foretrain-exec says of oneDNN for this machine.
 */

#include "app/job/job.h"
#include "app/train/train_request.h"
#include "core/base/json.h"
#include "core/schedule/memory.h"

/** How far the workspace is known. */
enum workspace_kind { WORKSPACE_EXACT, WORKSPACE_AT_MOST, WORKSPACE_NOT_COUNTED };

/** The answer; borrows from the job.  Numbers are bytes unless said otherwise. */
struct train_memory {
    struct memory_plan plan;       /**< its `applied` is 0 where nothing can be */
    int64_t batch, micro;          /**< images of a rank in the largest phase, and at once */
    int32_t choice;                /**< enum device_choice */
    int32_t threads;               /**< that the workspace is for; 0: it does not depend on them */
    enum workspace_kind workspace; /**< of plan.workspace */
    const struct device *device;   /**< of the job's platform */
    bool fits_kind;                /**< the ranks compute on such a device: a GPU, or none */
    int64_t largest;               /**< images at once that fit into it; only where fits_kind */
};

/** Fill @memory: what each of @ranks ranks on this machine takes with the device, threads and
 * assignments of @request.  Where oneDNN computes, foretrain-exec is asked; when it cannot be
 * started or does not answer, the workspace is not counted.
 * @return 0, or -1 with exit code 69: the device cannot run the job, and foretrain-exec has said
 * why on stderr. */
int train_memory_find(struct train_memory *memory, const struct job *job,
                      const struct train_request *request, int32_t ranks, struct err *err);

/** Append a table for people. */
void train_memory_print(struct text *out, const struct train_memory *memory);

/** Put the members `memory` and `platform_device` of foretrain/dry-run/1 into @json. */
void train_memory_put(struct json *json, const struct train_memory *memory);
