#pragma once

/** @file
 * foretrain-sim as a child process: it may abort, be killed or write nonsense, and the parent still
 * reports that in one line.
 *
 * The child writes its trace to stdout and its messages to stderr, both into memory.  It dies with
 * its parent.
 */

#include <stdbool.h>
#include <stdint.h>

#include "app/process/progress.h"
#include "core/backend/trace.h"
#include "core/base/err.h"

/** One run of foretrain-sim.  Start from {0}; release with child_release(). */
struct child {
    char **argument; /**< (argument_count) of the command line, without the program; owned */
    int32_t argument_count;
    char *what;         /**< "phase 1 of job.yaml", for messages; owned */
    struct trace trace; /**< the answer; zeroed before */

    int32_t pid;    /**< private to child.c, like the next members; 0: ended, -1: status lost */
    int32_t status; /**< as waitpid() has it */
    int answer, talk;
    struct progress progress;
    bool told; /**< its estimate was printed */
};

/** Append one word to the command line. */
void child_add(struct child *child, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Release command line and trace; the struct may be used again. */
void child_release(struct child *child);

/** The path of program @name ("foretrain-sim"): in $FORETRAIN_LIBEXEC when that is set, else beside
 * this program or in ../libexec/foretrain.  The caller frees it.  NULL when there is none. */
char *child_program(const char *name);

/** Run all @child (@count), two at a time, and read their traces.  A simulation that takes long is
 * announced on stderr, with an estimate; a terminal there also shows, from the second second on,
 * how far the slowest is.  @return 0, or -1 with the first fault: not startable (69), no process or
 * descriptor (71), the child's own message and exit code (64 to 69, 71, 74), one line with exit
 * code 70 if the child was killed, aborted or wrote anything other than a trace, or interrupted by
 * SIGINT (130; then no child runs any more). */
int child_run(struct child *child, int32_t count, struct err *err);
