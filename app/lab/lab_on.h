#pragma once

/** @file
 * Programs of a lab that are this program under another name: `on HOST COMMAND...`, which enters a
 * host and becomes a command, and `agent`, which does the same for mpirun in place of a remote
 * shell.
 */

#include <stdbool.h>

/** Where they lie in a lab, and what they are called there. */
#define LAB_PROGRAMS "/run/lab/bin"
/** See above. */
#define LAB_ON "on"
/** See above. */
#define LAB_AGENT "agent"

/** Whether the first word of this program's command line is one of these names. */
bool lab_is_on(const char *program);

/** Be that program, with its NULL-terminated command line @argument.
 * @return only in vain, its exit code: no such host or program, or not that of a lab (127), usage
 * (64). */
int lab_on(char **argument);
