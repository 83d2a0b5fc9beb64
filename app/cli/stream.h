#pragma once

/** @file
 * Files that can be read only once, as arguments of commands whose children read them again.
 */

#include "core/base/err.h"

/** Keep what "-" (standard input), a pipe or a terminal gives in memory, until the process ends.
 * @return where this process and its children find it, in messages under its own name; the caller
 * frees it.  NULL: @path is an ordinary file or none, or with a message: cannot be read (exit code
 * 66), more than 64 MiB. */
char *stream_keep(const char *path, struct err *err);
