#pragma once

/** @file
 * Packs (exec/input/pack/pack_file.h): writing (only where decoder_present()), and checking.  The
 * reader is reader_pack.
 */

#include "exec/input/dataset.h"

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
