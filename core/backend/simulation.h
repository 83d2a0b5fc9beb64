#pragma once

/** @file
 * What a simulator that is another program is asked, and who starts it.
 */

#include "core/backend/backend.h"

/** One run, and its answer.  All pointers are borrowed. */
struct simulation {
    const char *what; /**< "phase 1 of job.yaml", for messages */
    const struct run *run;
    const struct schedule *schedule;
    struct trace *trace; /**< zeroed before */
};

/** Who starts foretrain-sim. */
struct simulator {
    /** Whether there is a foretrain-sim. */
    bool (*is_there)(const struct simulator *simulator);
    /** Run all @simulation (@count) and set their traces.
     * @return 0, or -1 with the first fault. */
    int (*run)(const struct simulator *simulator, const struct simulation *simulation,
               int32_t count, struct err *err);
};
