#pragma once

/** @file
 * Files and directories of a run: read whole, written so that they survive a crash.
 *
 * Checksums, XXH3-128, find damage by disks and copies.  They do not prove who wrote a file.
 */

#include "core/base/base.h"

enum {
    CHECKSUM_DIGITS = 32, /**< hexadecimal */
};

/** Before a checksum in a file. */
#define CHECKSUM_NAME "xxh3-128"

/** Write the checksum of @size bytes, as xxh128sum prints it, and NUL to @digits
 * (CHECKSUM_DIGITS + 1). */
void checksum_of(const void *data, size_t size, char *digits);

/** Make @path and its missing parents.
 * @return 0, or -1 (exit code 73) with the system's reason. */
int file_make_directory(const char *path, struct err *err);

/** Read the regular file @path to the empty @content.
 * @return 0, or -1: not there or not a regular file (exit code 66), unreadable (74), an output
 * (64, see claim.h). */
int file_read(const char *path, struct text *content, struct err *err);

/** A file without a name that holds @content, which messages call @name; its offset is 0.
 * @return its descriptor, or -1: none is free (exit code 71), it cannot be written (74). */
int file_in_memory(const char *name, const struct text *content, struct err *err);

/** A file being written, with its checksum.  Read freely. */
struct file_sink {
    char *path;                    /**< owned */
    int fd;                        /**< open, or -1 */
    struct XXH3_state_s *checksum; /**< of the written bytes */
    int64_t bytes;                 /**< written */
    int error;                     /**< errno of the first fault, or 0; later ones are ignored */
};

/** Start a new file @directory/@name; end it with file_sink_close(). */
struct file_sink file_sink_open(const char *directory, const char *name);

/** Write @size bytes. */
void file_sink_put(struct file_sink *sink, const void *data, int64_t size);

/** Flush the file to the disk, close it and release the sink; the checksum goes to @digits
 * (CHECKSUM_DIGITS + 1).
 * @return 0, or -1 (exit code 74) with the system's reason for the first fault of all. */
int file_sink_close(struct file_sink *sink, char *digits, struct err *err);

/** Where @path leads, whether anything stands there or not: absolute, without links.  The caller
 * frees it.  NULL with errno: its folder is missing, or cannot be looked into. */
char *file_place(const char *path);

/** Whether @path stays what it is when it is written: a pipe, a terminal, a device, a file without
 * a name (memfd), or the one that this process prints to. */
bool file_is_stream(const char *path);

/** Whether @path is a directory, or ends in "/" and so names one. */
bool file_is_directory(const char *path);

/** A file that appears whole or not at all, with the mode of the one it replaces.  On its way to
 * the disk it has no name, or, where the file system wants one, that of its place and 16 digits
 * that nobody can guess.  A stream is written as it is. */
struct file_fresh {
    FILE *stream; /**< to write to */
    char *path;   /**< owned, as are both others: as it was named */
    char *place;  /**< where it will stand, by file_place(); NULL: a stream */
    char *fresh;  /**< what is renamed */
    bool unnamed; /**< it has that name only at the end */
};

/** Start @path; end it with file_fresh_close().
 * @return 0, or -1 (exit code 73) with the system's reason. */
int file_fresh_open(struct file_fresh *file, const char *path, struct err *err);

/** Give @file its place, unless writing it has @failed or @check (or NULL), which reads what was
 * written, fails; release.
 * @return 0, or -1: @failed, what @check says, the system's reason (exit codes 73, 74), which is
 * then in errno, too. */
int file_fresh_close(struct file_fresh *file, bool failed,
                     int (*check)(const char *path, struct err *err), struct err *err);

/** Write @text to @path, whole or not at all.  @return as file_fresh_open() and _close(). */
int file_write(const char *path, const struct text *text,
               int (*check)(const char *path, struct err *err), struct err *err);

/** Whether file_fresh_open() can write @path, before anything takes long; what stands there stays.
 * @return as file_fresh_open(). */
int file_check_place(const char *path, struct err *err);

/** Whether a command whose files begin with @mark may write @path unasked: nothing stands there, or
 * no regular file, or one of its own.
 * @return 0, or -1 (exit code 73) with the way out, `--overwrite`. */
int file_check_own(const char *path, const char *mark, struct err *err);

/** Flush the entries of directory @path to the disk.  On file systems that cannot do so, this does
 * nothing.
 * @return 0, or -1 (exit code 74). */
int file_sync_directory(const char *path, struct err *err);

/** The names in directory @path for which @wanted is true, in the order of bytes; none when there
 * is no such directory.  Release with texts_release(). */
struct texts file_list(const char *path, bool (*wanted)(const char *name));
