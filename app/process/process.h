#pragma once

/** @file
 * Start-up of the three programs, and exit codes of their children.
 */

#include <sys/types.h>

/** Repair inherited settings, first in main().  SIGCHLD must not be ignored or blocked, or exit
 * codes of children are lost.  Closed descriptors 0 to 2, whose numbers other files would get,
 * become /dev/null, read-only, so that printing there fails instead of being lost silently.  A file
 * over its size limit becomes an error to report (SIGXFSZ).  Ends the process (exit code 71) if a
 * descriptor cannot be opened. */
void process_start(void);

/** The documented exit code for @code of a program of ours: itself if our programs give it.  Others
 * come from what starts them (the loader: 126, 127; mpirun) or from a library: 71 where this
 * process may only have so much memory (ulimit -v), else 69 from the loader and 70 otherwise. */
int process_documented(int code);
