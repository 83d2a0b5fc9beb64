#pragma once

/** @file
 * Reading parts of files, with messages that name them.
 *
 * Files are read, not mapped: so a failing disk or a truncated file gives a message and not a
 * signal.
 */

#include <stdint.h>

#include "core/base/err.h"
#include "exec/input/picture/scratch.h"

/** A regular file, open for reading. */
struct file {
    char *path;   /**< owned */
    int fd;       /**< -1: not open */
    int64_t size; /**< [bytes] when it was opened */
};

/** Open @path; release with file_close().
 * @return 0, or -1: it cannot be read, or is not a regular file (exit code 66). */
int file_open(struct file *file, const char *path, struct err *err);

/** Read exactly @size bytes at @offset.
 * @return 0, or -1: the disk failed, or the file is shorter now. */
int file_load(const struct file *file, int64_t offset, int64_t size, void *data, struct err *err);

/** Read the whole file @path into @bytes.
 * @return its size, or -1: it cannot be read, or has more than 1 GiB. */
int64_t file_slurp(const char *path, struct buffer *bytes, struct err *err);

/** Close and release; the struct may be used again. */
void file_close(struct file *file);
