#pragma once

/** @file
 * Programs of a lab that are this program under another name: `on HOST COMMAND...`, which enters a
 * host and executes a command, and `agent`, which does the same for mpirun instead of a remote
 * shell.
 */

#include <stdbool.h>

/** Their directory in a lab, and their names. */
#define LAB_PROGRAMS "/run/lab/bin"
/** See above. */
#define LAB_ON "on"
/** See above. */
#define LAB_AGENT "agent"

/** Whether the first word of this program's command line is one of these names. */
bool lab_is_on(const char *program);

/** Run that program with its NULL-terminated command line @argument.  @return only on failure, an
 * exit code: no such host or program, or not in a lab (127), usage (64). */
int lab_on(char **argument);
