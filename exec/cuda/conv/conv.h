#pragma once

/** @file
 * Convolutions on the GPU: one plan per operation and shape, from the fastest correct engine.
 *
 * x (batch, in height, in width, in channels), y the same with `out`: NHWC; w and dw (out channels,
 * height, width, in channels): KRSC.  Linear layers are convolutions of one pixel.  x, w, y of
 * `type`, dw too: cuDNN 9.19 has no engine that leaves it in fp32 where x is of 16 bits.
 * Arithmetic and sums are fp32.  Pointers are to device memory, on 16 bytes.
 *
 * Plans are found by trying the library's engines on the device, timed by its clock.  An engine
 * must agree with the host's results and give the same bits twice; the fastest is used.  It is kept
 * in a cache file (exec/cuda/conv/conv_cache.h), with library version, device name, op and shape as
 * key, so another kind of device never runs a plan it has not tried.  Searches may find different
 * engines, which changes the last bits of results: runs, and ranks, are equal bit for bit when they
 * share a file, where the first entry is used.
 *
 * Calls of one library come from one thread at a time.
 */

#include <stdbool.h>
#include <stddef.h>

#include <cuda_runtime_api.h>

#include "core/base/dtype.h"
#include "core/base/err.h"

/** What to compute. */
enum conv_op {
    CONV_FORWARD,         /**< x, w -> y */
    CONV_BACKWARD_DATA,   /**< dy, w -> dx */
    CONV_BACKWARD_FILTER, /**< x, dy -> dw */
    CONV_OP_COUNT
};

/** "forward", "backward-data", "backward-filter". */
extern const char *const conv_names[CONV_OP_COUNT];

/** One shape; channels with padding. */
struct conv_shape {
    enum dtype type;
    int32_t batch;
    int32_t in_channels, in_height, in_width;
    int32_t out_channels, out_height, out_width;
    int32_t kernel, stride, padding; /**< the same both ways */
};

/** The library and its cache of plans on one device. */
struct conv_library;

/** A plan that can be run any number of times; owned by its library. */
struct conv_plan;

/** Start the library on the current device.  @cache is a file that is read now, and written
 * whenever a plan was found (its directory is made); NULL: none is kept.  Damaged lines are
 * reported on stderr and left out; so is a file of another kind, or one that cannot be read or
 * written.
 *
 * If it @tunes, settings of the engines are varied, which takes up to half a second more for
 * each plan.  Their plans are kept in another file, @cache with "-tuned" behind,
 * which begins with those in @cache.
 * @return 0, or -1 (exit code 69): there is no GPU, or the library does not start, with the reason.
 */
int conv_open(struct conv_library **library, const char *cache, bool tunes, struct err *err);

/** Release the library and its plans; accepts NULL. */
void conv_close(struct conv_library *library);

/** The plan for @op on @shape: from memory, from the cache file, or by a search.  A search takes up
 * to seconds and needs device memory for the operands and a workspace of up to
 * MEMORY_WORKSPACE_LIMIT (core/schedule/memory.h), all released afterwards.  The plan has already
 * run once, so it may be captured.
 * @return NULL and nothing in @err: the library has no engine for it; NULL and an
 * entry (exit code 69): it failed. */
const struct conv_plan *conv_plan(struct conv_library *library, enum conv_op op,
                                  const struct conv_shape *shape, struct err *err);

/** Memory that the plan needs while it runs [bytes]. */
size_t conv_workspace(const struct conv_plan *plan);

/** Operands of one run: those of its op. */
struct conv_call {
    const void *x, *w, *dy;
    void *y, *dx, *dw, *workspace;
};

/** Issue one run on @stream.  A failure ends the process with exit code 70 and the reason. */
void conv_run(const struct conv_plan *plan, cudaStream_t stream, const struct conv_call *call);
