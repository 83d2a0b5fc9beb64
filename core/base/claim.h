#pragma once

/** @file
 * No output of a command takes the place of what the command reads, nor of another output.
 *
 * A program notes where its outputs will be before it reads anything.  file_read() and other
 * readers ask here first, so a fault shows before anything is computed, and nothing is lost.  The
 * list lives as long as the process: one command line is one list.
 */

#include "core/base/err.h"

/** Note that --@option ("csv") writes @path, which may be NULL, "-" or a stream: these replace
 * nothing.  @holds: NULL for a file; for a directory the names of what is written there, as
 * fnmatch() with FNM_EXTMATCH reads them.  @option and @holds are static.
 * @return 0, or -1 (exit code 64) with both names: another output has this place. */
int claim_output(const char *option, const char *path, const char *holds, struct err *err);

/** Check all files that were noted with file_check_place(), but for those in a directory that will
 * be made.  @return 0, or -1 (exit code 73). */
int claim_check(struct err *err);

/** Ask before @path is read.
 * @return 0, or -1 (exit code 64) with both names: an output would replace it. */
int claim_input(const char *path, struct err *err);

/** Note that the output @path was written: from now on it may be read. */
void claim_written(const char *path);

/** Ask before all files in the directory @path are read, or those of a pattern ("{0..9}.tar"). */
int claim_input_all(const char *path, struct err *err);
