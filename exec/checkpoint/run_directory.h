#pragma once

/** @file
 * The directory of a run belongs to one run, and to one process at a time.
 *
 *     DIR/run.json    its run, and the last process that wrote there, with machine and start time
 *
 * A process that writes there holds a lock (flock) on run.json.  The kernel releases it when the
 * process ends, in any way, so a crash leaves nothing to clean up.  On NFS the lock works between
 * machines, unless the mount has nolock or local_lock; if a machine is cut off, the server keeps
 * its lock until its lease expires.  On a file system without locks there is a warning.  Source:
 * flock(2), "NFS details"; nfs(5), "local_lock".
 *
 * A run is identified by 16 random digits: two runs of one job and seed differ.  Its files are
 * those of checkpoint.h and log.h, job.yaml and job.set; all other files are the user's.
 */

#include "exec/checkpoint/checkpoint.h"

/* What run.json says: which run a directory holds, and who writes there (run_directory.h). */

/** The value of its key "schema". */
#define RUN_RECORD_SCHEMA "foretrain/run/1"

/** The record. */
struct run_record {
    char run[RUN_ID_SIZE];    /**< "": none yet */
    char host[65], since[32]; /**< of the last process that wrote there */
    int64_t process;          /**< its number */
};

/** Read the run of directory @path to @run.  @return whether its run.json names one. */
bool run_record_run(const char *path, char run[RUN_ID_SIZE]);

/** A directory for the files of a run.  Start from {.path = path, .lock = -1}. */
struct run_directory {
    const char *path;      /**< borrowed */
    int lock;              /**< of run.json, open; -1: none */
    char run[RUN_ID_SIZE]; /**< the directory's run; "": none yet */
};

/** Lock the directory and read directory->run from run.json; does nothing if it is locked already.
 * Directory and file are made if @make, else a directory without run.json stays unlocked.
 * @return 0, or -1 (exit code 73) with nothing changed: another process holds the lock (named by
 * number and machine); a directory or file that cannot be made, a run.json that no run wrote. */
int run_directory_lock(struct run_directory *directory, bool make, struct err *err);

/** Check that a run may write there.  A new run (@resumed NULL) needs a directory without files of
 * a run, or @overwrite and files that may all be removed.  A run that continues @resumed needs that
 * run's directory, or one without files of a run.  @return 0, or -1 (exit code 73) with advice. */
int run_directory_check(const struct run_directory *directory, const char *resumed, bool overwrite,
                        struct err *err);

/** Begin after run_directory_check(), with the lock held: remove the files of a run if @overwrite,
 * give the directory a new run unless it continues @resumed, and write run and process into
 * run.json.  Until all files are removed it names the old run.
 * @return 0, or -1 (exit code 73 or 74): what cannot be removed or written. */
int run_directory_begin(struct run_directory *directory, const char *resumed, bool overwrite,
                        struct err *err);

/** Where the open directory @file is, which was at @path: somebody may move it while a run writes
 * there.  @return its path, which the caller frees; NULL: it was removed. */
char *run_directory_follow(int file, const char *path);

/** Give the lock back. */
void run_directory_close(struct run_directory *directory);
