#pragma once

/** @file
 * From a scenario file and options to the executor's job, the same on every rank.
 */

#include "app/job/job.h"
#include "app/train/train_request.h"
#include "exec/train/train.h"
#include "exec/world/world.h"

/** A job ready to train.  Start from {0}. */
struct exec_job {
    struct job job;
    struct schedule **schedule; /**< of each phase; NULL: it does not train */
    struct run run;             /**< as predicted; points into job */
    struct train_job train;     /**< points into the three */
};

/** Read request->head.argument.item[0], or request->job when there is one, and fill @job; all
 * ranks together.  Schedules are built for what @trains only: evaluation takes any number of ranks.
 * @return 0, or -1 on all ranks: what is wrong with the job (64 to 66), a device this build has
 * not (69). */
int exec_job_open(struct exec_job *job, const struct train_request *request, bool trains,
                  struct err *err);

/** Threads of a rank: the user's, or an equal share of the cores.  On all ranks together. */
int32_t exec_job_threads(const struct compute_options *options);

/** The device of an index of device_words.
 * @return NULL (exit code 69): this build lacks it. */
const struct device_ops *exec_job_device(int32_t device, struct err *err);

/** Pass the @text of rank 0, or NULL, to all ranks, together.  @return it; the caller frees it. */
char *exec_job_share(char *text);

/** Release; accepts a zeroed struct. */
void exec_job_close(struct exec_job *job);
