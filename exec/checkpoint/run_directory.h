#pragma once

/** @file
 * The directory of a run belongs to one run, and to one process at a time.
 *
 *     DIR/run.json    which run it is of, and which process wrote into it last, where and since
 * when
 *
 * Whoever writes there holds a lock (flock) on run.json.  The kernel takes it back when the process
 * ends, however it ends, so a crash leaves nothing to clean up.  On NFS the lock holds between
 * machines, unless the mount says nolock or local_lock; of a machine that is cut off the server
 * keeps it until its lease runs out.  A file system without locks is warned of.
 * Source: flock(2), "NFS details"; nfs(5), "local_lock".
 *
 * A run is known by 16 random digits: two runs of one job and seed differ.  Its files are those
 * that checkpoint.h and log.h name, and job.yaml and job.set; whatever else lies there is the
 * user's.
 */

#include <stdbool.h>

#include "core/base/err.h"
#include "exec/checkpoint/checkpoint.h"

/** A directory that a run is to write into.  Start from {.path = path, .lock = -1}. */
struct run_directory {
    const char *path;      /**< borrowed */
    int lock;              /**< of run.json, open; -1: none */
    char run[RUN_ID_SIZE]; /**< which run the directory is of; "": of none yet */
};

/** Which run directory @path is of, to @run.  @return whether its run.json says so. */
bool run_directory_run(const char *path, char run[RUN_ID_SIZE]);

/** Take the lock, and directory->run from run.json; nothing where it is held already.  Directory
 * and file are made if @make, else a directory without run.json stays unlocked.
 * @return 0, or -1 (exit code 73) with nothing changed: another process holds it, which is named by
 * number and machine; a directory or file that cannot be made, a run.json that no run wrote. */
int run_directory_lock(struct run_directory *directory, bool make, struct err *err);

/** Whether a run may write there: a new one (@resumed NULL) where no files of a run are, or all of
 * them may be removed and @overwrite says so; one that goes on with run @resumed in that run's
 * directory, or where no files of a run are.
 * @return 0, or -1 (exit code 73) with what may be done instead. */
int run_directory_check(const struct run_directory *directory, const char *resumed, bool overwrite,
                        struct err *err);

/** Begin after run_directory_check(), with the lock held: remove the files of a run if @overwrite,
 * give the directory a run of its own unless it goes on with @resumed, and write both into
 * run.json. Until all files are gone it names the old run.
 * @return 0, or -1 (exit code 73 or 74): what cannot be removed or written. */
int run_directory_begin(struct run_directory *directory, const char *resumed, bool overwrite,
                        struct err *err);

/** Give the lock back. */
void run_directory_close(struct run_directory *directory);
