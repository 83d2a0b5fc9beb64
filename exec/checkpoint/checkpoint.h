#pragma once

/** @file
 * Checkpoints: directories that are complete or absent.
 *
 *     DIR/ckpt-000123/model.safetensors   parameters and running statistics, torchvision's names
 *                                         and shapes; loads in PyTorch
 *                     optim.safetensors   momentum, same names; second moments: with .square
 *                     ranks.safetensors   each rank's own running statistics, with which as many
 *                                         ranks go on bit by bit
 *                     state.json          where the run stands
 *                     job.json            what the job says, to be compared by
 *                                         core/scenario/scenario_change.h
 *                     MANIFEST            size and XXH3-128 of each file, one line each
 *
 * A checkpoint is written into a directory of another name (".tmp-..."), every file and the
 * directory are fsynced, and the directory is renamed; so a crash or a full disk never harms an
 * older one.  Readers skip the remains of a crash, and the next write removes them.
 * exec/checkpoint/run_directory.h ensures that only one process at a time writes into a directory
 * of checkpoints.
 *
 * The loss and other numbers that are not finite are null in state.json and NaN when read.
 */

#include "core/base/answer.h"
#include "exec/step/layout.h"

enum {
    RUN_ID_SIZE = 17, /**< 16 hexadecimal digits, drawn for each run, and NUL */
};

/** The progress of a run. */
struct progress {
    char run[RUN_ID_SIZE]; /**< the run; "": unknown */
    int64_t step;          /**< iterations done */
    int64_t position;      /**< images taken from the training stream (all ranks together) */
    double epoch;          /**< position / images of an epoch */
    double loss_scale;
    int64_t good_steps;       /**< since the loss scale last changed */
    int64_t skipped_steps;    /**< by overflow */
    int64_t seed;             /**< of weights and data */
    int32_t ranks;            /**< that wrote it; any number may continue */
    int32_t image, classes;   /**< of the network's input and output */
    double loss;              /**< of the last iteration */
    double top1, top5;        /**< of the last evaluation, fractions; negative: none yet */
    char network[32];         /**< "resnet50" */
    char scenario_sha256[65]; /**< of the job's text */
    const char *job;          /**< for job.json, borrowed; NULL: there is none, and when read */
};

/** Write a checkpoint of @progress and @weights (without momentum there is no optim.safetensors,
 * without rank_statistics no ranks.safetensors) into directory @name ("ckpt-000123") of @directory,
 * which is made if missing; an older one of that name is replaced.  Then remove the ckpt-* of the
 * same run there, except the @keep with the highest numbers (0: keep all).  Never remove @name
 * itself, other names ("snapshot-1"), an unreadable checkpoint, or a directory with other files;
 * failures to remove are ignored.  On one rank only.
 * @return 0, or -1 (exit code 73 or 74): a file or directory that cannot be made or written, with
 * the system's reason; a directory that another run took over.  Then nothing of the new checkpoint
 * is left, and no older one is removed. */
int checkpoint_write(const char *directory, const char *name, int32_t keep,
                     const struct layout *layout, const struct progress *progress,
                     const struct weights *weights, struct err *err);

/** What the files of checkpoint @path have together [bytes]. */
int64_t checkpoint_bytes(const char *path);

/** Whether @name is that of a run's checkpoint ("ckpt-000123", "snapshot-1") or of its remains. */
bool checkpoint_is_name(const char *name);

/** Whether checkpoint @name of @directory is a directory with only files of a checkpoint. */
bool checkpoint_is_removable(const char *directory, const char *name);

/** Remove checkpoint @name of @directory, unless it is not removable; after a crash during this,
 * nothing looks like a checkpoint. */
void checkpoint_remove(const char *directory, const char *name);

/** Read the checkpoint directory @path: check every checksum, then fill @progress and @weights
 * (arrays of the caller, NULL members are left out; momentum and rank_statistics
 * (progress.ranks, statistic_count) are left alone when the checkpoint has none).
 * @return 0, or -1 (exit code 65 or 66) with nothing filled: missing or unreadable file, wrong size
 * or checksum (named), a tensor that is missing, unknown, of another type or shape than @layout's,
 * another network; 69: a checksum that this build cannot compute. */
int checkpoint_read(const char *path, const struct layout *layout, struct progress *progress,
                    const struct weights *weights, struct err *err);

/** Fill only @progress, so that the caller can build the network.  @return 0, or -1 as above. */
int checkpoint_read_progress(const char *path, struct progress *progress, struct err *err);

/** Read job.json of the checkpoint @path.  @return the values, which the caller frees, or NULL
 * (exit code 65 or 66): missing, damaged, not a JSON object. */
struct json *checkpoint_read_job(const char *path, struct err *err);

/** The path of the whole ckpt-* of @run (NULL: of any) in @directory with the highest number, or
 * NULL when there is none; whole means that MANIFEST is complete and that every file has its
 * checksum, if this build can compute it.  Skips others with a line in @notes.  Owned. */
char *checkpoint_latest(const char *directory, const char *run, struct text *notes);

/** The checkpoint that a user's @path means: itself if it is a checkpoint, else the latest in
 * it, of the run in its run.json if there is one.
 * @return the path, which the caller frees, or NULL (exit code 66): nothing there, or a file. */
char *checkpoint_find(const char *path, struct text *notes, struct err *err);

/** The columns of checkpoint_inspect() as JSON. */
extern const struct answer_columns inspect_columns;

/** Append the content of @path (a checkpoint or a safetensors file) for people: progress, whether
 * each checksum is right, every tensor with type, shape, minimum, mean and maximum of its finite
 * elements and the number of others; or, as one JSON object, the same and @notes.
 * @return 0, or -1 as checkpoint_read(), except for the network; the readable content is appended
 * anyway. */
int checkpoint_inspect(const char *path, bool as_json, const char *notes, struct text *out,
                       struct err *err);
