#pragma once

/** @file
 * A place to try plans on the device: operands with known contents, a stream and a clock.
 *
 * Operands have the size of those in training, so times are the same.
 */

#include <stdint.h>

#include "exec/cuda/conv/conv_check.h"
#include "exec/cuda/conv/conv_cudnn_engine.h"

/** Operands and expected results. */
struct conv_trial;

/** Allocate the operands of @op on @shape on the current device and, with @checked, fill them and
 * compute samples of the result, which takes up to a second.
 * @return 0, or -1 (exit code 69): not enough memory on the device, or it failed. */
int conv_trial_open(struct conv_trial **trial, cudnnHandle_t handle, enum conv_op op,
                    const struct conv_shape *shape, bool checked, struct err *err);

/** Release; accepts NULL. */
void conv_trial_close(struct conv_trial *trial);

/** Make room for a plan that needs @workspace.  @return 0, or -1: there is no room, which is not an
 * error.
 */
int conv_trial_reserve(struct conv_trial *trial, int64_t workspace);

/** What came of a run. */
enum conv_verdict {
    CONV_RIGHT,
    CONV_WRONG,  /**< the result is wrong, or differs from run to run */
    CONV_REFUSED /**< the library did not run it, or cannot while a stream is captured */
};

/** Run @plan once on operands with any contents. */
enum conv_verdict conv_trial_run(struct conv_trial *trial, cudnnBackendDescriptor_t plan,
                                 struct err *err);

/** Run @plan twice over a result of NaN: all of it must be written, samples must agree with the
 * host's, and both runs with each other, bit for bit: samples, and our own kernel's sums of it all.
 * The trial must have been opened with
 * @checked.  An entry in @err: the device failed, and nothing further will work. */
enum conv_verdict conv_trial_check(struct conv_trial *trial, cudnnBackendDescriptor_t plan,
                                   struct err *err);

/** What first was wrong with a plan: "element 7 is 1 instead of 2"; if nothing was, why one was not
 * run, or "". */
const char *conv_trial_fault(const struct conv_trial *trial);

/** conv_clock_time() of @plan.  Infinite: it was refused, or it failed, with an entry in @err. */
double conv_trial_time(struct conv_trial *trial, cudnnBackendDescriptor_t plan, int32_t runs,
                       struct err *err);
