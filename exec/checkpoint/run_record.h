#pragma once

/** @file
 * What run.json says: which run a directory holds, and who writes there (run_directory.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include "exec/checkpoint/checkpoint.h"

/** The value of its key "schema". */
#define RUN_RECORD_SCHEMA "foretrain/run/1"

/** The record. */
struct run_record {
    char run[RUN_ID_SIZE];    /**< "": none yet */
    char host[65], since[32]; /**< of the last process that wrote there */
    int64_t process;          /**< its number */
};

/** Read run.json of directory @path into @record.
 * @return 0, with an empty record for an empty file, or -1: missing, or not written by a run. */
int run_record_read(const char *path, struct run_record *record);

/** Read the run of directory @path to @run.  @return whether its run.json names one. */
bool run_record_run(const char *path, char run[RUN_ID_SIZE]);
