#pragma once

/** @file
 * Devices beside the naive one, on runs of tests/exec/device_run.h.
 */

#include "tests/exec/device_run.h"

/** How far two runs are apart, relatively, or how far they may be. */
struct difference {
    double loss, norm;
    double gradient, tensor; /**< the whole gradient, and the worst of its tensors */
    double parameter, statistic, score;
    double least; /**< which the gradient must reach */
};

/** |a - b| / |b| */
double relative(const float *a, const float *b, int64_t count);

/** Open @run for @job; fails the test where that fails. */
void device_open(struct device_run *run, struct device_run_job job);

/** The gradients of @run in fp32 and torchvision's order; the caller frees them. */
typedef float *device_gradients(struct device_run *run);

/** Two steps of @job in its types, each followed by inference, agree with those in fp32 on the
 * naive device within @limit.  Sums in another order are rounded otherwise.  Where that moves a
 * value across a ReLU's corner or makes another element of a window its maximum, a gradient jumps
 * by what one pixel brings: three sets of data must agree before more than @jumps jump, which then
 * agree within @jumped in all but gradients; NULL: in nothing. */
void device_compare(struct device_run_job job, device_gradients *gradients, int32_t jumps,
                    const struct difference *limit, const struct difference *jumped);
