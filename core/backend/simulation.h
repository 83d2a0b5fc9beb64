#pragma once

/** @file
 * What a simulator that is another program is asked, and who starts it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/backend/trace.h"
#include "core/base/err.h"

/** One run of foretrain-sim.  Start from {0}; release with simulation_release(). */
struct simulation {
    char **word; /**< (words) of the command line, without the program; owned */
    int32_t words;
    char *what;         /**< "phase 1 of job.yaml", for messages; owned */
    struct trace trace; /**< the answer; zeroed before */
};

/** Append one word to the command line. */
void simulation_add(struct simulation *simulation, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void simulation_release(struct simulation *simulation);

/** Who starts foretrain-sim. */
struct simulator {
    /** Whether there is a foretrain-sim. */
    bool (*is_there)(const struct simulator *simulator);
    /** Run all @simulation (@count) and set their traces.
     * @return 0, or -1 with the first fault. */
    int (*run)(const struct simulator *simulator, struct simulation *simulation, int32_t count,
               struct err *err);
};
