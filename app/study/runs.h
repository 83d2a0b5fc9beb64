#pragma once

/** @file
 * Runs that were measured, as jobs: the files FOLDER/NAME.yaml with `measured.step`.
 */

#include <stdbool.h>

#include "core/base/err.h"
#include "core/network/nccl.h"
#include "core/platform/platform.h"

/** One run. */
struct run_measured {
    char *file;     /**< base name of its job; owned */
    char *device;   /**< its name; owned */
    char *software; /**< that ran, a name; owned */
    int32_t nodes, devices_per_node;
    int64_t batch;          /**< images per device */
    double step;            /**< [s] */
    double startup;         /**< [s] beside epochs and evaluations; NAN: not given */
    bool doubtful;          /**< it counts only where no other of its software and device does */
    struct nccl_world nccl; /**< inside a node; `ranks` is 0 where that has one device */
};

/** All of a folder.  Start from {0}; release with runs_release(). */
struct runs {
    char *folder;             /**< its base name; owned */
    struct run_measured *run; /**< (count) in the order of their files */
    int32_t count;
};

/** Read the jobs of folder @path into zeroed @runs.
 * @return 0, or -1: not readable (66), no jobs, a job that is none, one that says no step or no
 * software. */
int runs_read(struct runs *runs, const char *path, struct err *err);

void runs_release(struct runs *runs);
