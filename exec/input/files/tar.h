#pragma once

/** @file
 * Members of a tar file: POSIX ustar and pax, and GNU tar's long names and sizes.
 */

#include <stdint.h>

#include "core/base/base.h"
#include "core/base/err.h"
#include "exec/input/files/file.h"

/** A walk over a tar file.  Start from {.file = ...}; release with tar_release(). */
struct tar {
    const struct file *file;
    int64_t next;     /**< place of the next header [bytes] */
    struct text name; /**< of the member found */
    int64_t offset;   /**< of its content [bytes] */
    int64_t size;     /**< [bytes] */
};

/** Advance to the next regular file.
 * @return 1, 0 at the end, or -1: not a tar file, a header with a wrong checksum, a member that
 * reaches beyond the end of the file. */
int tar_next(struct tar *tar, struct err *err);

/** Release the name. */
void tar_release(struct tar *tar);
