#pragma once

/** @file
 * Fit software profiles to runs on one node.
 *
 * Each run on one node belongs to a device and to a software.  One efficiency is fitted per
 * device and software, one overhead per kernel for software with CUDA graphs and one for software
 * without; see app/study/fit.h.  Runs on several nodes are never used.
 */

#include <stdbool.h>

#include "app/study/fit.h"
#include "core/base/err.h"
#include "core/network/nccl.h"
#include "core/platform/platform.h"
#include "core/platform/software.h"

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

/** Those of a folder, whose jobs say `measured.step`.  Start from {0}; release with runs_release().
 */
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

/** A device as software drives it. */
struct software_fit_group {
    const char *device;       /**< borrowed from software_fit.device */
    const char *software;     /**< borrowed from software_fit.software */
    const char *fusion;       /**< a word of fusion_names */
    const char *small_fusion; /**< up to small_batch images; likewise */
    int32_t small_batch;      /**< 0: never */
    int32_t rows;
    double efficiency, efficiency_sd, overhead, overhead_sd, correlation;
    double residual; /**< standard deviation of the group's rows about the fit */
};

/** A run left out of the fit by family, predicted from its device's data sheet. */
struct software_fit_check {
    const struct run_measured *run; /**< borrowed */
    double predicted, measured;     /**< one step [s] */
};

/** Time of a run beyond its epochs and evaluations. */
struct software_fit_excess {
    const char *software; /**< borrowed from software_fit.software */
    double seconds;       /**< measured; below 0 where the first epoch was the fastest */
};

/** Kinds of software that share an overhead: see struct software_fit_pool. */
enum launch { LAUNCH_SINGLE, LAUNCH_GRAPH, LAUNCH_COUNT };

/** Assumed efficiency of devices without runs: the median of all devices under MLPerf's software,
 * and its spread. */
struct software_fit_pool {
    double efficiency, efficiency_sd;
    double overhead[LAUNCH_COUNT], overhead_sd[LAUNCH_COUNT];
};

/** The answer.  Start from {0}; release with software_fit_release(). */
struct software_fit {
    struct software_fit_group *group;   /**< (groups) by software, then device */
    struct software_fit_check *check;   /**< (checks) */
    struct software_fit_excess *excess; /**< (excesses) of the runs that have one */
    struct software_fit_pool pool;
    char **device, **software; /**< names, sorted; owned */
    struct software **known; /**< (softwares) the profile that is there, whose kinds of kernels are
                                  kept; NULL: none is */
    int32_t groups, checks, devices, softwares, excesses;
    int32_t rows;        /**< fitted */
    int32_t several;     /**< left out: more than one node */
    int32_t doubtful;    /**< left out: others of their software and device are better known */
    double median_error; /**< of |predicted / measured - 1| of the fitted rows */
    double residual;     /**< robust standard deviation of all rows */
    char *folder;        /**< base name of the runs' folder; owned */
};

/** Calibrate with @runs, without those of devices of family @without ("H100"; NULL: all), which are
 * predicted instead, into zeroed @software_fit.  Borrows from @runs.
 * @return 0, or -1: no run to fit, a device file that cannot be read, a fit that fails. */
int software_fit_make(struct software_fit *software_fit, const struct runs *runs,
                      const char *without, struct err *err);

void software_fit_release(struct software_fit *software_fit);

/** Time of MLPerf's runs on one node before the first step runs at full speed. */
struct software_fit_startup {
    double seconds;     /**< the median, at least 0 */
    int32_t runs;       /**< used for it */
    const char *whence; /**< which runs: "under it", "of its era", "of all rounds"; static */
};

/** The start-up of @software, a round of MLPerf: the median excess of its runs; without any, of
 * those of its era (launching kernels the same way), else of all.
 * @return whether there is one: false for other software, whose runs have another clock. */
bool software_fit_startup(const struct software_fit *software_fit, const char *software,
                          struct software_fit_startup *startup);

/** Append the profile of @software as a file of platforms/software.  Devices without a run under it
 * get the fit of the nearest round, with more uncertainty. */
void software_fit_profile(struct text *out, const struct software_fit *software_fit,
                          const char *software);

/** How each profile begins. */
#define SOFTWARE_FIT_PROFILE "# Written by: foretrain calibrate"

/** Facts of a software that runs do not show. */
struct software_era {
    const char *name;        /**< "mlperf-v1.0"; NULL: any other */
    const char *description; /**< for people */
    int32_t nccl;            /**< 100 * major + minor; 0: not known */
    enum launch launch;
    int32_t groups;          /**< all-reduces per step within a node */
    int32_t groups_at_scale; /**< and between nodes */
    bool overlap;            /**< they start during the backward pass */
    enum fusion volta;       /**< fusion on compute capability 70 */
    enum fusion fusion;      /**< highest fusion on others, if their libraries support it */
    int32_t small_batch; /**< images per device up to which it merges only normalize, add and ReLU,
                              before compute capability 90 */
    const char *overlap_costs; /**< lines of its profile; NULL: none */
    bool wide_gradients;       /**< they travel in fp32, else in fp16 */
};

/** Coefficient of variation of a device's step time.
 * Source: published throughput of one against eight devices (NVIDIA DeepLearningExamples MXNet:
 * V100 1376 and 1340 images/s each, A100 3410 and 3334): 2.0 % longer without the all-reduce, over
 * the expected maximum of eight normals, 1.42. */
#define CALIBRATION_JITTER 0.014
