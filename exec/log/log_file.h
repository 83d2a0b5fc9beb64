#pragma once

/** @file
 * Inner side of log.h: a file that grows during a run.
 *
 * A fault does not stop the run: the first one is reported on stderr at once and again on closing,
 * and later lines are dropped.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/base.h"
#include "core/base/err.h"

/** One file. */
struct log_file {
    char *path;   /**< owned */
    FILE *stream; /**< appends, buffered */
    int error;    /**< errno of the first fault, or 0 */
};

/** Open @directory/@name for appending; it is made when missing.
 * @return 0, or -1 (exit code 73) with the system's reason. */
int log_file_open(struct log_file *file, const char *directory, const char *name, struct err *err);

/** Whether it is empty. */
bool log_file_is_empty(const struct log_file *file);

/** Truncate the file before its first line that is incomplete or lost according to @is_lost (with
 * @step). */
void log_file_cut(struct log_file *file, bool (*is_lost)(const char *line, int64_t step),
                  int64_t step);

/** Append @size bytes. */
void log_file_put(struct log_file *file, const void *data, int64_t size);

/** Append @text and empty it. */
void log_file_take(struct log_file *file, struct text *text);

/** Pass the buffer to the system. */
void log_file_flush(struct log_file *file);

/** Flush, close and release; accepts a zeroed struct.  @return 0, or -1 (exit code 74): a write
 * failed since it was opened. */
int log_file_close(struct log_file *file, struct err *err);
