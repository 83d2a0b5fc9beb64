#pragma once

/** @file
 * What happened: one span per step, rank and iteration, in seconds since the run began.
 *
 * Simulated and real runs write the same records with the same step ids, so comparing them is a
 * join.  A trace names the hash of its schedule; traces of different schedules are not comparable.
 *
 * As text a trace is one line `foretrain-trace 1`, one `key value` line for each number of struct
 * trace, one `iteration_end SECONDS` line per iteration, `spans COUNT`, and one line
 * `ITERATION RANK STEP BEGIN END` per span.  Numbers read back are the numbers written.  Between
 * programs of one build it is `foretrain-trace raw`, with the spans as they are in memory.
 */

#include <stdbool.h>
#include <stdio.h>

#include "core/base/err.h"

/** One execution of one step. */
struct span {
    int32_t iteration, rank, step;
    double begin, end; /**< [s] */
};

/** Start from {0}; release with trace_release(). */
struct trace {
    char backend[16]; /**< "analytic", "sim", "exec" */
    char grain[16];   /**< "closed-form", "folded", "full", "smoothed", "coarse", "real" */
    uint64_t schedule_hash;
    int32_t ranks;    /**< ranks of the job, traced or not */
    int32_t entities; /**< classes or ranks that were really simulated or run */
    int64_t messages; /**< messages timed; 0 for the closed form */
    int32_t iterations;
    double *iteration_end; /**< (iterations) when the last rank finished each iteration [s] */
    struct span *span;     /**< of the traced ranks */
    int64_t span_count;
};

/** Append a span. */
void trace_add(struct trace *trace, struct span span);

/** Note that some rank finished @iteration at @time; keeps the latest.  Afterwards there are at
 * least @iteration + 1 iterations. */
void trace_finish(struct trace *trace, int32_t iteration, double time);

/** Seconds of one steady iteration: the distance of the last two iteration ends, or the only end.
 * There must be an iteration. */
double trace_step_time(const struct trace *trace);

/** Write as text, times with 17 digits, or @raw for a program of this build.
 * @return 0, or -1: output error (exit code 74). */
int trace_write(FILE *file, const struct trace *trace, bool raw, struct err *err);

/** Read what trace_write() wrote into zeroed @trace, up to its last line, so that traces can
 * follow each other in one file, which messages call @name.
 * @return 0, or -1 with the line and @trace released: not a trace, truncated, a rank or iteration
 * that does not exist, times that are not finite or run backwards (exit code 65). */
int trace_read(FILE *file, const char *name, struct trace *trace, struct err *err);

void trace_release(struct trace *trace);
