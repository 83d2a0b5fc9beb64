#pragma once

/** @file
 * Starting foretrain-exec as users would by hand: when there is more than one rank under mpirun, or
 * where this build has no MPI by "foretrain-exec start".
 */

#include "core/base/err.h"

/** A command line.  Start from {0}; release with launch_release(). */
struct launch {
    char **argument; /**< (count) the first is the program; owned */
    int32_t count;
    int64_t capacity;
    int output; /**< a file descriptor for its standard output; 0: this process's own */
};

/** Append one word. */
void launch_add(struct launch *launch, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Start a command line for @ranks ranks of foretrain-exec on this machine; its
 * command and options are added by the caller.
 * @return 0, or -1 (exit code 69): no mpirun where it is needed, or foretrain-exec was not
 * found. */
int launch_begin(struct launch *launch, int32_t ranks, struct err *err);

/** The line as a shell takes it.  The caller frees it. */
char *launch_line(const struct launch *launch);

/** Run it with this process's stdin, stdout (unless there is an output) and stderr and wait. SIGINT
 * goes to both anyway; SIGTERM and SIGUSR1 are passed on as SIGUSR1, which the ranks are
 * handed.
 * @return its exit code, 128 + the signal that killed it, or -1 (exit code 71 in @err): it could
 * not be started. */
int launch_run(const struct launch *launch, struct err *err);

/** Release. */
void launch_release(struct launch *launch);
