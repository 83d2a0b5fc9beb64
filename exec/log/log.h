#pragma once

/** @file
 * Reports of a training run: a line for people, files for programs.  Rank 0 only.
 *
 *     steps.csv             one line a step
 *     evaluations.csv       one line an evaluation
 *
 * Each names its run, in a column.
 *
 * A resumed run appends.  Steps after the checkpoint are lost, and their lines are removed, so that
 * every step occurs once.
 *
 * Lines reach the system within a second, unless a single step takes longer, and at every
 * evaluation and checkpoint.  A file that cannot be written does not stop training: it is reported
 * once on stderr, and again by log_close().
 */

#include "core/scenario/phase.h"
#include "core/scenario/scenario.h"

/** One finished step. */
struct log_step {
    int64_t step; /**< from 1 */
    int64_t global_batch;
    double epoch; /**< after the step */
    double loss, learning_rate, weight_decay, loss_scale, gradient_norm;
    double seconds;      /**< of this step, by the wall clock */
    double input_wait_s; /**< of that, waiting for data */
    double
        exposed_communication_s; /**< of that, the time the compute lane waited for all-reduces */
    bool skipped;                /**< by overflow */
};

/** One finished evaluation. */
struct log_evaluation {
    int64_t step;
    double epoch, loss, top1, top5; /**< fractions */
    int64_t images;
    bool sequences; /**< they are sequences, whose loss has a perplexity */
    double seconds;
};

/** An open log. */
struct log;

/** Whether @name is one of these files. */
bool log_is_name(const char *name);

/** Open the files of run @run in @directory (made when missing; NULL: no files), and the progress
 * line on stderr, of what @samples names (NULL: no line), which have so many @tokens.  @total_steps
 * is the number of steps at the end of the run.  Borrows @run, @samples and @plan.
 * @return 0, or -1 (exit code 73): a file that cannot be made. */
int log_open(struct log **log, const char *directory, const char *run, const char *samples,
             int64_t tokens, const struct plan *plan, int64_t total_steps, struct err *err);

/** Report that training starts or continues at @step (from 0). */
void log_start(struct log *log, int64_t step);

/** Report a step: files, and the line for people (samples/s, tokens/s and mean loss since the last
 * such line, top-1 of the last evaluation, time left at that pace; once a second on a terminal,
 * every 10 s elsewhere). */
void log_step(struct log *log, const struct log_step *step);

/** Tell an evaluation. */
void log_evaluation(struct log *log, const struct log_evaluation *evaluation);

/** Report a checkpoint in @path, to people alone. */
void log_checkpoint(struct log *log, const char *path);

/** Report that the others waited for @who for @wait_s of the last @seconds, to people alone. */
void log_straggler(struct log *log, const char *who, double wait_s, double seconds);

/** Write the buffers and close.  @return 0, or -1 (exit code 74): a file that cannot be written. */
int log_close(struct log *log, struct err *err);
