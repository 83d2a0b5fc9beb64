#pragma once

/** @file
 * Reading parts of files, with messages that name them.
 *
 * Files are read, not mapped: so a failing disk or a truncated file gives a message and not a
 * signal.
 */

#include "core/base/err.h"
#include "exec/input/picture/scratch.h"

/* Labelled JPEG files by index, from any kind of storage.
 *
 * Invariants: labels are less than classes; the order is that of the names and the same on every
 * machine.  Opening the catalog finds all faults, except those inside files. */

/** The data of a kind of catalog; each defines its own. */
struct listing;

/** An open catalog.  Start from {0}; release with catalog_close(). */
struct catalog {
    int64_t count;   /**< files, at least 1 */
    int32_t classes; /**< at least 1 */
    const struct catalog_ops *ops;
    struct listing *listing; /**< owned */
};

/** A kind of catalog. */
struct catalog_ops {
    /** Read file @index into @bytes.  @return its size, or -1 with a message. */
    int64_t (*fetch)(const struct listing *listing, int64_t index, struct buffer *bytes,
                     struct err *err);
    /** The class of file @index. */
    int32_t (*label)(const struct listing *listing, int64_t index);
    /** The name of file @index in messages; the caller frees it. */
    char *(*name)(const struct listing *listing, int64_t index);
    /** Release. */
    void (*close)(struct listing *listing);
};

/** Open a folder of class folders: the sorted names are the classes, as in torchvision's
 * ImageFolder, and .jpg and .jpeg files in them (in upper case too) the images.  Other names are
 * left out, but a picture of another format is refused.
 * @return 0, or -1: not readable (exit code 66), no class, a class without images (65). */
int catalog_open_folder(struct catalog *catalog, const char *path, struct err *err);

/** Check that the folder @path has the same class folders as @catalog, which was opened from a
 * folder: a class in only one of them would shift the numbers of all later ones.
 * @return 0, also when there is no folder @path, or -1: other classes (exit code 65). */
int catalog_compare_classes(const struct catalog *catalog, const char *path, struct err *err);

/** Open tar files of key.jpg (or .jpeg) and key.cls, the number of the class in digits; other
 * members are left out.  @pattern is a path with * ? [] and {000..146} or {a,b}, or a folder, which
 * means all .tar in it.  The classes are 0 to the greatest number found.
 * @return 0, or -1: no such file, not readable (66), a malformed file, an image without a class or
 * a class without an image, no image (65). */
int catalog_open_shards(struct catalog *catalog, const char *pattern, struct err *err);

/** Release; the struct may be used again. */
void catalog_close(struct catalog *catalog);

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
