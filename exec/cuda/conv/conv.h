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
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "core/base/dtype.h"
#include "core/base/err.h"
#include "core/schedule/model.h"

/** What to compute.  Where batch norm and ReLU are applied, the convolution's input is not x but
 * max(x * scale + shift, 0), per channel, which is never written; its padding is still 0.  At the
 * end of a block a residual, or that one's batch norm, is added before the maximum, and what the
 * convolution reads is written too, as the value of the block.
 *
 * In backward through both, dx is 0 where the ReLU, recomputed from the input of batch norm, was 0,
 * and the sums of dx that batch norm's backward needs are formed too.  At the end of a block the
 * ReLU is that of a sum, of batch norm's result and a residual or a second batch norm's, and the
 * gradient of the sum's other reader is added to the convolution's before it is cut.
 *
 * These ops exist only in fp16: cuDNN 9.19 has them for no other type, and not on every device the
 * application without sums. */
enum conv_op {
    CONV_FORWARD,                 /**< x, w -> y */
    CONV_FORWARD_SUMS,            /**< x, w -> y, and per channel sums of y and of y * y */
    CONV_FORWARD_APPLIED_SUMS,    /**< x, factors, w -> y and its sums */
    CONV_FORWARD_ADD_SUMS,        /**< x, factors, residual, w -> value, y and its sums */
    CONV_FORWARD_ADD_TWO_SUMS,    /**< the same with factors of the residual */
    CONV_BACKWARD_DATA,           /**< dy, w -> dx */
    CONV_BACKWARD_DATA_NORM,      /**< dy, w, norm -> dx, and norm's gradient */
    CONV_BACKWARD_DATA_ADD_NORM,  /**< dy, w, other, norm, residual -> dx, and norm's gradient */
    CONV_BACKWARD_DATA_ADD_NORMS, /**< dy, w, other, both norms -> dx, and both gradients */
    CONV_BACKWARD_FILTER,         /**< x, dy -> dw */
    CONV_BACKWARD_FILTER_APPLIED, /**< x, factors, dy -> dw */
    CONV_OP_COUNT
};

/** What each enum conv_op is made of, in its order. */
extern const struct conv_parts {
    const char *name; /**< "forward", "forward-sums" and so on */
    enum pass pass;   /**< its direction: y, dx or dw is written */
    bool sums;        /**< it sums its output */
    bool applies;     /**< it applies factors to x */
    int32_t norms;    /**< how many batch norms' backward it includes, with that of the ReLU behind
                           them: 0 to 2 */
    bool adds;     /**< the ReLU that it includes, forward or backward, is at the end of a block */
    bool pairs;    /**< what is added there is a batch norm's result */
    bool optional; /**< an engine may be missing, because other ops can replace it */
} conv_ops[CONV_OP_COUNT];

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
 * If it @tunes, settings of the engines for optional ops are varied, which takes up to half a
 * second more for each plan.  Their plans are kept in another file, @cache with "-tuned" behind,
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
 * @return NULL and nothing in @err: the library has no engine for it, use another op; NULL and an
 * entry (exit code 69): it failed. */
const struct conv_plan *conv_plan(struct conv_library *library, enum conv_op op,
                                  const struct conv_shape *shape, struct err *err);

/** Memory that the plan needs while it runs [bytes]. */
size_t conv_workspace(const struct conv_plan *plan);

/** Time of one run when the plan was found [s]. */
double conv_seconds(const struct conv_plan *plan);

/** A convolution and our kernels before and behind it, as they follow each other in training.
 * Chains that do the same are compared; of those in which a convolution includes more, the first of
 * the same kind is what is left without it. */
enum conv_chain {
    CONV_CHAIN_FORWARD,            /**< convolution; sums of y; statistics */
    CONV_CHAIN_FORWARD_SUMS,       /**< convolution with sums; statistics */
    CONV_CHAIN_APPLY_FORWARD,      /**< application to x; CONV_CHAIN_FORWARD; gradient of weights */
    CONV_CHAIN_APPLY_FORWARD_SUMS, /**< the same with CONV_CHAIN_FORWARD_SUMS */
    CONV_CHAIN_APPLIED,            /**< the same, where both convolutions apply */
    CONV_CHAIN_IMAGES,             /**< convolution of images, with sums if there is such a plan;
                                        statistics; gradient of weights */
    CONV_CHAIN_IMAGES_NARROW,      /**< the same, where images have fewer channels */
    CONV_CHAIN_END,        /**< application and addition; convolution, with sums if there is such
                                a plan; statistics */
    CONV_CHAIN_END_MERGED, /**< convolution that does so; statistics */
    CONV_CHAIN_END_TWO,    /**< the same two, where another application is added */
    CONV_CHAIN_END_TWO_MERGED,
    CONV_CHAIN_BACKWARD,      /**< gradient of data; sums, factors and application of batch norm's
                                   backward, where a mask was written */
    CONV_CHAIN_BACKWARD_CUT,  /**< the same, where the mask is recomputed */
    CONV_CHAIN_BACKWARD_NORM, /**< gradient of data through batch norm; application */
    CONV_CHAIN_BACKWARD_ADD,  /**< CONV_CHAIN_BACKWARD at the end of a block, where sums add the
                                   other gradient */
    CONV_CHAIN_BACKWARD_ADD_NORM,  /**< gradient of data through that; application */
    CONV_CHAIN_BACKWARD_ADD_TWO,   /**< CONV_CHAIN_BACKWARD_ADD; sums, factors and application of a
                                        second batch norm's backward */
    CONV_CHAIN_BACKWARD_ADD_NORMS, /**< gradient of data through both; two applications */
    CONV_CHAIN_POOL,               /**< no convolution: application of batch norm, maximum pool, and
                                        back through both */
    CONV_CHAIN_POOL_MERGED, /**< the same, where the pool applies and its gradient is gathered */
    CONV_CHAIN_COUNT
};

/** "chain-forward", "chain-forward-sums" and so on. */
extern const char *const conv_chain_names[];

/** Fill seconds[] of the chains in @wanted (bit n: chain n).  @return 0, or -1: it cannot. */
typedef int (*conv_measure)(void *context, uint32_t wanted, double seconds[CONV_CHAIN_COUNT]);

/** Times of the chains in @wanted beside a convolution of @shape [s]: from the cache file if it has
 * them all, or from @measure, whose results are then kept like plans.
 * @return 0, or -1: @measure failed, and nothing is kept. */
int conv_chain_seconds(struct conv_library *library, uint32_t wanted,
                       const struct conv_shape *shape, double seconds[CONV_CHAIN_COUNT],
                       conv_measure measure, void *context);

/** Name of the engine, for people: "engine 47, tensor cores". */
const char *conv_engine(const struct conv_plan *plan);

enum { CONV_DERIVED_COUNT = 5 /**< numbers per channel: see conv_norm.derived */ };

/** A batch norm that an op goes back through. */
struct conv_norm {
    const void *x;           /**< its input, of the shape of dx */
    const float *statistics; /**< (2, in channels) mean, 1 / deviation of x */
    const float *parameter;  /**< (2, in channels) scale, shift */
    float *derived; /**< (CONV_DERIVED_COUNT, in channels) written: gradient of its scale, of its
                       shift; then f so that the gradient of x is f[0] * dx + f[1] * x + f[2] */
};

/** Operands of one run: those of its op. */
struct conv_call {
    const void *x, *w, *dy;
    const void *factors; /**< (2, in channels) of `type`, if the op applies them: scale, shift */
    struct conv_norm norm[2];
    const void *residual; /**< what is added to batch norm's result, of the shape of x; if the op
                             pairs, the input of the batch norm that gives it */
    const void *residual_factors; /**< its factors, where forward pairs */
    const void *other;            /**< a gradient that is added to dx; not dx itself */
    void *y, *dx, *dw;
    void *value; /**< of the block, of the shape of x, where forward adds */
    float *sums; /**< (2, out channels) if the op has sums: of y, then of y * y */
    void *workspace;
};

/** Issue one run on @stream.  A failure of the library ends the process with exit code 70 and its
 * reason. */
void conv_run(const struct conv_plan *plan, cudaStream_t stream, const struct conv_call *call);
