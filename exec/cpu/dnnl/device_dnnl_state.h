#pragma once

/** @file
 * A network in the memory of the oneDNN device; only for exec/cpu/dnnl/device_dnnl*.c.
 */

#include "core/schedule/model.h"
#include "exec/cpu/device_cpu.h"
#include "exec/cpu/dnnl/device_dnnl_engine.h"
#include "exec/cpu/dnnl/kernels.h"
#include "exec/step/backward_plan.h"

/* oneDNN's primitives for one layer each, made once with fixed operands and then only run; only for
 * exec/cpu/dnnl/device_dnnl*.c.
 *
 * Weights and their gradients have the layout that oneDNN prefers; "packing" copies the flat
 * masters into it, "unpacking" the gradients out of it.
 *
 * With bf16, only matrix arithmetic is in bf16: its operands are rounded first ("narrowed"); sums,
 * results and everything else are fp32. */

/** The arrays of a layer. */
struct call_arrays {
    float *x, *y, *dy, *dx;     /**< for images, x changes from run to run and dx is NULL */
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
    struct call unpack, unpack_add; /**< of their gradient: overwriting the flat one, or adding to
                                         it */
    int64_t packed_forward, packed_data; /**< which version of the weights */
};

/** A max pool. */
struct pool {
    struct call forward, backward;
};

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

/** Everything that belongs to one layer. */
struct dnnl_place {
    float *y;             /**< (micro-batch, out) its value; NULL when it is never written */
    float *given[2], *dx; /**< as struct backward_plan says */
    struct norm norm;     /**< of batch norm */
    struct matrix matrix; /**< of a convolution or linear layer */
    struct pool pool;     /**< of a max pool */
    int64_t narrowed;     /**< which version of its weights is in state's `narrow` */
};

/** What a thread has for the operands of products in bf16. */
enum { ROOMS = 2 };

/** See exec/step/device.h. */
struct device_state {
    struct cpu_device cpu;
    struct backward_plan plan;
    struct engine engine;
    struct call_layout kind;  /**< of activations */
    struct dnnl_place *place; /**< (layers) */
    float *scratch;           /**< of sums */
    float *bias;              /**< gradient of one layer's biases */
    float *beside;            /**< of a value to which readers add, one of these */
    void **room;              /**< (threads, ROOMS) */
    uint16_t *narrow;         /**< (parameters) weights of products in bf16, on large pages; NULL:
                                   rounded in a room for each */
    int64_t workspace;        /**< of the engine's bytes, those of layers */
};

/** Make the primitive of @p in bf16 into zeroed @call, and describe a, b and c in @operand (3). */
void product_make(struct engine *engine, const struct product *p, struct call *call,
                  tensor_desc *operand);

/** Shape and blocks of the value of layer @index, for a micro-batch. */
struct blocked state_shape(const struct device_state *state, int32_t index);

/** Where layer @index writes the gradient of its input: struct backward_plan's place, or beside it
 * where readers add and another has been there before. */
float *state_dx(const struct device_state *state, int32_t index);

/** Allocate and make all primitives of @passes, for the job's number of threads; or, with
 * @describes, only for `workspace`: nothing is allocated, and no primitive is made.
 * @return 0, or -1 (exit code 69): oneDNN cannot run a layer.  Either way state_release(). */
int state_init(struct device_state *state, const struct device_job *job,
               const struct cpu_passes *passes, bool describes, struct err *err);

void state_release(struct device_state *state);
