#pragma once

/** @file
 * A file that appears complete or not at all.
 *
 * It is written as NAME.part in the same directory, flushed to the disk and renamed at the end.
 * Two programs cannot write the same file at once; the rest of a killed program's file is
 * overwritten.
 */

#include <stdint.h>

#include "core/base/err.h"

/** A file being written.  Start from {0}; end with output_finish() or output_discard(). */
struct output {
    char *path, *part; /**< owned */
    int fd;
    int64_t size; /**< written so far [bytes] */
};

/** Begin the file @path.
 * @return 0, or -1 with exit code 73: it cannot be created, another program is writing it. */
int output_open(struct output *output, const char *path, struct err *err);

/** Append @size bytes.  @return 0, or -1 with exit code 74: the disk is full or fails. */
int output_write(struct output *output, const void *data, int64_t size, struct err *err);

/** Append zeros up to a multiple of @unit bytes, one unit of them to an empty file.
 * @return as output_write(). */
int output_pad(struct output *output, int64_t unit, struct err *err);

/** Overwrite the first @size bytes with @header, flush the file to the disk, rename it, and
 * release.  @return 0, or -1 with exit code 74; then the caller discards it. */
int output_finish(struct output *output, const void *header, int64_t size, struct err *err);

/** Remove the file; release. */
void output_discard(struct output *output);
