#pragma once

/** @file
 * The commands of foretrain-exec.  All ranks run them together; only rank 0 fills the result.
 */

#include "app/cli/command.h"

/** Each in a file of its own. */
extern const struct command exec_train, exec_evaluate, exec_collective, exec_measure,
    exec_workspace;
