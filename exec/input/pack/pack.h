#pragma once

/** @file
 * Packs (.ftp), decoded images in one file: writing (only where decoder_present()), checking, and
 * opening one.  reader_pack reads them in training.
 *
 * A header, then the records, then the index at a multiple of 4096 bytes, up to the end of the
 * file. A record is width x height pixels of red, green and blue bytes, row by row.  All numbers
 * are little-endian; hashes are XXH3, 64 bit, with seed 0.
 */

#include "exec/input/dataset.h"
#include "exec/input/files/file.h"

/** What to pack. */
struct pack_job {
    const char *from; /**< a folder of class folders, or tar files as for webdataset */
    const char *to;   /**< the file; replaced if it exists */
    enum split split; /**< the purpose of the images */
    int32_t shorter;  /**< larger pictures are scaled down to this shorter side [pixels] */
    int32_t threads;  /**< that decode, at least 1 */
    bool strict;      /**< a corrupt image is an error */
    void (*progress)(int64_t done, int64_t count); /**< called now and then; or NULL */
};

/** What is in a pack. */
struct pack_summary {
    enum split split;
    int64_t images, left_out; /**< left_out: corrupt ones, named on stderr */
    int32_t classes, shorter;
    int64_t bytes;       /**< of the file */
    int64_t least, most; /**< images of the smallest and of the largest class */
};

/** Write a pack of whole images, with shorter sides longer than job->shorter pixels resized to
 * that.  The file appears under its name only when it is complete and on the disk; a failure leaves
 * nothing behind.  The bytes do not depend on the number of threads.
 * @return 0, or -1: as catalog_open_folder() and catalog_open_shards(), a corrupt image with
 * `strict`, no readable image (exit code 65), cannot be created (73), the disk is full or fails
 * (74), a build without libjpeg (69). */
int pack_write(const struct pack_job *job, struct pack_summary *summary, struct err *err);

/** Read all of the pack @path and compare the hashes.  Each damaged image is a message.
 * @return 0, or -1: not readable (66), not a pack, damaged (65). */
int pack_check(const char *path, struct pack_summary *summary, struct err *err);

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

/** Release; the struct may be used again. */
void pack_file_close(struct pack_file *pack);
