#pragma once

/** @file
 * An open pack.
 */

#include <stdint.h>

#include "exec/input/files/file.h"
#include "exec/input/pack/pack.h"
#include "exec/input/pack/pack_layout.h"

/** A pack whose header and index were checked.  Start from {0}; release with pack_file_close(). */
struct pack_file {
    struct file file;
    struct pack_header header;
    struct pack_entry *entry; /**< (header.count) owned */
};

/** Open @path and check header and index, with their hashes.
 * @return 0, or -1: not readable (exit code 66), not a pack, damaged (65), a build without xxHash
 * (69). */
int pack_file_open(struct pack_file *pack, const char *path, struct err *err);

/** Read the pixels of image @number into @pixels.
 * @return 0, or -1: not readable, or changed since it was written. */
int pack_file_read(const struct pack_file *pack, int64_t number, struct buffer *pixels,
                   struct err *err);

/** The summary of a pack of @header and @entry with @bytes in all, left_out 0. */
struct pack_summary pack_summarise(const struct pack_header *header, const struct pack_entry *entry,
                                   int64_t bytes);

/** Release; the struct may be used again. */
void pack_file_close(struct pack_file *pack);
