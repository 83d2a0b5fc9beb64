#pragma once

/** @file
 * oneDNN's primitives for one layer each, made once with fixed operands and then only run; inside
 * exec/cpu/device_dnnl*.c alone, the only files that include oneDNN's header.
 *
 * Weights and their gradients have the layout that oneDNN likes best; "packing" copies the flat
 * masters into it, "unpacking" the gradients out of it.
 *
 * With bf16, matrix arithmetic alone is in bf16: its operands are rounded on the way in
 * ("narrowed"), sums and results are fp32, as is everything else.
 */

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/model.h"

/** The CPU as oneDNN sees it, and all memory that is released with it. */
struct engine {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_memory_t *memory; /**< (memories) */
    void **block;          /**< (blocks) allocations */
    int64_t memories, memory_capacity, blocks, block_capacity;
    dnnl_memory_t *scratch; /**< (scratches) working space of primitives, all at one place */
    int64_t scratches, scratch_capacity;
    size_t scratch_size; /**< what the largest needs [bytes] */
};

/** Most operands of a primitive. */
enum { CALL_OPERANDS = 5 };

/** A primitive with its operands. */
struct call {
    dnnl_primitive_t primitive; /**< NULL: nothing to do */
    dnnl_exec_arg_t operand[CALL_OPERANDS];
    int32_t operands;
};

/** Where the arrays of a layer lie. */
struct call_arrays {
    float *x, *y, *dy, *dx;     /**< x of the images changes from run to run; dx: NULL for them */
    float *parameter;           /**< flat: weights (out, in, kernel, kernel), then biases */
    float *gradient;            /**< as parameter */
    float *dw;                  /**< for the packed gradient, shared by all layers */
    int64_t dw_elements;        /**< of it; a layer that needs more gets its own */
    void *narrow_x, *narrow_dy; /**< for x and dy in bf16, shared; NULL: arithmetic in fp32 */
    float *bias;                /**< for the gradient of biases, unless direct; shared too */
    bool direct;                /**< one micro-batch: nothing needs to be added to the gradient */
};

/** The kind of a layer's activations. */
struct call_layout {
    int64_t images;
    bool blocks; /**< in blocks of 16 channels; else NHWC */
    bool planar; /**< x is NCHW: the images */
};

/** A convolution or linear layer. */
struct matrix {
    struct call forward, data, filter;
    struct call narrow_x, narrow_dy;     /**< to bf16, before those that read them */
    struct call pack_forward, pack_data; /**< of its weights */
    struct call unpack, unpack_add; /**< of their gradient: in place of, or onto, the flat one */
    int64_t packed_forward, packed_data; /**< which version of the weights */
};

/** A max pool. */
struct pool {
    struct call forward, backward;
};

/** Start oneDNN.  Release with engine_release(). */
void engine_init(struct engine *engine);

/** Release, and everything that engine_alloc() gave. */
void engine_release(struct engine *engine);

/** Zeroed floats, on large pages where that pays; released with the engine. */
float *engine_alloc(struct engine *engine, int64_t count);

/** Give all primitives made so far their common working space; before the first is run.  oneDNN's
 * own would belong to the thread that makes a primitive, and another runs it. */
void engine_share_scratch(struct engine *engine);

/** Run @call, if there is one. */
void call_run(const struct engine *engine, const struct call *call);

/** Run @call with @data as its input x. */
void call_run_on(const struct engine *engine, const struct call *call, const float *data);

/** Make the primitives of @layer.
 * @return 0, or -1 (exit code 69): oneDNN cannot run it. */
int matrix_open(struct engine *engine, const struct layer *layer, struct call_layout layout,
                const struct call_arrays *arrays, struct matrix *matrix, struct err *err);

/** Release. */
void matrix_close(struct matrix *matrix);

/** As matrix_open(), of a max pool. */
int pool_open(struct engine *engine, const struct layer *layer, struct call_layout layout,
              const struct call_arrays *arrays, struct pool *pool, struct err *err);

/** Release. */
void pool_close(struct pool *pool);
