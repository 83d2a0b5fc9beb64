#pragma once

/** @file
 * The run that a training command continues, and its directory: rank 0 decides and sends the result
 * to all.
 */

#include "app/train/exec_job.h"
#include "exec/checkpoint/run_directory.h"

/** Start from {0}. */
struct exec_run {
    struct run_directory directory; /**< its lock is rank 0's */
    char *resume;                   /**< the checkpoint to resume from, or NULL; owned */
    struct text values;             /**< of the job, for checkpoints; owned, rank 0's */
};

/** Find the checkpoint that @request resumes from, compare its job with @job, lock the directory of
 * the run, remove an older run from it if @request says so, write a copy of the job's text and
 * assignments there for evaluating or resuming, and set all this in @job; all ranks together.
 * Borrows @request.  @return 0, or -1 on all ranks with a message on rank 0: no checkpoint to
 * resume from (exit code 66), one of another job (65), a directory of another process or run, or
 * one with newer checkpoints than the resumed one (73), files that cannot be written (73, 74).
 * Except in the last case, nothing changed. */
int exec_run_open(struct exec_run *run, struct exec_job *job, const struct train_request *request,
                  struct err *err);

/** Give the directory back and release. */
void exec_run_close(struct exec_run *run);
