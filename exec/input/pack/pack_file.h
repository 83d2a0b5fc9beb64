#pragma once

/** @file
 * An open pack.
 */

#include "exec/input/files/file.h"
#include "exec/input/pack/pack.h"

/* The content of a pack (.ftp): decoded images in one file.
 *
 * A header, then the records, then the index at a multiple of 4096 bytes, up to the end of the
 * file. A record is width x height pixels of red, green and blue bytes, row by row.  All numbers
 * are little-endian; hashes are XXH3, 64 bit, with seed 0. */

enum {
    PACK_VERSION = 1,
    PACK_PAGE = 4096, /**< [bytes]; the first record begins here */
};

/** The first bytes of a file. */
struct pack_header {
    char magic[8];        /**< "ftpack\r\n" */
    uint32_t version;     /**< PACK_VERSION */
    uint32_t classes;     /**< labels are less */
    uint32_t split;       /**< enum split */
    uint32_t shorter;     /**< no shorter side is longer [pixels] */
    uint64_t count;       /**< records, at least 1 */
    uint64_t index;       /**< where the index begins [bytes] */
    uint64_t index_hash;  /**< of all entries */
    uint64_t header_hash; /**< of this header up to here */
};

/** One entry of the index. */
struct pack_entry {
    uint64_t offset;        /**< of the record [bytes] */
    uint64_t hash;          /**< of the record */
    uint32_t width, height; /**< [pixels] */
    uint32_t label;
    uint32_t zero;
};

/** The XXH3 of @size bytes, which detects damaged records. */
uint64_t hash_bytes(const void *data, int64_t size);

/** Write magic and version into @header. */
void pack_header_init(struct pack_header *header);

/** Check all of @header except its hash, for a file @name of @size bytes.  @return 0, or -1: not a
 * pack, another version, truncated, a number out of range. */
int pack_header_check(const struct pack_header *header, const char *name, int64_t size,
                      struct err *err);

/** Check entry @number of a pack whose header was checked: its record is between header and index.
 * @return 0, or -1: a place, size or label out of range. */
int pack_entry_check(const struct pack_header *header, const struct pack_entry *entry,
                     const char *name, int64_t number, struct err *err);

/** A pack whose header and index were checked.  Start from {0}; release with pack_file_close(). */
struct pack_file {
    struct file file;
    struct pack_header header;
    struct pack_entry *entry; /**< (header.count) owned */
};

/** Open @path and check header and index, with their hashes.
 * @return 0, or -1: not readable (exit code 66), not a pack, damaged (65). */
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
