#pragma once

/** @file
 * Starting foretrain-exec as users would by hand: under mpirun where there is more than one rank.
 * Words go to the program as they are: no shell is between.
 */

#include <stdbool.h>

#include "core/base/base.h"
#include "core/base/err.h"

/** A command line.  Start from {0}; release with launch_release(). */
struct launch {
    char **argument; /**< (count) the first is the program; owned */
    int32_t count;
    int64_t capacity;
    int output;        /**< a file descriptor for its standard output; 0: this process's own */
    int talk;          /**< the same for its standard error */
    const char *hosts; /**< "h0,h0,h1": where in a lab each rank runs; NULL: on this machine */
    bool yields;       /**< ranks that wait let others run at once */
    bool saves;        /**< ranks take SIGURG and SIGUSR1 as a wish to save and to end */
};

/** Append one word. */
void launch_add(struct launch *launch, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Start a command line for @ranks ranks of foretrain-exec; its command and options are added by
 * the caller.
 * @return 0, or -1: foretrain-exec was not found, no mpirun where it is needed, several ranks in a
 * build without MPI (exit code 69), fewer descriptors are allowed than ranks need (71). */
int launch_begin(struct launch *launch, int32_t ranks, struct err *err);

/** A new file in memory for launch.output or launch.talk, which the caller closes; programs that
 * are started have it only as that.
 * @return its descriptor, or -1 (exit code 71): none is left. */
int launch_file(struct err *err);

/** All that was written to the open file @file, from its beginning; the caller releases it. */
struct text launch_read(int file);

/** The line as a shell takes it.  The caller frees it. */
char *launch_line(const struct launch *launch);

/** Give the calling process, which is about to become the program, output and talk. */
void launch_take_streams(const struct launch *launch);

/** Run it in a process group of its own, with nothing on stdin and, where they are not given, this
 * process's stdout and stderr, and wait.  It ends when this process is gone.
 *
 * A signal that wishes an end (SIGINT, SIGTERM; SIGHUP; SIGUSR1) is for the ranks: where they save,
 * they are asked to end after the step at hand, and a second SIGINT or SIGTERM ends them at once,
 * which elsewhere the first does.  SIGTSTP stops them and this process, until it goes on.
 * @return its exit code, 128 + the signal that killed it, or -1: it could not be started, or how it
 * ended is lost (exit code 71), stdout is closed (74), a signal N ended it at once (128 + N). */
int launch_run(const struct launch *launch, struct err *err);

/** Release. */
void launch_release(struct launch *launch);
