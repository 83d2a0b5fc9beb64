#pragma once

/** @file
 * First drafts of platforms and jobs: commented YAML files that `check` and `predict` accept at
 * once.
 */

#include "app/cli/request.h"

/** What both kinds are asked for.  A kind's own options are 0 or NULL in the other. */
struct new_request {
    struct request head;
    const char *to; /**< NULL: standard output */
    bool overwrite;
    int32_t nodes;
    const char *gpus, *nics; /**< "8xh100", "8x400Gb/s" */
    int32_t leaves, uplinks; /**< uplinks of each leaf */
    const char *platform, *network;
    int32_t batch;        /**< images per device */
    const char *target;   /**< "75.9 %", or NULL: epochs end the job */
    const char *software; /**< NULL: the newest of MLPerf with runs on the platform's device, or
                               PyTorch: the job says that it is one of them */
};

/** Append a platform of the machine in @request.
 * @return 0, or -1: no nodes or devices (exit code 64), an unknown device (66). */
int new_platform(const struct new_request *request, struct text *out, struct err *err);

/** Append a job, which exchanges gradients and starts as its software does.
 * @return 0, or -1: no nodes, a target at which no published runs ended (exit code 64), an unknown
 * platform or software (66) or network, more nodes than the platform has. */
int new_job(const struct new_request *request, struct text *out, struct err *err);

/** What a file that @request writes calls @name of a platform or device: a path is whole if the
 * file lies in another folder than here.  The caller frees it. */
char *new_reference(const struct new_request *request, const char *name);

/** The name of what @request writes: that of its file without folder and ending, or "mine".  The
 * caller frees it. */
char *new_name(const struct new_request *request);
