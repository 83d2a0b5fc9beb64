#pragma once

/** @file
 * What each of the three programs needs of the system before it can rely on it, and the ends of
 * its children.
 */

#include <sys/types.h>

/** Undo what a parent may have left behind, first of all in main(): SIGCHLD ignored or blocked,
 * which would take children's exit codes away; descriptors 0 to 2 closed, whose numbers other files
 * would get.  Those become /dev/null, only to be read: what is printed there fails, and is not lost
 * in silence.  A file that may not grow is an error to report from now on (SIGXFSZ).  Ends the
 * process (exit code 71) where a descriptor cannot be opened. */
void process_start(void);

/** Wait for the child @pid, whatever signals come meanwhile.
 * @return its exit code, 128 + N when signal N ended it, or -1 with errno: somebody else took
 * it. */
int process_wait(pid_t pid);

/** The exit code of what waitpid() says: 128 + N when signal N ended it. */
int process_code(int status);

/** Seconds by the monotonic clock. */
double process_now(void);
