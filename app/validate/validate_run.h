#pragma once

/** @file
 * The measurement of `validate`: a few steps of foretrain-exec with its spans, on this machine.
 */

#include "app/cli/request.h"
#include "app/job/job.h"
#include "app/predict/task.h"

/** What the user asked for. */
struct validate_request {
    struct request head;
    struct predict_options predict;
    struct compute_options compute;
    const char *trace, *predicted, *measured, *report, *against;
    double tolerance; /**< on the step's error, as a fraction */
    int32_t steps;    /**< to measure; 0: the usual */
    int32_t timeout;  /**< of the watchdog [s]; 0: none */
};

/** The measurement to make.  All pointers are borrowed. */
struct validate_run {
    const struct validate_request *request;
    const struct point *point; /**< where ranks are placed in the lab */
    int32_t steps;             /**< to measure; VALIDATE_EXTRA_STEPS more are run */
    bool quiet;                /**< without the command line on stderr */
};

/** Facts of the measurement besides the spans; negative: unknown. */
struct validate_notes {
    double late_s, latest_s; /**< how late steps of device "replay" ended: mean, and at most [s] */
    double clock_s;          /**< maximum difference between the clocks of two ranks [s] */
    double steal, foreign;   /**< fractions of the processors' time used by the host, and by other
                                  processes of this machine */
    double idle;             /**< and idle */
};

/** Steps before the first measured one: two without a trace, and one whose end is the beginning of
 * the first. */
enum { VALIDATE_EXTRA_STEPS = 3 };

/** Run and read the spans into zeroed @trace.
 * @return 0, or -1: mpirun or foretrain-exec is missing (exit code 69), the messages of
 * measure_hosts(), or the exit code of foretrain-exec, which has reported the reason. */
int validate_measure(const struct validate_run *run, struct trace *trace,
                     struct validate_notes *notes, struct err *err);

/** Whether others used more of the processors than exec/measure/timing.h allows. */
bool validate_was_disturbed(const struct validate_notes *notes);

/** Read spans that `predict --spans` or `train --spans` wrote into zeroed @trace.
 * @return 0, or -1: no such file (exit code 66), a file without spans (65). */
int validate_read_spans(const char *path, struct trace *trace, struct err *err);
