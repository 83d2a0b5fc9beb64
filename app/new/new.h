#pragma once

/** @file
 * First drafts of devices, platforms and jobs: commented YAML files that `check` and `predict`
 * accept at once.
 */

#include "app/cli/request.h"
#include "core/platform/platform.h"

/** What joins the devices of a node. */
struct new_inside {
    enum device_links links; /**< LINKS_NONE: their slots and a processor */
    bool mesh;
    double bandwidth; /**< one way, of a device's links or slot, in a mesh of one link [bytes/s] */
    int64_t pcie;     /**< generation of the slot that was given; 0: none */
};

/** What all kinds are asked for.  A kind's own options are 0 or NULL in the others. */
struct new_request {
    struct request head;
    const char *to; /**< NULL: standard output */
    bool overwrite;
    int32_t nodes;
    const char *gpus, *nics;     /**< "8xh100", "8x400Gb/s" */
    const char *inside, *fabric; /**< "nvlink:900GB/s", "roce"; NULL: see the manual page */
    int32_t leaves, uplinks;     /**< uplinks of each leaf */
    struct texts peak;           /**< "bf16=2250T" */
    const char *memory, *nvlink;
    int32_t pcie, capability; /**< generation of the slot; of CUDA; 0: not given */
    bool shared;              /**< other jobs are on the platform, too */
    const char *platform, *network;
    int32_t batch;        /**< images per device */
    const char *target;   /**< "75.9 %", or NULL: epochs end the job */
    const char *software; /**< NULL: the newest of MLPerf with runs on the platform's device, or
                               PyTorch: the job says that it is one of them */
};

/** Read @given, "nvlink:900GB/s", "xgmi:64GB/s@mesh" or "pcie5".
 * @return 0, or -1: anything else (exit code 64). */
int new_read_inside(struct new_inside *inside, const char *given, struct err *err);

/** Append a platform of the machine in @request.
 * @return 0, or -1: no nodes or devices, nothing known of what joins them (exit code 64), links
 * that no platform can describe (65), an unknown device (66). */
int new_platform(const struct new_request *request, struct text *out, struct err *err);

/** What a file that @request writes calls @name of a platform or device: a path is whole if the
 * file lies in another folder than here.  The caller frees it. */
char *new_reference(const struct new_request *request, const char *name);

/** The name of what @request writes: that of its file without folder and ending, or "mine".  The
 * caller frees it. */
char *new_name(const struct new_request *request);
