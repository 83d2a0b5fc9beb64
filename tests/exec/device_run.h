#pragma once

/** @file
 * One device and one network for tests: iterations on fixed batches, without MPI and without a
 * schedule, step after step as core/schedule/iteration.h orders them.
 */

#include "exec/step/device.h"

/** What to run.  Pointers are borrowed. */
struct device_run_job {
    const struct device_ops *ops;
    const struct model *model;
    int32_t batch, micro_batches, threads;
    double learning_rate; /**< SGD with momentum 0.9, decay 1e-4, label smoothing 0.1; of tokens
                             AdamW with clipping at 1 and no smoothing */
    double shift;         /**< added to batch norm's: the larger, the fewer values lie at a ReLU's
                             corner, where gradients jump with the rounding */
    enum dtype compute;   /**< fp32 unless said */
    enum attention attention;
    enum dtype gradients;    /**< in which they would travel; fp32 unless said */
    double loss_scale;       /**< 0: 4 */
    int64_t padding;         /**< elements behind the gradients, of devices that pad */
    int32_t batches;         /**< that iterations take in turn; 0: 1 */
    int32_t ranks;           /**< that would add their gradients; 0: 1 */
    uint64_t seed;           /**< of weights, images and labels */
    const struct rate *rate; /**< (rate_count) as of struct device_job; NULL: none */
    int32_t rate_count;
    bool blank; /**< weights are left as open() leaves them, which saves seconds: what is issued is
                   not to be run */
};

/** A device at work.  Read freely. */
struct device_run {
    struct device_run_job job;
    struct scenario scenario;
    struct layout layout;
    struct weights weights; /**< those it started from */
    float *images;          /**< (batches, batch, height, width, channels) */
    int32_t *label;         /**< (batches, batch) */
    int32_t given;          /**< batches that the device has asked for */
    struct device_state *state;
    struct stream *stream;
    int32_t iteration; /**< the next */
};

/** Make data and weights (batch norm's scales and shifts random too) and open the device.
 * @return 0, or -1: see device_ops.open.  Either way device_run_close(). */
int device_run_open(struct device_run *run, const struct device_run_job *job, struct err *err);

/** Issue one iteration.  @return its steps, which must live until it is done; owned. */
struct step *device_run_issue(struct device_run *run);

/** Run one iteration and wait for it.  @return what came of it. */
struct outcome device_run_step(struct device_run *run);

/** Fill @scores (batch / micro_batches, classes) for the first images of the first batch. */
void device_run_score(struct device_run *run, float *scores);

/** Release. */
void device_run_close(struct device_run *run);
