#pragma once

/** @file
 * foretrain-sim as a child process: it may abort, be killed or write nonsense, and the parent still
 * reports that in one line.
 *
 * The child writes its trace to stdout and its messages to stderr, both into memory.  It dies with
 * its parent.
 */

#include "core/backend/backend.h"
#include "core/backend/simulation.h"

/** The path of program @name ("foretrain-sim"): in $FORETRAIN_LIBEXEC when that is set, else beside
 * this program or in ../libexec/foretrain.  The caller frees it.  NULL when there is none. */
char *child_program(const char *name);

/** Runs simulations two at a time.  One that takes long is announced on stderr, with an estimate; a
 * terminal there also shows, from the second second on, how far the slowest is.  Faults: not
 * startable (69), no process or descriptor (71), the child's own message and exit code (64 to 69,
 * 71, 74), one line with exit code 70 if the child was killed, aborted or wrote anything other than
 * a trace, or interrupted by SIGINT (130; then no child runs any more). */
extern const struct simulator child_simulator;

/** How commands predict: with children, and with one memory for all jobs. */
#define PREDICT_COMMAND PREDICT_DEFAULTS, .simulator = &child_simulator, .memory = &child_memory

/** Of this process's predictions. */
extern struct memory child_memory;
