#pragma once

/** @file
 * Starts foretrain-exec as users would by hand: under mpirun for more than one rank.  The program
 * gets its words unchanged, without a shell.
 */

#include "core/base/json.h"

/** A command line.  Start from {0}; release with launch_release(). */
struct launch {
    struct texts words; /**< the first is the program */
    int input;          /**< a file descriptor for its standard input, borrowed; 0: an empty one */
    int output; /**< what its standard output is kept in; 0: it is this process's own; owned */
    int talk;   /**< the same of its standard error */
    const char *hosts; /**< "h0,h0,h1": the host of each rank; NULL: on this machine */
    bool yields;       /**< waiting ranks yield to others at once */
    bool saves;        /**< on SIGURG and SIGUSR1, ranks save and end */
};

/** Whether foretrain-exec was built with MPI. */
extern const bool launch_has_mpi;

/** Whether $PATH has the program @name. */
bool launch_finds(const char *name);

/** Start a command line for @ranks ranks of foretrain-exec; its command and options are added by
 * the caller.
 * @return 0, or -1: foretrain-exec was not found, a required mpirun is missing, several ranks in a
 * build without MPI (exit code 69), fewer descriptors are allowed than ranks need (71). */
int launch_begin(struct launch *launch, int32_t ranks, struct err *err);

/** A new file in memory, which the caller closes; started programs inherit it only as a stream.
 * @return its descriptor, or -1 (exit code 71): none is left. */
int launch_file(struct err *err);

/** Keep what @launch prints, and if @talk what it says on its standard error, for launch_read().
 * @return 0, or -1 as launch_file(). */
int launch_keep(struct launch *launch, bool talk, struct err *err);

/** The whole content of the open file @file; the caller releases it. */
struct text launch_read(int file);

/** The JSON that foretrain-exec printed under @launch; NULL: nothing, or with a message what is
 * none. */
struct json *launch_read_json(const struct launch *launch, struct err *err);

/** The line, quoted for a shell.  The caller frees it. */
char *launch_line(const struct launch *launch);

/** Run it in its own process group, with empty stdin and, unless given, this process's stdout and
 * stderr, and wait.  It ends when this process ends.
 *
 * Signals to end (SIGINT, SIGTERM; SIGHUP; SIGUSR1) are forwarded to the ranks.  With `saves`,
 * ranks end after the current step, and a second SIGINT or SIGTERM ends them at once; without, the
 * first one does.  SIGTSTP stops them and this process, until it continues.
 * @return its exit code, with `talk` also 128 + the signal that killed it, or -1: it could not be
 * started, or its exit status is lost (exit code 71), stdout is closed (74), a signal N ended it at
 * once, or killed it or one of its ranks without `talk` (128 + N), or an exit code that is none of
 * ours without `talk` (process_documented()). */
int launch_run(const struct launch *launch, struct err *err);

void launch_release(struct launch *launch);
