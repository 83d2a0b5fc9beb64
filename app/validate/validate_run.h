#pragma once

/** @file
 * The measurement of `validate`: a few steps of foretrain-exec with its spans, on this machine or
 * in a lab (app/lab/lab.h).
 */

#include <stdbool.h>

#include "app/cli/request.h"
#include "app/job/job.h"
#include "app/lab/lab.h"

/** What the user asked for. */
struct validate_request {
    struct request head;
    struct predict_options predict;
    struct compute_options compute;
    const char *lab; /**< a platform to build */
    const char *trace, *predicted, *measured, *tolerance;
    int32_t steps;   /**< to measure; 0: the usual */
    int32_t timeout; /**< of the watchdog [s]; 0: none */
};

/** What is to be measured.  All pointers are borrowed. */
struct validate_run {
    const struct validate_request *request;
    const struct point *point; /**< where ranks are placed in the lab */
    const struct cabling *lab; /**< NULL: all on this machine */
    int32_t steps;             /**< to be measured; VALIDATE_EXTRA_STEPS more are run */
};

/** What there is to say of it besides the spans; negative: nothing. */
struct validate_notes {
    double late_s, latest_s; /**< how late steps of device "replay" ended: mean, and at most [s] */
    double clock_s;          /**< how far the clocks of two ranks may be apart [s] */
    double steal, foreign;   /**< parts of the processors' time that the host, and other processes
                                  of this machine, had meanwhile */
    double idle;             /**< and that nobody had */
    int64_t drops;           /**< packets that the lab's links threw away */
    int64_t retransmits;     /**< TCP segments that its hosts sent again */
};

/** Steps before the first that is measured: two that nobody traces, one whose end is where the
 * first one begins. */
enum { VALIDATE_EXTRA_STEPS = 3 };

/** Run and read the spans into zeroed @trace.
 * @return 0, or -1: mpirun or foretrain-exec is missing (exit code 69), the messages of lab_run(),
 * or the exit code of foretrain-exec, which has said why. */
int validate_measure(const struct validate_run *run, struct trace *trace,
                     struct validate_notes *notes, struct err *err);

/** Whether others had more of the processors than exec/measure/timing.h allows, or a lab lost
 * packets. */
bool validate_was_disturbed(const struct validate_notes *notes);

/** Read spans that `predict --spans` or `train --spans` wrote into zeroed @trace.
 * @return 0, or -1: no such file (exit code 66), something else in it (65). */
int validate_read_spans(const char *path, struct trace *trace, struct err *err);
