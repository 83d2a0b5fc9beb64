#pragma once

/** @file
 * Inner side of checkpoint.h: the files of a checkpoint, one by one.
 *
 * MANIFEST has one line per file and one about itself, which covers all lines before:
 *
 *     xxh3-128 99aa06d3014798d86001c324468d497f 102274824 model.safetensors
 *     xxh3-128 ...                              1234      MANIFEST
 */

#include "core/base/file.h"
#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/safetensors.h"

/** The files that hold something. */
enum checkpoint_file {
    CHECKPOINT_MODEL,
    CHECKPOINT_OPTIM, /**< may be missing */
    CHECKPOINT_RANKS, /**< may be missing */
    CHECKPOINT_STATE,
    CHECKPOINT_JOB, /**< may be missing */
    CHECKPOINT_FILE_COUNT
};

/** "model.safetensors", "optim.safetensors", "ranks.safetensors", "state.json", "job.json",
 * "MANIFEST", NULL-terminated, in the order of enum checkpoint_file. */
extern const char *const checkpoint_file_names[];

/** What MANIFEST says of one file. */
struct manifest_entry {
    bool present;
    int64_t bytes;
    char digits[CHECKSUM_DIGITS + 1];
};

/** All of MANIFEST. */
struct manifest {
    struct manifest_entry entry[CHECKPOINT_FILE_COUNT + 1]; /**< the last, MANIFEST's own, counts
                                                                 only while it is written */
};

/** Append MANIFEST. */
void manifest_print(struct text *out, const struct manifest *manifest);

/** Read MANIFEST from the @length characters @text of the file @name, which end with NUL.
 * @return 0, or -1 with a message that starts with @name: a malformed line, a file that is unknown,
 * given twice or missing, no last line or one that does not cover the lines before it, a checksum
 * that this build cannot compute (exit code 69). */
int manifest_read_text(struct manifest *manifest, const char *name, const char *text,
                       int64_t length, struct err *err);

/** Read the MANIFEST of the checkpoint @path.  @return 0, or -1 as manifest_read_text() and
 * file_read(). */
int manifest_read(struct manifest *manifest, const char *path, struct err *err);

/** Read the file of @kind of the checkpoint @path to the empty @content, and check it.  Its path,
 * @file, is the caller's.  @return 0, or -1; @content is there unless it cannot be read. */
int manifest_read_file(const struct manifest *manifest, const char *path, enum checkpoint_file kind,
                       char **file, struct text *content, struct err *err);

/** Append state.json. */
void state_print(struct text *out, const struct progress *progress);

/** Read state.json from @length characters @text of the file @name.
 * @return 0, or -1 with a message that starts with @name: not JSON, a key that is missing, unknown
 * or of another type or range. */
int state_read_text(struct progress *progress, const char *name, const char *text, int64_t length,
                    struct err *err);

/** The array that holds a tensor of a checkpoint. */
enum stored_in {
    STORED_IN_PARAMETER,  /**< weights.parameter, or momentum for optim.safetensors */
    STORED_IN_STATISTICS, /**< weights.statistics */
    STORED_IN_PROGRESS,   /**< num_batches_tracked: steps, an integer */
};

/** A tensor that a checkpoint of a network has. */
struct stored_tensor {
    char name[96]; /**< torchvision's */
    enum stored_in in;
    int64_t offset, elements; /**< in that array */
    int32_t rank;
    int64_t shape[4];
};

/** All of them, in torchvision's order. */
struct stored_list {
    struct stored_tensor *item; /**< (count) owned; released with free() */
    int64_t count;
};

/** The tensors of @file (model, optim or ranks) for @layout and a run on @ranks ranks. */
struct stored_list stored_tensors(const struct layout *layout, enum checkpoint_file file,
                                  int32_t ranks);

/** Check that the file @name with @header has the tensors of @list and no others.
 * @return 0, or -1 with a message per tensor that is missing, unknown, of another shape or kind of
 * number; num_batches_tracked may be missing. */
int stored_check(const struct stored_list *list, const char *name, const struct safetensors *header,
                 struct err *err);

/** The names in @directory that are "ckpt-" and digits, highest number first. */
struct texts checkpoint_list(const char *directory);
